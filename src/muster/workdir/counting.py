"""A store that counts what is asked of it: on a bucket each request is money and time."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from .store import Capabilities, Entry, Store


class CountingStore:
    """Hands every call on to another store. `counts` tells how often each kind was called."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def counts(self) -> dict[str, int]:
        """Calls so far, by the name of the method."""
        with self._lock:
            return dict(self._counts)

    @property
    def total(self) -> int:
        """All calls so far."""
        return sum(self.counts.values())

    def reset(self) -> None:
        """Counts from nothing again."""
        with self._lock:
            self._counts.clear()

    @property
    def url(self) -> str:
        return self._store.url

    @property
    def capabilities(self) -> Capabilities:
        return self._store.capabilities

    def create(self, key: str, data: bytes) -> None:
        self._count("create")
        self._store.create(key, data)

    def put(self, key: str, data: bytes) -> None:
        self._count("put")
        self._store.put(key, data)

    def put_file(self, key: str, path: Path) -> None:
        self._count("put_file")
        self._store.put_file(key, path)

    def get(self, key: str) -> bytes:
        self._count("get")
        return self._store.get(key)

    def get_range(self, key: str, start: int, size: int) -> bytes:
        self._count("get_range")
        return self._store.get_range(key, start, size)

    def get_file(self, key: str, path: Path) -> None:
        self._count("get_file")
        self._store.get_file(key, path)

    def list(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        self._count("list")
        return self._store.list(prefix, after)

    def list_names(self, prefix: str = "") -> Iterator[str]:
        self._count("list_names")
        return self._store.list_names(prefix)

    def delete(self, key: str) -> None:
        self._count("delete")
        self._store.delete(key)

    def delete_all(self, keys: Iterable[str]) -> None:
        self._count("delete_all")
        self._store.delete_all(keys)

    def _count(self, kind: str) -> None:
        with self._lock:
            self._counts[kind] += 1
