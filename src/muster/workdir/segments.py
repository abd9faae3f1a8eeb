"""Streams of JSON lines, kept as numbered segments because nothing in a work dir can be appended to.

A segment is written once, whole, and never changed: one that could not be written is tried again with exactly
the same lines under the same number, so that a reader who has seen a number need not look at it again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..errors import NotFound
from .backlog import MEMORY_BYTES, Backlog
from .store import Store

SEGMENT_BYTES = 1 << 20
FIRST_WAIT = 0.2

_SUFFIX = ".jsonl"


class SegmentWriter:
    """Collects lines and writes them as the next segments of a stream. One writer per stream.

    Lines may be added while another thread flushes. Without `first` the stream goes on behind the highest number
    that is there, which the first flush looks up; `slowest` is the longest wait in seconds, by default what the
    store recommends. Lines for which memory is too small wait in the file `spill` while the store is away.
    """

    def __init__(
        self,
        store: Store,
        prefix: str,
        first: int | None = None,
        slowest: float | None = None,
        spill: Path | None = None,
        most: int = MEMORY_BYTES,
    ) -> None:
        self._store, self._prefix, self._next = store, prefix, first
        self._slowest = store.capabilities.poll_seconds if slowest is None else slowest
        self._interval = min(FIRST_WAIT, self._slowest)
        self._flushed_at = time.monotonic()
        self._lines = Backlog(spill, most)
        self._sealed = 0
        self._lock, self._flushing = threading.Lock(), threading.Lock()

    def add(self, line: bytes) -> None:
        """Takes one line, without its end."""
        with self._lock:
            self._lines.add(line)

    def pending(self) -> list[bytes]:
        """The lines that are not in the store yet; of very many, only the first."""
        with self._lock:
            return self._lines.in_memory()

    @property
    def full(self) -> bool:
        """So many lines are there that they need not wait for others."""
        return self._lines.size >= SEGMENT_BYTES

    def wait(self) -> float:
        """Seconds that lines should wait for others: short at first, longer each time, none when there are many.

        After a silence as long as the longest wait it is short again.
        """
        if self.full:
            return 0.0
        if time.monotonic() - self._flushed_at > self._slowest:
            self._interval = min(FIRST_WAIT, self._slowest)
        return self._interval

    def flush(self) -> None:
        """Writes all lines that are there now. On an error those that were not written are kept for the next time."""
        with self._flushing:
            left = self._lines.count
            if left:
                self._interval = min(2 * self._interval, self._slowest)
            while left > 0:
                left -= self._write_one()
            self._flushed_at = time.monotonic()

    def _write_one(self) -> int:
        if self._next is None:
            self._next = last_segment(self._store, self._prefix) + 1
        lines = self._seal()
        self._store.put(_key(self._prefix, self._next), b"\n".join(lines) + b"\n")
        self._next += 1
        with self._lock:
            self._lines.drop(len(lines))
            self._sealed = 0
        return len(lines)

    def _seal(self) -> list[bytes]:
        """The lines of the next segment: those of a failed attempt, else as many as one segment takes."""
        with self._lock:
            if not self._sealed:
                self._sealed = _fitting(self._lines.each())
            return self._lines.first(self._sealed)


def last_segment(store: Store, prefix: str) -> int:
    """The highest number of a stream; 0 if it has no segment."""
    return max((number for number, _ in numbered(store, prefix, 0)), default=0)


def segments(store: Store, prefix: str, after: int = 0) -> Iterator[tuple[int, list[bytes]]]:
    """The segments of a stream behind a number, in order, each with its lines. A list request, and a get for each."""
    for number, key in numbered(store, prefix, after):
        lines = read_lines(store, key)
        if lines is not None:
            yield number, lines


def read_segments(store: Store, prefix: str, after: int = 0) -> Iterator[bytes]:
    """The lines of a stream behind a segment's number, in order."""
    for _, lines in segments(store, prefix, after):
        yield from lines


def read_backwards(store: Store, prefix: str) -> Iterator[list[bytes]]:
    """The segments of a stream from the newest to the oldest, for a reader who stops when it has seen enough."""
    for _, key in reversed(list(numbered(store, prefix, 0))):
        lines = read_lines(store, key)
        if lines is not None:
            yield lines


def _fitting(lines: Iterable[bytes]) -> int:
    """How many lines fill one segment: at least one, and the one that crosses the limit."""
    size = count = 0
    for line in lines:
        size += len(line)
        count += 1
        if size >= SEGMENT_BYTES:
            break
    return count


def _key(prefix: str, number: int) -> str:
    return f"{prefix}/{number:08}{_SUFFIX}"


def numbered(store: Store, prefix: str, after: int = 0) -> Iterator[tuple[int, str]]:
    """The segments of a stream behind a number, in order, each with its key. One list request."""
    start = _key(prefix, after) if after else ""
    for entry in store.list(f"{prefix}/", start):
        number = entry.key[len(prefix) + 1 :].removesuffix(_SUFFIX)
        if number.isdecimal():
            yield int(number), entry.key


def read_lines(store: Store, key: str) -> list[bytes] | None:
    """The lines of one segment; None if it was taken away since it was listed, with its run."""
    try:
        return store.get(key).split(b"\n")[:-1]
    except NotFound:
        return None
