"""Files on their way into a bucket of Oracle's: small ones in one request, large ones in parts, several at a time."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import NotFound, StoreBusy, StoreError
from .again import patiently

if TYPE_CHECKING:
    from .oci_bucket import OciBucket

T = TypeVar("T")

ONE_PUT = 64 << 20
"""What is smaller goes in one request."""
_PART = 16 << 20
_MOST_PARTS = 9000
"""Parts of one upload: Oracle takes 10,000."""
_SENT_AT_ONCE = 8
_PATIENCE = 15.0
"""Seconds in which a part that was refused is sent again: those that have arrived are worth it."""
_KIND = "application/octet-stream"


def put_file(bucket: OciBucket, name: str, path: Path) -> None:
    """Puts the content of a file: all of it, or nothing."""
    with path.open("rb") as file:
        descriptor = file.fileno()
        size = os.fstat(descriptor).st_size
        if size > ONE_PUT:
            _Upload(bucket, name, descriptor, size).put()
            return

        def put(client: Any, *place: str) -> None:
            body = Stretch(descriptor, 0, size) if size else b""
            client.put_object(*place, name, body, content_length=size, content_type=_KIND, **bucket.sealing)

        bucket.ask("write", name, put)


class _Upload:
    """One upload in parts."""

    def __init__(self, bucket: OciBucket, name: str, descriptor: int, size: int) -> None:
        self._bucket, self._name, self._descriptor, self._size = bucket, name, descriptor, size
        self._part = max(_PART, -(-size // _MOST_PARTS))
        self._mark = secrets.token_hex(8)

    def put(self) -> None:
        upload = patiently(self._begin, _PATIENCE)
        try:
            tags = self._send(upload)
            self._commit(upload, tags)
        except BaseException:
            self._abort(upload)
            raise

    def _begin(self) -> str:
        from .oci_bucket import MARK

        details = {"object": self._name, "contentType": _KIND, "metadata": {f"opc-meta-{MARK}": self._mark}}
        sealing = self._bucket.sealing
        begun = self._ask(lambda client, *place: client.create_multipart_upload(*place, details, **sealing))
        return str(begun.data["uploadId"])

    def _send(self, upload: str) -> list[str]:
        from concurrent.futures import ThreadPoolExecutor

        numbers = range(-(-self._size // self._part))

        def send(number: int) -> str:
            return patiently(lambda: self._send_part(upload, number), _PATIENCE)

        with ThreadPoolExecutor(min(_SENT_AT_ONCE, len(numbers))) as pool:
            try:
                return list(pool.map(send, numbers))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _send_part(self, upload: str, number: int) -> str:
        start = number * self._part
        size = min(self._part, self._size - start)

        def send(client: Any, *place: str) -> str:
            body = Stretch(self._descriptor, start, size)
            sent = client.upload_part(*place, self._name, upload, number + 1, body, content_length=size)
            return str(sent.headers["etag"])

        return self._ask(send)

    def _commit(self, upload: str, tags: list[str]) -> None:
        parts = {"partsToCommit": [{"partNum": number, "etag": tag} for number, tag in enumerate(tags, 1)]}
        try:
            patiently(
                lambda: self._ask(
                    lambda client, *place: client.commit_multipart_upload(*place, self._name, upload, parts)
                ),
                _PATIENCE,
            )
        except NotFound:
            # Where the reply to an attempt was lost, the next one finds no upload any more, but an object of ours.
            if self._bucket.mark(self._name) != self._mark:
                raise StoreBusy(f"the upload of {self._name!r} was ended by another") from None

    def _abort(self, upload: str) -> None:
        """What cannot be aborted either is left to the bucket's own rules."""
        try:
            patiently(
                lambda: self._ask(lambda client, *place: client.abort_multipart_upload(*place, self._name, upload)),
                _PATIENCE,
            )
        except StoreError:
            return

    def _ask(self, call: Callable[..., T]) -> T:
        return self._bucket.ask("write", self._name, call)


class Stretch:
    """Some of a file as the body of a request: so many bytes and no other number, whatever becomes of the file."""

    def __init__(self, descriptor: int, start: int, size: int) -> None:
        self._descriptor, self._at, self._left = descriptor, start, size

    def __len__(self) -> int:
        return self._left

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        data = os.pread(self._descriptor, wanted, self._at)
        if wanted and not data:
            raise StoreError("the file became shorter while it was put into the work dir")
        self._at += len(data)
        self._left -= len(data)
        return data
