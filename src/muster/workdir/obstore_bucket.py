"""Buckets of S3, Google Cloud Storage and Azure, through obstore: one core in Rust for all three."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib.util import find_spec
from itertools import chain, pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..clouds import aws, azure, gcp
from ..clouds.refusals import Asked, Words
from ..errors import NotFound, StoreError
from .addresses import Address, read_address
from .bucket import PART, BucketStore, Part
from .obstore_clients import Clients, opened
from .obstore_errors import Behind, explained
from .store import Capabilities, Entry

if TYPE_CHECKING:
    from .obstore_clients import AnyStore

Settings = Callable[[], Mapping[str, Any]]
"""Asked for only when the bucket is first used: a plan needs no credentials."""

POLL_SECONDS = 12.0
_MARK = "mustermark"
"""Kept with an object. Azure takes no name that is not one in C#."""
_MOST_PARTS = 9000
"""Parts of one upload: S3 takes 10,000."""
_SENT_AT_ONCE = 8

_S3_OPTIONS = ("endpoint", "kms_key", "profile", "region", "sse")
_GS_OPTIONS = ("endpoint",)
_AZ_OPTIONS = ("account", "endpoint")
_SSE = ("AES256", "aws:kms", "aws:kms:dsse")


def open_s3(url: str) -> BucketStore:
    """`s3://bucket/prefix`, with AWS's own environment and profiles."""
    address = read_address(url, _S3_OPTIONS)
    options = address.options
    profile = options.get("profile")
    sse = options.get("sse", "aws:kms" if "kms_key" in options else "")
    if sse and sse not in _SSE:
        raise StoreError(f"{address.url}: no encryption is called {sse!r}", f"Known are {', '.join(_SSE)}.")

    def settings() -> dict[str, Any]:
        return {
            "region": options.get("region") or aws.region(profile),
            "endpoint": options.get("endpoint") or aws.endpoint(),
            "server_side_encryption": sse or None,
            "sse_kms_key_id": options.get("kms_key"),
            "credential_provider": aws.credential_provider(profile),
            "metadata_endpoint": aws.metadata_endpoint(),
        }

    return _opened(address, "S3Store", aws.WORDS, settings)


def open_gs(url: str) -> BucketStore:
    """`gs://bucket/prefix`, with Google's application default credentials."""
    address = read_address(url, _GS_OPTIONS)
    return _opened(address, "GCSStore", gcp.WORDS, lambda: {"endpoint": address.options.get("endpoint")})


def open_az(url: str) -> BucketStore:
    """`az://container/prefix`, with Azure's own environment."""
    address = read_address(url, _AZ_OPTIONS)
    options = address.options
    account = options.get("account") or azure.account()
    if not account:
        raise StoreError(
            f"{address.url} names no storage account",
            f"Write az://{address.bucket}/…?account=NAME, or set AZURE_STORAGE_ACCOUNT_NAME.",
        )
    settings = {"account_name": account, "endpoint": options.get("endpoint")}
    return _opened(address, "AzureStore", azure.WORDS, lambda: settings)


def _opened(address: Address, kind: str, words: Words, settings: Settings) -> BucketStore:
    if "@" in address.bucket:
        raise StoreError(
            f"not the name of a bucket: …@{address.bucket.rpartition('@')[2]}",
            "A work dir is written down in many places: name the bucket alone, and log in by the environment.",
        )
    if find_spec("obstore") is None:
        raise ImportError("there is no module obstore")
    return BucketStore(address.url, ObstoreBucket(address.bucket, kind, words, settings), address.prefix)


