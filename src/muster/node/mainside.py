"""Main's side: the hub of the control channel, and the shell around `cluster.step`."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import AlreadyExists, NodeError, StoreError
from ..workdir.records import End, MainConfig, Result, Verdict, fold
from ..workdir.twin import show_main
from . import cluster as clusters
from . import roster
from .conductor import Conductor, blamed
from .hub import Hub
from .life import StopSeen, Tick
from .lookout import Lookout
from .machines import end_the_others
from .messages import (
    Conclude,
    Dismiss,
    Done,
    Failed,
    Go,
    Hello,
    Hire,
    HireEnded,
    Left,
    MainSeen,
    Members,
    Started,
    ToMain,
    ToNode,
)
from .probe import passes
from .roster import Cluster, NewGeneration, Release, Say, Send, Terms
from .waiting import delays, insist

if TYPE_CHECKING:
    from .outset import Outset
    from .program import Node

_FAREWELL = 15.0
"""Seconds for the others to end their processes and bring their things home."""
_LEAVING = 60.0
"""Seconds that processes on a node which is to leave have to let go of their work."""
_SOON = 0.05


class MainSide:
    def __init__(self, outset: Outset) -> None:
        self._outset = outset
        self._copying: asyncio.Task[None] | None = None
        self._members: Members | None = None
        self._verdict: Verdict | None = None
        self._left = asyncio.Event()
        self._done = False
        self._started_at = time.time()
        self._ever_ready = False
        self._shown = True
        self._conductor: Conductor | None = None
        self.links: dict[str, str] = {}

    @property
    def ready(self) -> bool:
        return self._ever_ready

    @property
    def done(self) -> bool:
        return self._done

    async def open(self, node: Node) -> None:
        self._node = node
        assert self._outset.key is not None  # noqa: S101 - main has made it where there was none
        self._lookout = Lookout(node, self._feed, lambda: self._hub.nodes.keys())
        key = self._outset.key
        self._hub = Hub(key, self._hear, self._lost, self._greeting, self.snapshot, self.stop, self._look)
        self._hub.on_watched = node.logs.watch  # type: ignore[method-assign]
        address = node.find_address(None)
        try:
            self._control_port = await self._hub.open(address, node.settings.control_port)
        except OSError as error:
            raise NodeError(f"the control channel cannot listen on {address}: {error}", "Free the port.") from error
        now = time.monotonic()
        retried = node.record.incarnation - 1
        self.cluster = Cluster(_terms(node), born=now - await self._age(), since=now, retried=retried)
        with suppress(StoreError):  # the next look heeds it
            await self._lookout.heed_scale(self._outset.scale)
        node.task(self._lookout.watch(over=lambda: self._verdict is not None))

    async def _age(self) -> float:
        """Seconds that the run has had before us: a main that takes over must not grant it a new ttl."""
        if self._node.record.incarnation == 1:
            return 0.0
        document = await insist(self._node.run.read_job)
        return max(0.0, time.time() - document.created_at)

    async def meet(self) -> None:
        run = self._node.run
        again = self._node.record.incarnation > 1
        if self._outset.ended or (again and await insist(run.result) is not None):
            raise NodeError(f"run {run.run} has ended already", "Start a new run; a run id is used once.")
        latest = await insist(run.latest_main) if again else None
        await self._publish(latest.generation + 1 if latest else 1)

    async def _publish(self, generation: int, patient: bool = False) -> None:
        life = self._node.life
        while True:
            config = MainConfig(life.node, life.address, self._control_port, generation, dict(life.ports or {}))
            try:
                await insist(partial(self._node.run.publish_main, config))
                break
            except AlreadyExists:
                generation += 1
        self._copying = asyncio.ensure_future(self._copy(config, self._copying))
        self.cluster = replace(self.cluster, generation=generation)
        self._members = None
        self._hub.send(MainSeen(config, patient))
        self._node.feed(MainSeen(config, patient))
        self._lookout.tell()
        self.links = self._node.framework.links(self._node.scene())
        self._show_state()

    async def _copy(self, config: MainConfig, former: asyncio.Task[None] | None) -> None:
        """People may have their copy a little later than the nodes see main; but never an older one last."""
        if former:
            await former
        run, twin = self._node.run, self._node.settings.twin
        with suppress(StoreError):
            await insist(partial(run.show_main, config))
            if twin:
                await insist(partial(show_main, run.store, twin, config))

    # --- what is said ------------------------------------------------------------------------------------

    def tell(self, message: ToMain) -> None:
        if isinstance(message, Started) and message.generation == self.cluster.generation:
            self._node.task(self._probe(message.generation))
        self._done = self._done or isinstance(message, Done)
        if isinstance(message, Failed) and message.script:
            message = replace(message, failure=blamed(self._conductor, message.failure))
        if not isinstance(message, Left):
            self._hear(message)

    def _hear(self, message: ToMain) -> None:
        if not isinstance(message, HireEnded):
            self._feed(message)
        elif self._conductor:
            self._conductor.ended(message)
        if isinstance(message, Hello) and self._conductor:
            # Not before it said hello: another machine of its name must not start what that one was to run.
            for standing in self._conductor.standing(message.node):
                self._hub.send(standing, message.node)

    def show(self, message: dict[str, Any]) -> None:
        self._hub.show(message)

    def stop(self, detail: str) -> None:
        self._feed(StopSeen(detail))

    def tick(self) -> None:
        self._feed(Tick())

    def _lost(self, node: str) -> None:
        self._feed(roster.Lost(node, f"{node} was lost: its connection broke", time.time()))

    def _feed(self, event: roster.Event) -> None:
        if not hasattr(self, "cluster"):
            return
        before = self.cluster
        self.cluster, orders = clusters.step(before, event, time.monotonic())
        self._ever_ready = self._ever_ready or self.cluster.ready
        for order in orders:
            self._obey(order)
        if self.cluster is not before:
            self._tell_conductor(before)
            self._show_state()
            if all(not peer.alive for name, peer in self.cluster.peers.items() if name != "main"):
                self._left.set()

    def _obey(self, order: roster.Order) -> None:
        if isinstance(order, Say):
            self._node.say(order.text)
        elif isinstance(order, NewGeneration):
            self._node.say(f"generation {order.generation}: {order.reason}")
            self._node.task(self._next_generation(order))
        elif isinstance(order, Release):
            self._node.task(self._release(order.nodes))
        else:
            self._send(order)

    def _send(self, order: Send) -> None:
        message = order.message
        if isinstance(message, Members):
            self._members = message
            self._node.task(
                self._lookout.write(partial(self._node.run.write_members, message.generation, message.members))
            )
        if isinstance(message, Conclude) and order.node is None:
            self._verdict = message.verdict
            if self._out_of_reach():
                self._node.task(self._lookout.write(partial(self._node.run.conclude, message.verdict)))
        elif isinstance(message, Conclude) and order.node and order.node not in self._hub.nodes:
            self._node.task(self._lookout.write(partial(self._node.run.release, order.node, message.verdict)))
        self._hub.send(message, order.node)
        if order.node in (None, "main"):
            self._node.feed(message)

    async def _next_generation(self, order: NewGeneration) -> None:
        if self._node.record.role == "main":
            self._node.life = replace(self._node.life, ports=self._node.take_ports())
        await self._publish(order.generation, order.patient)
        for node in order.released:
            self._send(Send(Conclude(clusters.released(self.cluster.wanted)), node))

    # --- another size ------------------------------------------------------------------------------------

    def _look(self) -> None:
        self._node.task(self._look_now())

    async def _look_now(self) -> None:
        with suppress(StoreError):  # the next look says so if it goes on
            await self._lookout.look()

    async def _release(self, nodes: tuple[str, ...]) -> None:
        """What the nodes have and do is taken from them first; one that does not let go in time loses it."""
        node = self._node
        if (command := node.framework.retire(node.scene(), nodes)) and (code := await node.errand(command, _LEAVING)):
            node.say(f"{command.process} ended with exit code {code}: {', '.join(nodes)} may leave with work undone")
        if self._conductor and not await self._conductor.emptied(nodes, _LEAVING):
            node.say(f"{', '.join(nodes)} still had processes after {_LEAVING:g} s; they are ended")
        for leaving in nodes:
            self._send(Send(Conclude(clusters.released(self.cluster.wanted)), leaving))

    # --- a launcher of the framework's own ---------------------------------------------------------------

    async def conduct(self) -> dict[str, str]:
        if self._conductor:
            self._conductor.close()
        self._conductor = Conductor(self.cluster.generation, self._send_hire)
        self._conductor.hosts(self._slots())
        return await self._conductor.open()

    def _slots(self) -> dict[str, int]:
        main = self._node.job.role("main").computes
        return {
            name: peer.hello.processes
            for name, peer in self.cluster.peers.items()
            if peer.state == "started" and (name != "main" or main)
        }

    def _send_hire(self, node: str, message: Hire | Dismiss) -> bool:
        if node == "main":
            self._node.hear(message)
            return True
        self._hub.send(message, node)
        # One whose connection broke is told when it comes back, unless it is lost by then.
        peer = self.cluster.peers.get(node)
        return node in self._hub.nodes or (peer is not None and peer.alive and not self._lookout.hears(node))

    def _tell_conductor(self, before: Cluster) -> None:
        if self._conductor is None or before.generation != self.cluster.generation:
            return
        self._conductor.hosts(self._slots())
        for name, peer in self.cluster.peers.items():
            was = before.peers.get(name)
            # One that came back as another machine before its loss was noticed has lost what it ran, too.
            anew = was is not None and was.hello.incarnation != peer.hello.incarnation
            if anew or (peer.state in ("lost", "left") and was != peer):
                self._conductor.lost(name)

    def _greeting(self, node: str) -> list[ToNode]:
        """What a node must know that connects now, or again."""
        said: list[ToNode] = []
        if self._node.life.main:
            said.append(MainSeen(self._node.life.main))
        if self._members:
            said.append(self._members)
        if self.cluster.ready:
            said.append(Go(self.cluster.generation))
        if self._verdict:
            said.append(Conclude(self._verdict))
        return said

    # --- what watchers see -------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        return {
            "kind": "state",
            "ready": self.cluster.ready,
            "generation": self.cluster.generation,
            "links": self.links,
            "nodes": {name: peer.state for name, peer in self.cluster.peers.items()},
            "missing": [] if self.cluster.ready else list(roster.missing(self.cluster)),
        }

    def _show_state(self) -> None:
        """Soon, and once for all that happens until then: a thousand nodes come with thousands of changes."""
        if self._shown and self._hub.watched():
            self._shown = False
            asyncio.get_running_loop().call_later(_SOON, self._show_now)

    def _show_now(self) -> None:
        self._shown = True
        self._hub.show(self.snapshot())

    # --- readiness, the work dir -------------------------------------------------------------------------

    async def _probe(self, generation: int) -> None:
        node = self._node
        probe = node.framework.ready(node.scene(), self.cluster.terms.least)
        if probe is None:
            return
        # Where it waits for the user's own code that may take an hour.
        slowest = 0.1 if node.framework.probe_binds else 1.0
        for delay in delays(slowest=slowest, first=0.03, growth=1.2):
            if generation != self.cluster.generation or self._verdict:
                return
            if await passes(probe):
                self._feed(roster.ProbePassed(generation))
                return
            await asyncio.sleep(delay)

    def _out_of_reach(self) -> set[str]:
        """The nodes that are reached through the work dir alone."""
        alive = {name for name, peer in self.cluster.peers.items() if peer.alive}
        return alive - {"main", *self._hub.nodes}

    # --- the end -----------------------------------------------------------------------------------------

    async def close(self, verdict: Verdict | None) -> int:
        node = self._node
        if self._verdict is None and verdict and not node.quit_quietly:
            await self._break_off(verdict)
        await self._farewell()
        result = fold(
            node.run.run,
            [verdict] if verdict else [],
            generation=self.cluster.generation,
            started_at=self._started_at,
            ended_at=time.time(),
        )
        try:
            # The result first: whoever sees that we have ended looks for it.
            if result and not node.quit_quietly:
                await self._write_down(result)
            # Who is still there has its own time to bring its things home, and ends by itself.
            spared = [name for name, peer in self.cluster.peers.items() if peer.alive or peer.state == "left"]
            await end_the_others(spared, roster.expected(self.cluster), node.say)
            await node.keeping.finish(unheard=False)
            if self._copying:
                await self._copying
        finally:
            if self._conductor:
                self._conductor.close()
            if result:
                self._hub.show({"kind": "end", "result": asdict(result)})
            await self._hub.close()
        return result.exit_code if result else 125

    async def _write_down(self, result: Result) -> None:
        run = self._node.run
        if result.end is End.STOP_REQUESTED:
            await insist(lambda: run.request_stop(result.detail, "main"))
        await insist(lambda: run.write_result(result))

    async def _break_off(self, verdict: Verdict) -> None:
        """Main broke by itself. Even if it never got as far as to be seen, the others must not wait for it."""
        if self._node.life.main is None:
            latest = await insist(self._node.run.latest_main)
            generation = latest.generation + 1 if latest else 1
            config = MainConfig("main", self._node.life.address, self._control_port, generation)
            await insist(partial(self._node.run.publish_main, config))
        self._verdict = verdict
        self._hub.send(Conclude(verdict))

    async def _farewell(self) -> None:
        """Waits until every node that is alive has said its last word, or has had time enough."""
        longer, pauses = self._lookout.farewells(apart=bool(self._out_of_reach()))
        until = time.monotonic() + _FAREWELL + longer
        while time.monotonic() < until and any(
            peer.alive for name, peer in self.cluster.peers.items() if name != "main"
        ):
            self._left.clear()
            if apart := self._out_of_reach():
                with suppress(StoreError):  # it may answer the next time; the farewell has its bound
                    await self._lookout.hear()
            try:
                await asyncio.wait_for(self._left.wait(), next(pauses) if apart else until - time.monotonic())
            except asyncio.TimeoutError:
                continue


def _terms(node: Node) -> Terms:
    job, framework = node.job, node.framework
    everywhere = framework.script_everywhere(job)
    # Where all must know all, a main that computes is one of them, also if it alone runs the script.
    computes = (everywhere or framework.gathers(job)) and job.role("main").computes
    idle = frozenset() if computes or not everywhere else frozenset({"main"})
    return Terms(
        workers=job.workers.first,
        least=job.workers.min,
        most=job.workers.max,
        servers=job.ps,
        main_starts=computes or not framework.gathers(job),
        computing_main=computes,
        gathers=framework.gathers(job),
        survives_loss=framework.survives_loss(job),
        script_everywhere=everywhere,
        awaited=(framework.awaited(job) if everywhere else frozenset({"main"})) - idle,
        script_retried=framework.script_retried,
        ephemeral=job.ephemeral,
        probed=framework.probed,
        probe_binds=framework.probe_binds,
        retries=0 if framework.restarts_itself(job) else job.retries,
        loss_retries=job.retries,
        timeout=job.timeout,
        ttl=job.ttl,
    )
