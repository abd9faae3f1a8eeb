"""Claiming a name: create-only, and taken over only from a node that has ended or is plainly gone."""

from __future__ import annotations

import time
from dataclasses import replace

from ..errors import AlreadyExists, NodeError
from ..workdir.records import NodeRecord
from ..workdir.run import RunFolder
from ..workdir.view import gone
from .pace import Pace
from .waiting import delays

_STALE = 12.0
"""Seconds without a change of the beat after which a name's holder counts as gone: more than two beats."""


def claim(run: RunFolder, record: NodeRecord) -> NodeRecord:
    """Our record under our name. Blocks while a former holder of it is watched for signs of life."""
    try:
        run.claim(record)
        return record
    except AlreadyExists:
        pass
    former = run.node(record.node)
    if former and former.boot == record.boot:
        # Our own claim was made, and only the answer to it was lost.
        return replace(record, incarnation=former.incarnation)
    if former is None or not _gone(run, former, record.boot):
        holder = f"process {former.pid} on {former.host}" if former else "another node"
        raise NodeError(
            f"the name {record.node} of run {run.run} is taken by {holder}",
            "Give each node a name of its own (MUSTER_NODE), or another RANK.",
        )
    again = replace(record, incarnation=former.incarnation + 1)
    try:
        run.claim_again(again)
    except AlreadyExists:
        raise NodeError(f"the name {record.node} of run {run.run} was taken by another node just now") from None
    return again


def _gone(run: RunFolder, former: NodeRecord, mark: str) -> bool:
    """Judged by the change of its beat on our own clock; clocks of two machines are never compared."""
    if gone(former):
        return True
    pace = Pace(run.store.capabilities)
    bound, slowest = (pace.stale(former), pace.look) if pace.billed else (_STALE, 1.0)
    if pace.billed:
        # It may have been silent for long already: its machine had to be replaced first.
        bound -= run.written_ago(former.node, mark) or 0.0
    until = time.monotonic() + bound
    for delay in delays(slowest=slowest, first=0.2):
        if time.monotonic() > until:
            return True
        time.sleep(min(delay, max(0.1, until - time.monotonic())))
        now = run.node(former.node)
        if now is None or now.state == "ended":
            return True
        if (now.boot, now.beat) != (former.boot, former.beat):
            return False
    return False
