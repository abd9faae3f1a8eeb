"""Nodes on Oracle's cloud that are on their way home: they end by themselves, when all that they have is there."""

from __future__ import annotations

import time

from ..workdir.run import RunFolder

_SILENT = 120.0
"""Seconds without a new record after which nobody is taken to be at work on a node."""


class HomeBound:
    """Whether nodes of a run are still at it: their records go on changing, and do not say that they have ended."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder, self._beats, self._since = folder, frozenset[tuple[str, int]](), 0.0

    def __call__(self) -> bool:
        beats = frozenset((node.node, node.beat) for node in self._folder.nodes() if node.state != "ended")
        if beats - self._beats:
            self._since = time.monotonic()
        self._beats = beats
        return bool(beats) and time.monotonic() - self._since < _SILENT
