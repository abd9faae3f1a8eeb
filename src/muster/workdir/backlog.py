"""Lines that wait for the work dir: in memory up to a bound, and beyond it in a file, in the order they came."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

MEMORY_BYTES = 32 << 20
"""What may wait in memory. A work dir that is away for long must not cost the script its memory."""
_CHUNK = 4 << 20


class Backlog:
    """For one thread at a time. Without a file all waits in memory, and so it does if the file cannot be written."""

    def __init__(self, file: Path | None = None, most: int = MEMORY_BYTES) -> None:
        self._path, self._most = file, most
        self._first: deque[bytes] = deque()
        self._file: BinaryIO | None = None
        self._read = self._written = 0
        self._last: deque[bytes] = deque()
        """What came when the file could no longer be written."""
        self._in_memory = 0
        self.size = 0
        """Bytes of all lines."""
        self.count = 0

    def add(self, line: bytes) -> None:
        """Takes one line, which has no line end in it."""
        self.size += len(line)
        self.count += 1
        if self._file is None and self._in_memory + len(line) > self._most:
            self._open()
        if self._file is None:
            self._keep(self._first, line)
        elif self._last or not self._spill(line):
            self._keep(self._last, line)

    def first(self, count: int) -> list[bytes]:
        """The lines that came first, so many if there are."""
        while len(self._first) < count and self._refill():
            pass
        return list(islice(self._first, count))

    def each(self) -> Iterator[bytes]:
        """All lines from the first on, until the caller has enough."""
        given = 0
        while given < len(self._first) or self._refill():
            for line in islice(self._first, given, None):
                yield line
                given += 1

    def in_memory(self) -> list[bytes]:
        """Those that can be had without reading the file."""
        return [*self._first]

    def drop(self, count: int) -> None:
        """Forgets the first ones; they must have been asked for."""
        for _ in range(count):
            line = self._first.popleft()
            self._in_memory -= len(line)
            self.size -= len(line)
        self.count -= count

    def _keep(self, lines: deque[bytes], line: bytes) -> None:
        lines.append(line)
        self._in_memory += len(line)

    def _open(self) -> None:
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("w+b", buffering=0)
        except OSError:
            self._path = None

    def _spill(self, line: bytes) -> bool:
        assert self._file is not None  # noqa: S101 - asked only where it is open
        data = line + b"\n"
        try:
            self._file.seek(self._written)
            if self._file.write(data) != len(data):
                return False  # what was written of it is written over, or never read
        except OSError:
            return False
        self._written += len(data)
        return True

    def _refill(self) -> bool:
        """Takes the next lines out of the file; false if there are none."""
        if self._file is None:
            return False
        if self._read == self._written:
            self._close()
            return bool(self._first)
        self._file.seek(self._read)
        data = self._file.read(min(_CHUNK, self._written - self._read))
        while b"\n" not in data:
            data += self._file.read(min(_CHUNK, self._written - self._read - len(data)))
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.split(b"\n")[:-1]:
            self._keep(self._first, line)
        return True

    def _close(self) -> None:
        assert self._file is not None and self._path is not None  # noqa: S101, PT018 - asked only where it is open
        self._file.close()
        self._path.unlink(missing_ok=True)
        self._file, self._read, self._written = None, 0, 0
        self._first += self._last
        self._last.clear()
