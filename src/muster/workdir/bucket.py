"""A work dir in a bucket: what all object stores have in common, over the little that each does in its own way."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from ..errors import AlreadyExists, NotFound, ObjectChanged, StoreBusy, StoreError
from .again import patiently, waits
from .escapes import escaped, unescaped
from .files import appearing, pwrite_all
from .store import Capabilities, Entry, check_key, may_begin_keys, names_below

T = TypeVar("T")

PART = 8 << 20
"""Bytes asked for at once: what is smaller comes in one request, what is larger in several at the same time."""
PATIENCE = 15.0
"""Seconds in which a bucket that is busy or out of reach is asked again. Callers that can wait longer do so."""
DELETED_AT_ONCE = 1000
_ATTEMPTS = 5
"""How often an object is begun anew that another writes to while we read it."""


class Part(NamedTuple):
    """Some of an object's content, with how much there is of it and which version it is of."""

    data: bytes
    total: int
    tag: str


class Bucket(Protocol):
    """What one kind of object store does in its own way.

    Names are whole: prefix and key, escaped. Errors are `NotFound`, `AlreadyExists`, `ObjectChanged`, `StoreBusy` for
    what may pass by itself, and `StoreError` with a fix for what will not.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What the store can do."""

    def put(self, name: str, data: bytes, mark: str | None = None) -> None:
        """Puts an object; with a mark only if there is none, and the mark is kept beside it."""

    def put_file(self, name: str, path: Path) -> None:
        """Puts the content of a file, in parts where it is large."""

    def get(self, name: str, start: int, size: int, tag: str = "") -> Part:
        """Content from `start` on. With a tag only of that version, else `ObjectChanged`."""

    def mark(self, name: str) -> str:
        """The mark that `put` kept beside an object; empty if it has none."""

    def list(self, folder: str, after: str) -> Iterator[Entry]:
        """All objects below a folder (empty, or ending in `/`) and behind `after`, in order, under their names."""

    def names(self, folder: str) -> Iterable[str]:
        """The names one level below a folder, in any order."""

    def delete(self, names: Sequence[str]) -> None:
        """Takes objects away, at most `DELETED_AT_ONCE`. Those that are not there are no error."""


