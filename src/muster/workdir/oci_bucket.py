"""Buckets of Oracle's object storage, through its SDK or, where that is not installed, through a client of our own.

Nothing is asked, nor the SDK imported, before the first use.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ..clouds import oci
from ..clouds.moments import seconds
from ..clouds.refusals import Answer, Asked, Words, refusal
from ..errors import AlreadyExists, NotFound, ObjectChanged, StoreBusy, StoreError
from .addresses import read_address
from .bucket import BucketStore, Part
from .oci_upload import put_file
from .store import Capabilities, Entry

T = TypeVar("T")

POLL_SECONDS = 12.0
MARK = "muster-mark"
_OPTIONS = ("auth", "endpoint", "kms_key", "profile", "region")
_PAGE = 1000


def open_oci(url: str) -> BucketStore:
    """`oci://bucket@namespace/prefix`. A namespace that is left out is the one of whoever asks."""
    address = read_address(url, _OPTIONS)
    bucket, at, namespace = address.bucket.partition("@")
    if not bucket or (at and not namespace) or "@" in namespace:
        raise StoreError(f"no bucket in {url!r}", "Write oci://BUCKET@NAMESPACE/PREFIX.")
    if "auth" in address.options:
        oci.check_way(address.options["auth"])
    endpoint = address.options.get("endpoint", "")
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise StoreError(f"{address.url}: not an endpoint: {endpoint}", "Write endpoint=https://HOST.")
    return BucketStore(address.url, OciBucket(bucket, namespace, address.options), address.prefix)


class Door(NamedTuple):
    """What is needed to ask anything: the client and its errors, who we are, and in which words we are refused."""

    clients: Any
    client: Any
    session: oci.Session
    namespace: str
    words: Words


class OciBucket:
    """One bucket as the SDK sees it."""

    def __init__(self, bucket: str, namespace: str, options: Mapping[str, str]) -> None:
        self._bucket, self._namespace, self._options = bucket, namespace, options
        self._lock = threading.Lock()
        self._door: Door | None = None

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(atomic_create=True, poll_seconds=POLL_SECONDS, parallel=32, billed=True)

    @property
    def sealing(self) -> dict[str, str]:
        """The key that what is written is encrypted with, where one is named."""
        return {"opc_sse_kms_key_id": key} if (key := self._options.get("kms_key")) else {}

    def put(self, name: str, data: bytes, mark: str | None = None) -> None:
        only: dict[str, Any] = {} if mark is None else {"if_none_match": "*", "opc_meta": {MARK: mark}}
        settings = {"content_type": "application/octet-stream", **self.sealing, **only}
        self.ask("write", name, lambda client, *place: client.put_object(*place, name, data, **settings))

    def put_file(self, name: str, path: Path) -> None:
        put_file(self, name, path)

    def get(self, name: str, start: int, size: int, tag: str = "") -> Part:
        settings = {"range": f"bytes={start}-{start + size - 1}", **({"if_match": tag} if tag else {})}

        def read(client: Any, *place: str) -> Part:
            found = client.get_object(*place, name, **settings)
            data = found.data.raw.read(decode_content=False)
            return Part(data, _total(found.headers), found.headers.get("etag", ""))

        try:
            return self.ask("read", name, read)
        except _Behind:
            headers = self._head(name)
            return Part(b"", int(headers["content-length"]), headers.get("etag", ""))

    def mark(self, name: str) -> str:
        try:
            return str(self._head(name).get(f"opc-meta-{MARK}", ""))
        except NotFound:
            return ""

    def list(self, folder: str, after: str) -> Iterator[Entry]:
        for page in self._pages(folder, after, fields="name,size,etag,timeModified"):
            for found in page["objects"]:
                # An empty object that stands for a folder, as the console makes them, is none of ours.
                if found["name"] > after and not found["name"].endswith("/"):
                    modified = seconds(found["timeModified"])
                    yield Entry(found["name"], found["size"], modified, found["etag"])

    def names(self, folder: str) -> Iterable[str]:
        for page in self._pages(folder, "", fields="name", delimiter="/"):
            folders = (name.rstrip("/") for name in page.get("prefixes") or ())
            files = (found["name"] for found in page["objects"])
            yield from (name[len(folder) :] for name in (*folders, *files) if name != folder)

    def delete(self, names: Sequence[str]) -> None:
        if len(names) == 1:
            self._delete_one(names[0])
        else:
            self._delete_many(names)

    def ask(self, verb: str, name: str, call: Callable[..., T]) -> T:
        """Calls with the client, the namespace and the bucket. What the SDK raises becomes ours.

        A 401 may mean that a token was renewed; then there is another attempt, which is why `call` must make the
        body that it sends.
        """
        door = self._opened()
        failures = door.clients.FAILURES
        seen = door.session.signer.renewals
        try:
            return call(door.client, door.namespace, self._bucket)
        except failures as error:
            if getattr(error, "status", 0) != 401 or not door.session.signer.renew(seen):
                raise self._told(door, verb, name, error) from error
        try:
            return call(door.client, door.namespace, self._bucket)
        except failures as error:
            raise self._told(door, verb, name, error) from error

    # --- inside ------------------------------------------------------------------------------------------

    def _opened(self) -> Door:
        with self._lock:
            if self._door is None:
                self._door = self._open()
            return self._door

    def _open(self) -> Door:
        options = self._options
        session = oci.session(options.get("auth"), options.get("profile"), options.get("region"))
        clients = oci.clients()
        client = clients.object_storage(session, options.get("endpoint") or oci.endpoint())
        door = Door(clients, client, session, self._namespace, oci.words(session.way))
        try:
            return door if door.namespace else door._replace(namespace=client.get_namespace().data)
        except clients.FAILURES as error:
            raise self._told(door, "read", "", error) from error

    def _head(self, name: str) -> Mapping[str, str]:
        headers: Mapping[str, str] = self.ask(
            "read", name, lambda client, *place: client.head_object(*place, name).headers
        )
        return headers

    def _pages(self, folder: str, after: str, **settings: str) -> Iterator[dict[str, Any]]:
        start = {"start_after": after} if after else {}
        while True:
            page = self._page(folder, {**settings, **start})
            yield page
            if not (following := page.get("nextStartWith")):
                return
            start = {"start": following}

    def _page(self, folder: str, settings: Mapping[str, str]) -> dict[str, Any]:
        found: dict[str, Any] = self.ask(
            "list",
            folder,
            lambda client, *place: client.list_objects(*place, prefix=folder, limit=_PAGE, **settings).data,
        )
        return found

    def _delete_one(self, name: str) -> None:
        try:
            self.ask("delete", name, lambda client, *place: client.delete_object(*place, name))
        except NotFound:
            return

    def _delete_many(self, names: Sequence[str]) -> None:
        wanted = {"objects": [{"objectName": name} for name in names], "isSkipDeletedResult": True}
        result = self.ask("delete", "", lambda client, *place: client.batch_delete_objects(*place, wanted).data)
        for failed in result.get("failed") or ():
            answer = Answer(int(failed["statusCode"]), "", failed.get("errorMessage") or "")
            if answer.status != 404:
                raise refusal(self._opened().words, Asked("delete", self._bucket, failed["objectName"]), answer)

    def _told(self, door: Door, verb: str, name: str, error: Exception) -> Exception:
        answer = door.clients.answer_of(error)
        place = f"{name!r} in the bucket {self._bucket}"
        if answer.status == 416:
            return _Behind()
        if answer.status == 412 and verb == "write":
            return AlreadyExists(f"{name!r} is already in the bucket {self._bucket}")
        if answer.status == 412:
            return ObjectChanged(f"{place} changed while it was read")
        if answer.status == 409:
            return StoreBusy(f"another writes {place} at this moment")
        return refusal(door.words, Asked(verb, self._bucket, name), answer)


class _Behind(Exception):
    """A range begins where the object has ended."""


def _total(headers: Mapping[str, str]) -> int:
    stretch = headers.get("content-range")
    return int(stretch.rpartition("/")[2] if stretch else headers["content-length"])