class ObstoreBucket:
    """One bucket as obstore sees it."""

    def __init__(self, bucket: str, kind: str, words: Words, settings: Settings) -> None:
        self._bucket, self._kind, self._words, self._settings = bucket, kind, words, settings
        self._known = False

    @cached_property
    def _clients(self) -> Clients:
        given = {name: value for name, value in self._settings().items() if value}
        return opened(self._kind, self._bucket, given)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(atomic_create=True, poll_seconds=POLL_SECONDS, parallel=32, billed=True)

    def put(self, name: str, data: bytes, mark: str | None = None) -> None:
        import obstore

        with self._explained("write", name, only=mark is not None):
            if mark is None:
                obstore.put(self._clients.writer, name, data, use_multipart=False)
            else:
                obstore.put(
                    self._clients.writer, name, data, mode="create", use_multipart=False, attributes={_MARK: mark}
                )

    def put_file(self, name: str, path: Path) -> None:
        import obstore

        try:
            chunk = max(PART, -(-path.stat().st_size // _MOST_PARTS))
            with self._explained("write", name):
                obstore.put(self._clients.patient, name, path, chunk_size=chunk, max_concurrency=_SENT_AT_ONCE)
        except OSError as error:
            raise StoreError(f"cannot read {path}: {error.strerror or error}") from error

    def get(self, name: str, start: int, size: int, tag: str = "") -> Part:
        import obstore

        options: dict[str, Any] = {"range": (start, start + size)}
        if tag:
            options["if_match"] = tag
        try:
            with self._explained("read", name, only=bool(tag)):
                found = obstore.get(self._clients.reader, name, options=options)  # type: ignore[arg-type]
                return Part(bytes(found.bytes()), found.meta["size"], found.meta["e_tag"] or "")
        except Behind as behind:
            return Part(b"", behind.total, "") if behind.total >= 0 else self._behind(name)

    def _behind(self, name: str) -> Part:
        """There is nothing from there on: the object ends before, or is empty."""
        import obstore

        with self._explained("read", name):
            meta = obstore.head(self._clients.reader, name)
            return Part(b"", meta["size"], meta["e_tag"] or "")

    def mark(self, name: str) -> str:
        import obstore

        try:
            with self._explained("read", name):
                found = obstore.get(self._clients.reader, name, options={"head": True})
                return str(found.attributes.get(_MARK, ""))
        except NotFound:
            return ""

    def list(self, folder: str, after: str) -> Iterator[Entry]:
        with self._explained("list", folder):
            yield from self._objects(self._found(folder, after))

    def _found(self, folder: str, after: str) -> Iterator[Entry]:
        import obstore

        for page in obstore.list(self._clients.reader, folder or None, offset=_offset(after) or None, chunk_size=1000):
            for found in page:
                if found["path"].startswith(folder) and found["path"] > after:
                    modified = found["last_modified"].timestamp()
                    yield Entry(found["path"], found["size"], modified, found["e_tag"] or "")

    def _objects(self, found: Iterable[Entry]) -> Iterator[Entry]:
        """All but the empty objects `a/` that stand for a folder, as browsers of buckets make them.

        obstore shows them as `a`, yet in their own place: behind `a.txt`, and right before `a/b`.
        """
        last = ""
        for entry, following in pairwise(chain(found, [None])):
            if entry is None:
                return
            begins = following is not None and following.key.startswith(f"{entry.key}/")
            if entry.size or not (entry.key <= last or (begins and not self._is_there(entry.key))):
                last = entry.key
                yield entry

    def _is_there(self, name: str) -> bool:
        import obstore

        try:
            obstore.head(self._clients.reader, name)
        except FileNotFoundError:
            return False
        return True

    def names(self, folder: str) -> Iterable[str]:
        import obstore

        with self._explained("list", folder):
            found = obstore.list_with_delimiter(self._clients.reader, folder or None)
        folders = (name.rstrip("/") for name in found["common_prefixes"])
        files = (one["path"] for one in found["objects"])
        return (name[len(folder) :] for name in (*folders, *files) if name.startswith(folder) and name != folder)

    def delete(self, names: Sequence[str]) -> None:
        if len(names) > 1:
            try:
                self._delete(self._clients.patient, names)
            except NotFound:
                # Only S3 says nothing of one that is not there; others stop at it.
                from concurrent.futures import ThreadPoolExecutor

                with ThreadPoolExecutor(_SENT_AT_ONCE) as pool:
                    for _ in pool.map(lambda name: self.delete([name]), names):
                        pass
            return
        try:
            self._delete(self._clients.reader, names)
        except NotFound:
            return

    def _delete(self, store: AnyStore, names: Sequence[str]) -> None:
        import obstore

        with self._explained("delete", names[0]):
            obstore.delete(store, names[0] if len(names) == 1 else list(names))

    @contextmanager
    def _explained(self, verb: str, name: str, only: bool = False) -> Iterator[None]:
        """`only`: it was asked to be done on a condition, so that an answer may be about that."""
        import obstore  # whole, before a part of it: threads that import both at once may be given half a module

        errors = obstore.exceptions

        try:
            yield
        except (FileNotFoundError, errors.BaseError) as error:
            asked = Asked(verb, self._bucket, name)
            raise explained(self._words, asked, error, known=self._known, only=only) from error
        self._known = True


def _offset(after: str) -> str:
    """As much of a name as obstore takes for a path: it sorts before all that the name itself sorts before."""
    names = after.split("/")
    return "/".join(takewhile(lambda name: name not in ("", ".", ".."), names))
