"""A worker's side: it finds main, keeps a link to it, and reads the work dir where the link cannot be had."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import NodeError, StoreError
from ..workdir.records import End, MainConfig, Verdict, fold
from . import life as lives
from .link import Link
from .messages import Conclude, Done, Go, Left, MainSeen, Members, ToMain, ToNode
from .waiting import delays, insist

if TYPE_CHECKING:
    from .program import Node

_STALE = 25.0
"""Seconds without a new beat of main in the work dir after which it counts as gone."""


class WorkerSide:
    def __init__(self) -> None:
        self._done = False
        self._ready = False
        self._beat: tuple[int, int] | None = None
        self._beat_at = 0.0
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
        key = await asyncio.to_thread(node.run.make_key)
        self._link = Link(
            node.record.node,
            key,
            hear=self._hear,
            gone=lambda: node.feed(lives.MainGone()),
            back=self._back,
            unreachable=self._unreachable,
            watched=node.logs.watch,
        )
        node.task(self._watch_store())

    async def meet(self) -> None:
        node = self._node
        for delay in delays(slowest=node.run.store.capabilities.poll_seconds):
            config = await asyncio.to_thread(node.run.latest_main)
            if config:
                self._found(config)
                return
            await asyncio.sleep(delay)

    def _found(self, config: MainConfig) -> None:
        self._node.find_address(config.address)
        if self._node.settings.channel:
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

    def _back(self) -> None:
        if self._node.record.link == "store":
            self._node.record = replace(self._node.record, link="channel")
        self._node.feed(lives.MainBack())

    def _unreachable(self, detail: str) -> None:
        self._node.record = replace(self._node.record, link="store")
        if self._node.record.notes:
            return  # said when it was first so; each new main is tried anew
        note = (
            f"the control channel to main cannot be reached: {detail}. The run goes on through the work dir; "
            f"a lost node is noticed within {_STALE:g} s instead of at once"
        )
        self._node.say(note)
        self._node.record = replace(self._node.record, notes=(note,))

    async def _watch_store(self) -> None:
        pause = self._node.run.store.capabilities.poll_seconds
        while True:
            await asyncio.sleep(pause)
            if self._link.connected:
                continue
            try:
                await self._look()
            except StoreError as error:
                self._node.say(f"the work dir does not answer: {error.message}")

    async def _look(self) -> None:
        """All that a channel would have told: the end, a newer main, the members, and whether main lives."""
        node, run = self._node, self._node.run
        if (request := await asyncio.to_thread(run.stop_request)) is not None:
            verdict = request.get("verdict")
            if verdict:
                node.feed(Conclude(Verdict.from_json(verdict)))
            else:
                node.feed(lives.StopSeen(str(request.get("why") or "a stop file was found")))
            return
        if node.job.workers.elastic and (verdict := await asyncio.to_thread(run.released, node.record.node)):
            node.feed(Conclude(verdict))
            return
        if node.life.main is None:
            return  # to find main is what `meet` does
        config = await asyncio.to_thread(run.latest_main)
        if config and config.generation > node.life.generation:
            self._done = False
            self._found(config)
            return
        members = await asyncio.to_thread(run.members, node.life.generation)
        if members:
            node.feed(Members(node.life.generation, tuple(members)))
        await self._look_at_main()

    async def _look_at_main(self) -> None:
        record = await asyncio.to_thread(self._node.run.node, "main")
        now = time.monotonic()
        beat = (record.incarnation, record.beat) if record else None
        if beat != self._beat:
            first, self._beat, self._beat_at = self._beat is None, beat, now
            if not first and record and record.state != "ended":
                self._node.feed(lives.MainBack())
        elif now - self._beat_at > _STALE or (record and record.state == "ended"):
            self._node.feed(lives.MainGone())
        if record and record.state == "ended" and (result := await asyncio.to_thread(self._node.run.result)):
            # Its last word did not reach us, but it is written down.
            self._node.feed(Conclude(Verdict(result.end, result.exit_code, result.detail)))

    async def close(self, verdict: Verdict | None) -> int:
        node = self._node
        await insist(partial(node.run.write_node, node.next_record()))
        if self._unheard:
            await insist(lambda: node.run.mark_apart(node.record.node))
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
