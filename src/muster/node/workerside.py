"""A worker's side: it finds main, keeps a link to it, and reads the work dir where the link cannot be had."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING, Any

from ..errors import NodeError, StoreError
from ..workdir.records import End, MainConfig, Verdict, fold
from ..workdir.run import Sign
from . import life as lives
from .asking import ask
from .life import Phase
from .link import Link
from .messages import Conclude, Done, Go, Left, MainSeen, Members, ToMain, ToNode
from .outage import Outage
from .pace import Pace
from .waiting import delays, insist

if TYPE_CHECKING:
    from .outset import Outset
    from .program import Node

_FRESH = 2.0
"""Seconds for which a main that was found at the outset need not be looked for again."""
_FIRST_LOOK = 1.0
"""Seconds until the next look into the work dir after something came by that way."""


class WorkerSide:
    def __init__(self, outset: Outset) -> None:
        self._outset = outset
        self._done = False
        self._ready = False
        self._beat: tuple[int, int] | None = None
        self._beat_at = self._main_at = 0.0
        self._sign: Sign | None = None
        """The last of main's signs that we have followed."""
        self._unheard = False
        """Our last word could not be told to main."""

    @property
    def ready(self) -> bool:
        return self._ready

    @property
    def done(self) -> bool:
        return self._done

    async def open(self, node: Node) -> None:
        self._node = node
        self._pace = Pace(node.run.store.capabilities)
        self._looks: Iterator[float] = repeat(self._pace.look_apart)
        self._opened_at = asyncio.get_running_loop().time()
        self._outage = Outage(node.say, "the work dir does not answer")
        self._link = Link(
            node.record.node,
            self._outset.key or b"",
            hear=self._hear,
            gone=self._gone,
            back=self._back,
            unreachable=lambda detail: node.task(self._no_answer(detail)),
            watched=node.logs.watch,
        )
        node.task(self._watch_store())

    async def meet(self) -> None:
        fresh = asyncio.get_running_loop().time() - self._opened_at < _FRESH
        config = self._outset.main if fresh else None
        # Whoever has waited for long waits a fifth of that at most once main is there.
        for delay in delays(slowest=self._pace.look, growth=1.25):
            if config := config or await self._look_for_main():
                await self._found(config)
                return
            await asyncio.sleep(delay)

    async def _look_for_main(self) -> MainConfig | None:
        run, record = self._node.run, self._node.record
        first = record.incarnation == 1 and not self._node.job.workers.elastic
        try:
            # Whoever was never here before most often meets the first main there is, which is the cheapest to find.
            return await (ask(run.main_of, 1) if first else ask(run.latest_main))
        except StoreError as error:
            self._outage.began(error)
            return None

    async def _found(self, config: MainConfig) -> None:
        self._node.find_address(config.address)
        if self._node.settings.channel:
            # Main makes the key, if nobody has before, and can be seen only afterwards.
            self._link.key = self._link.key or await insist(self._node.run.key)
            self._link.aim(config)
        else:
            self._unreachable("MUSTER_CONTROL=store")
        self._node.feed(MainSeen(config))

    def tell(self, message: ToMain) -> None:
        self._done = self._done or isinstance(message, Done)
        self._unheard = isinstance(message, Left) and not self._link.connected
        self._link.tell(message)

    def show(self, message: dict[str, Any]) -> None:
        self._link.send(message)

    def stop(self, detail: str) -> None:
        self._node.feed(lives.StopSeen(detail))

    def tick(self) -> None:
        """A worker's deadlines stand in its life."""

    def _hear(self, message: ToNode) -> None:
        if isinstance(message, MainSeen) and message.config.generation > self._node.life.generation:
            self._done = False
        self._ready = self._ready or isinstance(message, Go)
        self._node.hear(message)

    async def conduct(self) -> dict[str, str]:
        raise NodeError(f"{self._node.framework.name} starts a launcher on a worker, which cannot conduct")

    def _gone(self) -> None:
        self._looks = self._quick_looks()
        self._node.feed(lives.MainGone())

    def _back(self) -> None:
        if self._node.record.link == "store":
            self._node.record = replace(self._node.record, link="channel")
        self._node.feed(lives.MainBack())

    async def _no_answer(self, detail: str) -> None:
        """Main does not answer where we looked for it: a newer one may stand elsewhere."""
        newer = None
        with suppress(StoreError):
            newer = await ask(self._node.run.latest_main, self._node.life.generation)
        if newer:
            await self._found(newer)
        elif not self._link.connected:
            self._unreachable(detail)

    def _unreachable(self, detail: str) -> None:
        self._node.record = replace(self._node.record, link="store")
        self._looks = self._quick_looks()
        self._node.keeping.changed()
        if self._node.record.notes:
            return  # said when it was first so; each new main is tried anew
        note = (
            f"the control channel to main cannot be reached: {detail}. The run goes on through the work dir; "
            f"a lost node is noticed within {self._pace.lost:g} s instead of at once"
        )
        self._node.say(note)
        self._node.record = replace(self._node.record, notes=(note,))

    # --- where there is no channel -----------------------------------------------------------------------

    def _quick_looks(self) -> Iterator[float]:
        return delays(slowest=self._pace.look_apart, first=_FIRST_LOOK, spread=0.0)

    async def _watch_store(self) -> None:
        while True:
            # What main tells over the channel comes sooner, and we must not be ahead of it with an end of our own.
            await asyncio.sleep(min(_FIRST_LOOK, self._pace.look) if self._link.connected else next(self._looks))
            if self._link.connected:
                continue
            try:
                await self._look()
                self._outage.over()
            except StoreError as error:
                self._outage.began(error)

    async def _look(self) -> None:
        """All that a channel would have told: the end, a newer main, the members, and whether main lives."""
        node, signs = self._node, await ask(self._node.run.signs)
        if signs.stop:
            await self._stop()
            return
        if node.life.main is None or not (self._link.tried or node.record.link == "store"):
            return  # to find main is what `meet` does, and it may be about to answer
        sign = signs.nodes.get("main")
        # A main that we had a channel to does not know that it must leave signs for us.
        unsigned = node.record.link != "store" or self._sign is None or node.life.phase is not Phase.RUNNING
        if unsigned or sign != self._sign:
            self._looks = self._looks if sign == self._sign else self._quick_looks()
            self._sign = sign
            if await self._read_news():
                return
        await self._look_at_main()

    async def _stop(self) -> None:
        request = await ask(self._node.run.stop_request) or {}
        if verdict := request.get("verdict"):
            self._node.feed(Conclude(Verdict.from_json(verdict)))
        else:
            self._node.feed(lives.StopSeen(str(request.get("why") or "a stop file was found")))

    async def _read_news(self) -> bool:
        """What main has written for us; true if it changes all else."""
        node, run = self._node, self._node.run
        if node.job.workers.elastic and (verdict := await ask(run.released, node.record.node)):
            node.feed(Conclude(verdict))
            return True
        if config := await ask(run.latest_main, node.life.generation):
            self._done = False
            await self._found(config)
            return True
        if node.life.phase is Phase.GATHERING and (members := await ask(run.members, node.life.generation)):
            node.feed(Members(node.life.generation, tuple(members)))
        return False

    async def _look_at_main(self) -> None:
        """Reads main's record, as often as it is written where nothing changes."""
        now = asyncio.get_running_loop().time()
        if self._pace.billed and now < self._main_at:
            return
        record = await ask(self._node.run.node, "main")
        beat = (record.incarnation, record.beat) if record else None
        if record:
            self._main_at = now + self._pace.record(record)
        if beat != self._beat:
            first, self._beat, self._beat_at = self._beat is None, beat, now
            if not first and record and record.state != "ended":
                self._node.feed(lives.MainBack())
        elif not record or now - self._beat_at > self._pace.stale(record) or record.state == "ended":
            self._node.feed(lives.MainGone())
        if record and record.generation > self._node.life.generation:
            self._sign = None  # a sign of it was missed
        if record and record.state == "ended" and (result := await ask(self._node.run.result)):
            # Its last word did not reach us, but it is written down.
            self._node.feed(Conclude(Verdict(result.end, result.exit_code, result.detail)))

    async def close(self, verdict: Verdict | None) -> int:
        await self._node.keeping.finish(self._unheard)
        await self._link.close()
        if verdict and verdict.end in (End.MAIN_LOST, End.MAIN_NOT_FOUND):
            await insist(self._write_result)
        return verdict.exit_code if verdict else 125

    def _write_result(self) -> None:
        """Without a main, whoever is first folds what the nodes said."""
        run = self._node.run
        if run.result():
            return
        records = run.nodes()
        result = fold(
            run.run,
            [record.verdict for record in records if record.verdict],
            generation=self._node.life.generation,
            started_at=min((record.started_at for record in records), default=0.0),
            ended_at=time.time(),
        )
        if result:
            run.write_result(result)
