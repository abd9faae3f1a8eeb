"""A store of which one can see whether what is sent to it gets on, however long it takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .counting import CountingStore
from .store import Store

SLOWEST_LINE = 1e6
"""Bytes a second. Of a file on its way nothing is heard before all of it is there; one that is slower hangs."""


class ArrivingStore(CountingStore):
    """Hands every call on to another store, and notices what arrives there."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._arrived = self._seen = 0
        self._under_way: dict[object, float] = {}

    @property
    def arrived(self) -> int:
        """How many objects arrived so far."""
        with self._lock:
            return self._arrived

    def gets_on(self) -> bool:
        """Whether something arrived since this was last asked, or a file is on its way that may take so long."""
        now = time.monotonic()
        with self._lock:
            before, self._seen = self._seen, self._arrived
            return self._arrived > before or any(until > now for until in self._under_way.values())

    def put(self, key: str, data: bytes) -> None:
        super().put(key, data)
        self._has_arrived()

    def put_file(self, key: str, path: Path) -> None:
        with self._sending(path):
            super().put_file(key, path)
        self._has_arrived()

    @contextmanager
    def _sending(self, path: Path) -> Iterator[None]:
        size = path.stat().st_size if path.is_file() else 0
        this = object()
        with self._lock:
            self._under_way[this] = time.monotonic() + size / SLOWEST_LINE
        try:
            yield
        finally:
            with self._lock:
                del self._under_way[this]

    def _has_arrived(self) -> None:
        with self._lock:
            self._arrived += 1
