"""Stores as a test wants them: of a bucket's kind, with a view on what is under way, and out of reach now and then."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.errors import StoreBusy, StoreError
from muster.workdir.counting import CountingStore
from muster.workdir.memory import MemoryStore
from muster.workdir.store import Capabilities, Store


class Meeting:
    """The first so many wait for each other: if they came one after the other, none would ever go on."""

    def __init__(self, size: int) -> None:
        self._size, self._came = size, 0
        self._all_here = threading.Event()
        self._lock = threading.Lock()

    def attend(self) -> None:
        with self._lock:
            self._came += 1
            if self._came == self._size:
                self._all_here.set()
        assert self._all_here.wait(60), "they do not come at the same time"


class Line(CountingStore):
    """The way to a store that may take many requests at once, and that may be billed for each."""

    def __init__(self, store: Store | None = None, parallel: int = 8, billed: bool = True) -> None:
        super().__init__(store or MemoryStore("line"))
        self._capabilities = Capabilities(atomic_create=True, poll_seconds=0.05, parallel=parallel, billed=billed)
        self._watch = threading.Lock()
        self._under_way = 0
        self.most = 0
        """How many requests were under way at once."""
        self.asked: list[tuple[str, str]] = []
        self.fetched = 0
        """Bytes that came by `get`, `get_range` or `get_file`."""
        self.meets: dict[str, Meeting] = {}
        """By kind of request."""
        self.refuses: Callable[[str, str], StoreError | None] = lambda _kind, _key: None

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @contextmanager
    def away(self) -> Iterator[None]:
        """Nothing is answered meanwhile."""
        before, self.refuses = self.refuses, lambda _kind, _key: StoreBusy("no connection")
        yield
        self.refuses = before

    @contextmanager
    def _asking(self, kind: str, key: str) -> Iterator[None]:
        with self._watch:
            self.asked.append((kind, key))
            self._under_way += 1
            self.most = max(self.most, self._under_way)
        try:
            if refusal := self.refuses(kind, key):
                raise refusal
            if kind in self.meets:
                self.meets[kind].attend()
            yield
        finally:
            with self._watch:
                self._under_way -= 1

    def put(self, key: str, data: bytes) -> None:
        with self._asking("put", key):
            super().put(key, data)

    def put_file(self, key: str, path: Path) -> None:
        with self._asking("put_file", key):
            super().put_file(key, path)

    def get(self, key: str) -> bytes:
        with self._asking("get", key):
            data = super().get(key)
        self._arrived(len(data))
        return data

    def get_range(self, key: str, start: int, size: int) -> bytes:
        with self._asking("get_range", key):
            data = super().get_range(key, start, size)
        self._arrived(len(data))
        return data

    def get_file(self, key: str, path: Path) -> None:
        with self._asking("get_file", key):
            super().get_file(key, path)
        self._arrived(path.stat().st_size)

    def delete(self, key: str) -> None:
        with self._asking("delete", key):
            super().delete(key)

    def _arrived(self, size: int) -> None:
        with self._watch:
            self.fetched += size

    def keys(self, kind: str) -> list[str]:
        """What was asked for in this way, in order."""
        return [key for asked, key in self.asked if asked == kind]
