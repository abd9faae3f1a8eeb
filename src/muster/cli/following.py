"""Watching a run that was started from here, and looking after its nodes meanwhile.

Apart from `run.py`, so that asyncio, which is slow to load, is loaded while the nodes start and not before.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING

from ..errors import StoreBusy
from ..node.watching import Tail, watch

if TYPE_CHECKING:
    from ..launching import Run
    from ..workdir.records import Result
    from .screen import Screen

_LAST_WORD = 120.0
"""Seconds that the end of a run whose nodes are gone is waited for, where the work dir does not answer."""


class Following:
    """Shows the run until it has ended; each of its lines once, however often the watching is broken off."""

    def __init__(self, run: Run, shown: Screen) -> None:
        self._run, self._shown = run, shown
        self._tail = Tail(run.folder, shown.lines)

    def __call__(self) -> Result | None:
        return asyncio.run(_watch(self._run, self._shown, self._tail))


async def _watch(run: Run, shown: Screen, tail: Tail) -> Result | None:
    if not shown.watches:
        return await _look_after(run, shown)
    looking = asyncio.ensure_future(_look_after(run, shown))
    try:
        seen = await watch(run.folder, tail, shown.state, alive=lambda: not looking.done())
        run.hurry()
        ended = await looking
    finally:
        looking.cancel()
    return ended or seen


async def _look_after(run: Run, shown: Screen) -> Result | None:
    """Lost nodes are started again, ended ones are taken off the process table, until none is left."""
    until = math.inf
    while time.monotonic() < until:
        try:
            if result := await asyncio.to_thread(run.poll):
                return result
            if not await asyncio.to_thread(run.has_nodes):
                return await asyncio.to_thread(run.poll)  # the last may have ended in between
            until = math.inf
        except StoreBusy:
            # Nodes can wait for a work dir that is away, and so can we; without nodes for a while yet.
            until = min(until, math.inf if run.has_nodes() else time.monotonic() + _LAST_WORD)
        await asyncio.to_thread(run.pause, 0.5)
        shown.remind()
    return None
