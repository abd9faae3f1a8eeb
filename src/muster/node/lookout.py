"""Main's lookout into the work dir: what somebody asks of the run, and the nodes that have no channel to main."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from ..errors import StoreError
from ..workdir.run import Signs
from ..workdir.twin import wants_stop
from . import roster
from .apart import Apart, Heard
from .asking import ask
from .keeping import LIFE
from .life import StopSeen
from .messages import Done, Failed, Hello, Left, Started
from .outage import Outage
from .pace import Pace
from .waiting import delays, insist

if TYPE_CHECKING:
    from .program import Node

_FIRST = 1.0
"""Seconds until the next look after something came by this way."""


class Lookout:
    """One listing shows at each look all that is new; only that is read."""

    def __init__(
        self, node: Node, feed: Callable[[roster.Event], None], connected: Callable[[], Collection[str]]
    ) -> None:
        self._node, self._run, self._feed, self._connected = node, node.run, feed, connected
        self._apart = Apart(node.run)
        self._pace = Pace(node.run.store.capabilities)
        self._pauses = self._quick()
        self._scale = ""
        self._signs = node.record.incarnation * LIFE

    def hears(self, node: str) -> bool:
        """Whether this is a node without a channel that we have heard of."""
        return node in self._apart.known

    async def watch(self, over: Callable[[], bool]) -> None:
        """Looks until all is over. A stop file stops the run, whoever wrote it."""
        outage = Outage(self._node.say, "the work dir does not answer")
        while not over():
            await asyncio.sleep(next(self._pauses))
            try:
                await self.look()
                outage.over()
            except StoreError as error:
                outage.began(error)

    async def look(self) -> None:
        signs = await ask(self._run.signs)
        twin = self._node.settings.twin
        stopped = bool(twin) and bool(await ask(wants_stop, self._run.store, twin))
        if stopped:
            self._feed(StopSeen(f"a stop file was found in {twin}"))
            return
        if signs.stop:
            request = await ask(self._run.stop_request) or {}
            self._feed(StopSeen(str(request.get("why") or "a stop file was found")))
            return
        await self.heed_scale(signs.scale)
        await self._hear(signs)

    async def heed_scale(self, request: str) -> None:
        """Has the cluster take the size that was asked for last; a request is read once."""
        workers = self._node.job.workers
        if workers.elastic and request > self._scale:
            wanted = await ask(self._run.wanted_by, request)
            self._scale = request
            self._feed(roster.Scale(min(max(wanted, workers.min), workers.max)))

    def farewells(self, apart: bool) -> tuple[float, Iterator[float]]:
        """How much longer the others may need to see the end, and the pauses between looks for their last words."""
        if not self._pace.billed:
            return 0.0, delays(slowest=0.5, first=0.5)
        # Who has no channel may see the end only when it next looks for it.
        return self._pace.look_apart if apart else 0.0, delays(slowest=self._pace.look / 4, first=0.5)

    async def hear(self) -> None:
        """The nodes without a channel alone, when all else no longer matters."""
        await self._hear(await ask(self._run.signs))

    async def _hear(self, signs: Signs) -> None:
        known = set(self._apart.known)
        if await self._apart.look(signs, self._connected()):
            self._pauses = self._quick()
        for heard in [*self._apart.known.values()]:
            self._hear_one(heard)
        if self._apart.known.keys() - known:
            self.tell()  # of what was written before we knew of them

    def _hear_one(self, heard: Heard) -> None:
        record = heard.record
        if record.state == "ended" and record.verdict:
            # It left without a channel, or broke before it had met us.
            self._feed(Left(record.node, record.verdict))
            return
        if record.link != "store":
            return
        if self._apart.silent(heard):
            self._feed(roster.Lost(record.node, f"{record.node} was lost: its record stays the same", time.time()))
            return
        facts = (record.address, record.processes, record.ports, record.incarnation)
        self._feed(Hello(record.node, record.role, record.generation, *facts))
        if record.state == "running":
            self._feed(Started(record.node, record.generation))
        if record.failure:
            script = self._node.framework.script_everywhere(self._node.job)
            self._feed(Failed(record.node, record.generation, record.failure, script))
        elif record.done:
            self._feed(Done(record.node, record.generation))

    async def write(self, call: Callable[[], object]) -> None:
        """Something for nodes without a channel to read; a sign tells them that it is there."""
        try:
            await insist(call)
        except StoreError as error:
            # Those that have a channel were told already, and the run must not end for the others.
            self._node.say(f"nodes without a control channel cannot be told: {error.message}")
        self.tell()

    def tell(self) -> None:
        """Shows nodes without a channel, if there are any, that there is something new to read."""
        if self._apart.known:
            self._signs += 1
            self._node.task(self._leave_sign(self._signs))

    async def _leave_sign(self, number: int) -> None:
        with suppress(StoreError):
            await insist(partial(self._run.leave_sign, "main", number, number))
            await insist(partial(self._run.take_sign_away, "main", number - 1))

    def _quick(self) -> Iterator[float]:
        return delays(slowest=self._pace.look, first=_FIRST, spread=0.0)
