"""A node's record in the work dir, kept up to date; and its sign, where main can hear of it in no other way."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ..errors import StoreError
from ..workdir.records import NodeRecord
from .asking import ask
from .pace import Pace
from .waiting import delays, happened, insist

if TYPE_CHECKING:
    from .program import Node

LIFE = 10**6
"""Each start of a node numbers its signs in a block of its own, so that a later one is always higher."""


class Keeping:
    """Writes the record when something in it has changed, and else seldom: beats are what it is written for then."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._pace = Pace(node.run.store.capabilities)
        self._changed = asyncio.Event()
        self._told: NodeRecord | None = None
        self._record_at = self._sign_at = 0.0
        self._sign = node.record.incarnation * LIFE
        self._left = 0

    def changed(self) -> None:
        self._changed.set()

    async def keep(self) -> None:
        """Until cancelled. A work dir that is away is tried again; training goes on meanwhile."""
        pauses = delays(slowest=self._pace.look, first=0.5)
        while True:
            if await happened(self._changed, self._due() - asyncio.get_running_loop().time()):
                await asyncio.sleep(0.0 if self._apart else self._pace.gather)
            self._changed.clear()
            try:
                await self._write()
                pauses = delays(slowest=self._pace.look, first=0.5)
            except StoreError as error:
                self._node.capture.step(f"the record could not be written: {error.message}")
                await asyncio.sleep(next(pauses))
                self._changed.set()

    async def finish(self, unheard: bool) -> None:
        """The last record; and a sign of it, if main has not heard our last word."""
        record = self._node.next_record()
        await insist(partial(self._node.run.write_node, record))
        if unheard or self._apart:
            await insist(partial(self._leave_sign, self._sign + 1, record.beat))

    @property
    def _apart(self) -> bool:
        return self._node.record.link == "store"

    def _due(self) -> float:
        return min(self._record_at, self._sign_at) if self._apart else self._record_at

    async def _write(self) -> None:
        record, now = self._node.next_record(), asyncio.get_running_loop().time()
        told = replace(record, beat=0, metrics={}, reported={})
        changed = told != self._told
        if changed or now >= self._record_at:
            await ask(self._node.run.write_node, record)
            self._record_at = now + self._pace.record(record)
        if self._apart and (changed or now >= self._sign_at):
            # The number tells main that there is something new to read; beats alone it sees without reading.
            await ask(self._leave_sign, self._sign + changed, record.beat)
            self._sign += changed
            self._sign_at = now + self._pace.sign
        self._told = told

    def _leave_sign(self, number: int, beat: int) -> None:
        run, name = self._node.run, self._node.record.node
        run.leave_sign(name, number, beat)
        if self._left not in (0, number):
            run.take_sign_away(name, self._left)
        self._left = number
