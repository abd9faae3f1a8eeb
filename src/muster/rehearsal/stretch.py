"""A stretch of a file that stands for its bytes without reading them, so that large objects never lie in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator

STEP = 1 << 20


class Stretch:
    """Some bytes of an open file. It has a descriptor of its own: the file may be closed or deleted meanwhile."""

    def __init__(self, descriptor: int, start: int, length: int) -> None:
        self._descriptor = os.dup(descriptor)
        self.start = start
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, wanted: slice) -> Stretch:
        start, stop, _ = wanted.indices(self.length)
        return Stretch(self._descriptor, self.start + start, max(0, stop - start))

    def __iter__(self) -> Iterator[bytes]:
        at, end = self.start, self.start + self.length
        while at < end and (piece := os.pread(self._descriptor, min(STEP, end - at), at)):
            yield piece
            at += len(piece)

    def __bytes__(self) -> bytes:
        return b"".join(self)

    def fileno(self) -> int:
        return self._descriptor

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)
