"""A work dir in this process's memory, for tests and for rehearsing what a bucket does with keys."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..errors import AlreadyExists, NotFound, StoreError
from .files import appearing, write_all
from .store import Capabilities, Entry, check_key, names_below

_named: dict[str, MemoryStore] = {}
_naming = threading.Lock()


class MemoryStore:
    """Keys and bytes under a lock. As in a bucket, `a` and `a/b` may both be keys."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._kept: dict[str, tuple[bytes, float]] = {}
        self._lock = threading.Lock()

    @classmethod
    def named(cls, name: str) -> MemoryStore:
        """The store of this name, the same one for the whole process."""
        with _naming:
            return _named.setdefault(name, cls(name))

    @property
    def url(self) -> str:
        return f"memory://{self._name}"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(atomic_create=True, poll_seconds=0.05)

    def create(self, key: str, data: bytes) -> None:
        check_key(key)
        with self._lock:
            if key in self._kept:
                raise AlreadyExists(f"{key!r} is already in the work dir {self.url}")
            self._kept[key] = bytes(data), time.time()

    def put(self, key: str, data: bytes) -> None:
        check_key(key)
        with self._lock:
            self._kept[key] = bytes(data), time.time()

    def put_file(self, key: str, path: Path) -> None:
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise NotFound(f"there is no file {path} to put into the work dir") from None
        except OSError as error:
            raise StoreError(f"cannot read {path}: {error.strerror}") from error
        self.put(key, data)

    def get(self, key: str) -> bytes:
        check_key(key)
        with self._lock:
            try:
                return self._kept[key][0]
            except KeyError:
                raise NotFound(f"there is no {key!r} in the work dir {self.url}") from None

    def get_range(self, key: str, start: int, size: int) -> bytes:
        return self.get(key)[start : start + size]

    def get_file(self, key: str, path: Path) -> None:
        data = self.get(key)
        try:
            with appearing(path) as descriptor:
                write_all(descriptor, data)
        except OSError as error:
            raise StoreError(f"cannot write {path}: {error.strerror}") from error

    def list(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        with self._lock:
            found = [
                Entry(key, len(data), at, f"{hash(data):x}")
                for key, (data, at) in self._kept.items()
                if key.startswith(prefix) and key > after
            ]
        # Text sorts by code point, which is the order of its UTF-8 bytes.
        return iter(sorted(found, key=lambda entry: entry.key))

    def list_names(self, prefix: str = "") -> Iterator[str]:
        names_below(prefix)
        with self._lock:
            found = {key[len(prefix) :].split("/", 1)[0] for key in self._kept if key.startswith(prefix)}
        return iter(sorted(found))

    def delete(self, key: str) -> None:
        check_key(key)
        with self._lock:
            self._kept.pop(key, None)

    def delete_all(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.delete(key)
