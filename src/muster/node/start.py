"""Starting a node: its settings, its guardian, and then the program itself."""

from __future__ import annotations

import os
import secrets
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import MusterError, StoreBusy
from .guardian import guarded
from .settings import Settings, read_settings

if TYPE_CHECKING:
    from ..workdir.run import RunFolder
    from .outset import Outset
    from .program import Node
    from .sides import Side


def main() -> int:
    """`muster node`: all it needs stands in the environment."""
    try:
        settings = read_settings(os.environ)
        if settings.node is None:
            # A random name meets no other; to ask for a free number would cost a request per node there is.
            settings = replace(settings, node=f"{settings.role}-{secrets.token_hex(4)}")
    except MusterError as error:
        return _refuse(error)
    # Of this start alone: a second node of the same name, which will be refused, must not end the first one's.
    settings = replace(settings, mark=f"{settings.run}/{settings.node}/{secrets.token_hex(4)}")
    return guarded(settings.mark, lambda watch: _program(settings, watch))


def _program(settings: Settings, watch: int) -> int:
    # Loaded here, in the guarded child: the guardian stays small.
    import asyncio

    from ..workdir.opening import open_store
    from ..workdir.run import RunFolder

    try:
        node = claimed(settings, RunFolder(open_store(settings.work_dir), settings.run))
        # Not asyncio.run, which would wait for every thread: an installer's may take minutes to see that it is over.
        return asyncio.new_event_loop().run_until_complete(node.live(watch))
    except MusterError as error:
        return _refuse(error)


def claimed(settings: Settings, run: RunFolder) -> Node:
    """The node with its job read and its name claimed, ready to live."""
    from .outset import set_out
    from .program import Node, first_record
    from .waiting import AWAY, delays

    record = first_record(settings)
    until = time.monotonic() + AWAY
    for delay in delays(slowest=5.0, first=0.5):
        try:
            outset = set_out(settings, run, record)
            break
        except StoreBusy:
            # A thousand nodes that come at once may well be told to wait.
            if time.monotonic() + delay > until:
                raise
        time.sleep(delay)
    return Node(settings, run, outset.job, _side(settings.role, outset), outset.record)


def _side(role: str, outset: Outset) -> Side:
    # What only main knows is loaded only there.
    if role == "main":
        from .mainside import MainSide

        return MainSide(outset)
    from .workerside import WorkerSide

    return WorkerSide(outset)


def _refuse(error: MusterError) -> int:
    print(f"muster node: {error}", file=sys.stderr, flush=True)  # noqa: T201
    return error.exit_code