class BucketStore:
    """A work dir below a prefix of a bucket."""

    def __init__(self, url: str, bucket: Bucket, prefix: str, patience: float = PATIENCE) -> None:
        self._url, self._bucket = url, bucket
        self._above = f"{escaped(prefix)}/" if prefix else ""
        self._patience = patience

    @property
    def url(self) -> str:
        return self._url

    @property
    def capabilities(self) -> Capabilities:
        return self._bucket.capabilities

    def create(self, key: str, data: bytes) -> None:
        """Creates with a mark that tells our own object from another's.

        A reply may be lost on its way. The put that is then repeated finds the key taken, by ourselves perhaps.
        """
        name, mark = self._name(key), secrets.token_hex(8)
        taken = AlreadyExists(f"{key!r} is already in the work dir {self.url}")
        attempts = 0

        def attempt() -> None:
            nonlocal attempts
            attempts += 1
            try:
                self._bucket.put(name, data, mark)
            except AlreadyExists:
                if attempts == 1 or self._bucket.mark(name) != mark:
                    raise taken from None

        self._patiently(attempt)

    def put(self, key: str, data: bytes) -> None:
        name = self._name(key)
        self._patiently(lambda: self._bucket.put(name, data))

    def put_file(self, key: str, path: Path) -> None:
        name = self._name(key)
        try:
            with path.open("rb"):
                pass
        except FileNotFoundError:
            raise NotFound(f"there is no file {path} to put into the work dir") from None
        except OSError as error:
            raise StoreError(f"cannot read {path}: {error.strerror}") from error
        self._patiently(lambda: self._bucket.put_file(name, path))

    def get(self, key: str) -> bytes:
        name = self._name(key)

        def read() -> bytes:
            first = self._first(key, name)
            if len(first.data) == first.total:
                return first.data
            content = bytearray(first.total)
            content[: len(first.data)] = first.data

            def keep(start: int, data: bytes) -> None:
                content[start : start + len(data)] = data

            self._rest(key, name, first, keep)
            return bytes(content)

        return _of_one_version(read)

    def get_range(self, key: str, start: int, size: int) -> bytes:
        name = self._name(key)
        return self._found(key, lambda: self._bucket.get(name, start, size)).data if size > 0 else b""

    def get_file(self, key: str, path: Path) -> None:
        name = self._name(key)

        def read() -> None:
            first = self._first(key, name)
            with appearing(path) as descriptor:
                if first.total > len(first.data):
                    os.truncate(descriptor, first.total)
                pwrite_all(descriptor, first.data, 0)
                self._rest(key, name, first, lambda start, data: pwrite_all(descriptor, data, start))

        try:
            _of_one_version(read)
        except OSError as error:
            raise StoreError(f"cannot write {path}: {error.strerror}") from error

    def list(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        """In the order of the names as the bucket keeps them, which differs only where they hold control characters."""
        if not may_begin_keys(prefix):
            return iter(())
        start = self._above + escaped(prefix)
        behind = self._above + escaped(after) if after else ""
        return self._listed(start, behind)

    def list_names(self, prefix: str = "") -> Iterator[str]:
        if not may_begin_keys(names_below(prefix)):
            return iter(())
        folder = self._above + escaped(prefix)
        return iter(sorted({unescaped(name) for name in self._patiently(lambda: [*self._bucket.names(folder)])}))

    def delete(self, key: str) -> None:
        self.delete_all([key])

    def delete_all(self, keys: Iterable[str]) -> None:
        names = (self._name(key) for key in keys)
        while some := [*islice(names, DELETED_AT_ONCE)]:
            self._patiently(lambda some=some: self._bucket.delete(some))  # type: ignore[misc]

    # --- inside ------------------------------------------------------------------------------------------

    def _name(self, key: str) -> str:
        return self._above + escaped(check_key(key))

    def _first(self, key: str, name: str) -> Part:
        return self._found(key, lambda: self._bucket.get(name, 0, PART))

    def _rest(self, key: str, name: str, first: Part, keep: Callable[[int, bytes], None]) -> None:
        """What does not come with the first part, several parts at a time, all of the same version."""
        starts = range(len(first.data), first.total, PART)
        if not starts:
            return

        def fetch(start: int) -> None:
            size = min(PART, first.total - start)
            keep(start, self._found(key, lambda: self._bucket.get(name, start, size, first.tag)).data)

        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(self.capabilities.parallel, 8, len(starts))) as pool:
            for _ in pool.map(fetch, starts):
                pass

    def _found(self, key: str, ask: Callable[[], T]) -> T:
        try:
            return self._patiently(ask)
        except NotFound:
            raise NotFound(f"there is no {key!r} in the work dir {self.url}") from None

    def _listed(self, start: str, behind: str) -> Iterator[Entry]:
        folder = start[: start.rfind("/") + 1]
        last = behind
        until = time.monotonic() + self._patience
        pauses = waits()
        while True:
            try:
                # A bucket that fails in the middle is asked for what is left.
                for entry in self._bucket.list(folder, max(last, _just_before(start))):
                    last, until, pauses = entry.key, time.monotonic() + self._patience, waits()
                    if entry.key.startswith(start) and entry.key > behind:
                        key = unescaped(entry.key[len(self._above) :])
                        yield Entry(key, entry.size, entry.modified, entry.tag)
                    elif entry.key > start:
                        return  # they come in order: none that follows begins so
                return
            except StoreBusy:
                wait = next(pauses)
                if time.monotonic() + wait > until:
                    raise
                time.sleep(wait)

    def _patiently(self, ask: Callable[[], T]) -> T:
        return patiently(ask, self._patience)


def _of_one_version(read: Callable[[], T]) -> T:
    """What `read` gives, begun anew where another wrote to it in between."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return read()
        except ObjectChanged:
            pass
    return read()


def _just_before(start: str) -> str:
    """A name that sorts before all that begin with `start`, and behind most others; empty for a whole folder."""
    if not start or start.endswith("/"):
        return ""
    before = ord(start[-1]) - 1
    if before < 0x21 or 0xD800 <= before <= 0xDFFF:
        return ""
    return f"{start[:-1]}{chr(before)}\U0010fffd"
