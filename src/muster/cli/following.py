"""Watching a run that was started from here, and looking after its nodes meanwhile.

Apart from `run.py`, so that asyncio, which is slow to load, is loaded while the nodes start and not before.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..node.watching import watch

if TYPE_CHECKING:
    from ..launching import Run
    from ..workdir.records import Result
    from .screen import Screen


def watched(run: Run, shown: Screen) -> Result | None:
    """Shows the run until it has ended."""
    return asyncio.run(_watch(run, shown))


async def _watch(run: Run, shown: Screen) -> Result | None:
    looking = asyncio.ensure_future(_look_after(run, shown))
    try:
        seen = await watch(run.folder, shown.lines, shown.state, alive=lambda: not looking.done())
        ended = await looking
    finally:
        looking.cancel()
    return ended or seen


async def _look_after(run: Run, shown: Screen) -> Result | None:
    """Lost nodes are started again, ended ones are taken off the process table, until none is left."""
    while (result := run.poll()) is None and run.has_nodes():
        await asyncio.to_thread(run.pause, 0.5)
        shown.remind()
    return result
