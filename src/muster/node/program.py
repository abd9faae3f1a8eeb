"""The node program: the thin shell around `life.step`. It carries actions out and feeds events back in."""

from __future__ import annotations

import asyncio
import secrets
import signal
import socket
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from ..errors import MusterError, NodeError, StoreBusy, StoreError
from ..frameworks.base import Command, Framework, Scene
from ..frameworks.registry import framework
from ..spec.job import Job
from ..workdir.arriving import ArrivingStore
from ..workdir.machine import Process
from ..workdir.records import Failure, NodeRecord, first_cause
from ..workdir.run import RunFolder
from ..workdir.segments import SegmentWriter
from ..workdir.store import Store
from . import life as lives
from . import tree
from .capture import Capture
from .guardian import ENDING_SIGNALS
from .homebound import Homebound
from .keeping import Keeping
from .leaving import Leaving
from .life import Life, Phase
from .lines import LogOut
from .messages import Dismiss, Hire, HireEnded, ToNode
from .outage import Outage
from .pace import Pace
from .ports import Reserved, interface_of, own_address
from .preparing import Ground, prepare
from .processes import Exit, Processes, Running
from .settings import Settings
from .sides import Side
from .surroundings import process_environment
from .waiting import AWAY, Absence, persist

_TICK = 0.25
"""How exactly deadlines are kept."""
_LAST_WORDS = 600.0
"""Seconds to hear the others out and to write the end down."""
_SETTLE, _SETTLE_PAUSE = 30.0, 5.0
"""For how long, and after how many seconds, a checkpoint that cannot be had now is asked for again."""


class Node:
    """One node of a run, from its claim to its exit code."""

    def __init__(self, settings: Settings, run: RunFolder, job: Job, side: Side, record: NodeRecord) -> None:
        self.settings, self.run, self.job, self.side = settings, run, job, side
        self.framework: Framework = framework(job.framework)
        self.record = record
        self.ports = Reserved()
        self.ground: Ground | None = None
        self.quit_quietly = False
        """The launch was given up half way: no result is written, so that it can be resumed."""
        self._over = asyncio.Event()
        self.keeping = Keeping(self)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._hires: dict[str, Running] = {}
        self._hired: set[str] = set()
        self.life = Life(
            node=record.node,
            role=record.role,
            gathers=self.framework.gathers(job),
            script=self._script_start(),
            timeout=job.timeout,
            # Main's own end by ttl is told to all, so it decides in `cluster.py`.
            ttl=None if record.role == "main" else job.ttl,
            main_grace=settings.main_grace,
            born=time.monotonic(),
            incarnation=record.incarnation,
        )

    def _script_start(self) -> str:
        if not self.job.entry:
            return "never"
        if self.framework.script_everywhere(self.job):
            return "start"
        return "ready" if self.record.role == "main" else "never"

    # --- the loop ----------------------------------------------------------------------------------------

    async def live(self, watch: int) -> int:
        """Lives the whole life. `watch` becomes readable when the guardian is gone."""
        log_store = ArrivingStore(self.run.store)
        self._leaving = Leaving(self, log_store)
        self.logs = LogOut(self._log_stream(log_store), self.side.show, Pace(self.run.store.capabilities).steps)
        secret_values = tuple(self.settings.secrets.values())
        self.capture = Capture(self.record.node, self.logs.add, secret_values, self.record.incarnation)
        complaint = self.framework.complaint
        self.processes = Processes(self.settings.mark, self.capture, self._exited, self.task, complaint)
        await self.side.open(self)
        # Not before: a launcher that is gone already would be heard of by a side that cannot stop anything yet.
        self._listen(watch)
        self.task(self.logs.ship())
        self.task(self._tick())
        self.task(self.keeping.keep())
        self.feed(lives.Claimed())
        await self._over.wait()
        code = await asyncio.wait_for(self.side.close(self.life.verdict), _LAST_WORDS)
        for task in self._tasks:
            task.cancel()
        return code

    def _log_stream(self, store: Store) -> SegmentWriter:
        # A name that nobody had before has no segments, and need not look for them.
        first = 1 if self.record.incarnation == 1 else None
        spill = self.settings.folder / "log.waiting"
        return SegmentWriter(store, self.run.at("logs", self.record.node), first=first, spill=spill)

    def feed(self, event: lives.Event) -> None:
        """One event in; its actions are under way when this returns."""
        before = self.life
        self.life, actions = lives.step(before, event, time.monotonic())
        if self.life.phase is not before.phase:
            self.capture.step(f"{before.phase.value} → {self.life.phase.value}: {self.life.reason}")
        if self.life is not before:
            self.keeping.changed()
        for action in actions:
            self._perform(action)

    def say(self, text: str) -> None:
        self.capture.say(text)

    def task(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            detail = str(error) if isinstance(error, MusterError) else f"{type(error).__name__}: {error}"
            self.feed(lives.Broken(detail, time.time()))

    # --- actions -----------------------------------------------------------------------------------------

    def _perform(self, action: lives.Action) -> None:
        if isinstance(action, lives.Prepare):
            self.task(self._prepare())
        elif isinstance(action, lives.Meet):
            self.task(self.side.meet())
        elif isinstance(action, lives.Start):
            self.task(self._start(action))
        elif isinstance(action, lives.EndProcesses):
            self.task(self._end_processes(action.patient))
        elif isinstance(action, lives.Tell):
            self.side.tell(action.message)
        elif isinstance(action, lives.Ship):
            self.task(self._ship())
        else:
            self._leaving.break_off()
            self._over.set()

    async def _prepare(self) -> None:
        loop = asyncio.get_running_loop()
        said: list[str] = []

        def say(text: str) -> None:
            said.append(text)
            loop.call_soon_threadsafe(self.say, text)

        outage = Outage(self.say, "the work dir does not answer")
        work = partial(prepare, self.settings, self.run, self.job, self.framework, say)
        # Only what has come further says so.
        self.ground = await persist(work, outage.began, progress=lambda: len(said))
        self.homebound = Homebound(self)
        if self.record.incarnation > 1:
            with suppress(StoreError):  # the shipping that begins now tries again
                await self.homebound.ship_complete()  # what this node had not sent when it was killed
        self.task(self.homebound.ship())
        self.feed(lives.Prepared(self.ground.processes, self.take_ports()))

    def find_address(self, main: str | None) -> str:
        """Our address as the others see it, now known to the life as well."""
        address = self.settings.address or own_address(self.settings.subnet, main)
        self.feed(lives.Addressed(address))
        return address

    def take_ports(self) -> dict[str, int]:
        self.ports.release()
        wishes = self.framework.ports(self.job, self.record.role)
        return self.ports.take(wishes, fixed=not self.settings.free_ports)

    async def _start(self, action: lives.Start) -> None:
        if action.services:
            await self._settle(action.generation)
        if not self._runs(action.generation):
            return  # it was over before it began
        commands = self._commands(action)
        extra = await self.side.conduct() if any(command.conducts for command in commands) else {}
        if not self._runs(action.generation):
            return
        for command in commands:
            self._start_one(command, action.generation, extra if command.conducts else {})
        scripts = frozenset(command.process for command in commands if command.script)
        self.feed(lives.Launched(action.generation, scripts))

    async def _settle(self, generation: int) -> None:
        """The newest checkpoint is in place before a process starts; a work dir that is away is waited for."""
        outage, first = Outage(self.say, "the newest checkpoint cannot be had yet"), time.monotonic()
        absence = Absence()
        while self._runs(generation):  # else whoever starts next settles for itself
            began = time.monotonic()
            try:
                await self.homebound.settle(generation)
                return
            except StoreError as error:
                busy = isinstance(error, StoreBusy)
                if absence.lasts(began) > AWAY if busy else time.monotonic() - first > _SETTLE:
                    raise
                outage.began(error)
                await asyncio.sleep(_SETTLE_PAUSE)

    def _runs(self, generation: int) -> bool:
        return self.life.phase is Phase.RUNNING and self.life.generation == generation

    def _commands(self, action: lives.Start) -> list[Command]:
        scene = self.scene()
        services = self.framework.services(scene) if action.services else ()
        scripts = self.framework.scripts(scene) if action.scripts else ()
        return [*services, *scripts]

    def _start_one(
        self,
        command: Command,
        generation: int,
        extra: Mapping[str, str] | None = None,
        on_exit: Callable[[Exit], None] | None = None,
    ) -> Running:
        assert self.ground is not None  # noqa: S101 - a node that starts processes has been prepared
        env = process_environment(self.settings, self.job, self.ground.code)
        streams = self.settings.folder / "streams"
        return self.processes.start(command, generation, {**env, **(extra or {})}, self.ground.code, streams, on_exit)

    async def errand(self, command: Command, within: float) -> int:
        """Runs a process whose end concerns nobody but the caller; its exit code."""
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        running = self._start_one(command, self.life.generation, on_exit=lambda done: ended.set_result(done.code))
        try:
            return await asyncio.wait_for(asyncio.shield(ended), within)
        except asyncio.TimeoutError:
            await self.processes.dismiss(running)
            return await ended

    # --- what main's launcher has this node do -----------------------------------------------------------

    def hear(self, message: ToNode) -> None:
        """What main says, over whichever way."""
        if isinstance(message, Hire):
            self.task(self._hire(message))
        elif isinstance(message, Dismiss):
            if running := self._hires.get(message.hire):
                self.task(self.processes.dismiss(running))
        else:
            self.feed(message)

    async def _hire(self, message: Hire) -> None:
        if message.hire in self._hired:
            return  # told again after a reconnect
        self._hired.add(message.hire)
        try:
            if not self._runs(message.generation):
                raise NodeError(f"{self.record.node} has no processes of generation {message.generation}")
            command = self.framework.hired(self.scene(), message.order)
            ended = partial(self._hire_ended, message)
            self._hires[message.hire] = self._start_one(command, message.generation, on_exit=ended)
        except Exception as error:  # noqa: BLE001 - whatever is wrong, the launcher must not wait for ever
            failure = Failure(self.record.node, "node", 1, at=time.time(), tail=(str(error) or repr(error),))
            self.side.tell(HireEnded(self.record.node, message.generation, message.hire, 1, failure))

    def _hire_ended(self, message: Hire, ended: Exit) -> None:
        self._hires.pop(message.hire, None)
        failure = self._failure(ended) if ended.code else None
        self.side.tell(HireEnded(self.record.node, message.generation, message.hire, ended.code, failure))

    def scene(self) -> Scene:
        assert self.ground is not None and self.life.main is not None  # noqa: S101, PT018 - both are there once main is seen
        return Scene(
            run=self.run.run,
            node=self.record.node,
            role=self.record.role,
            job=self.job,
            python=self.ground.python,
            code=self.ground.code,
            folder=self.settings.folder,
            address=self.life.address,
            ports=self.life.ports or {},
            main=self.life.main,
            processes=self.life.processes,
            members=self.life.members,
            fixed_ports=not self.settings.free_ports,
            interface=interface_of(self.life.address),
            certificates=self.ground.certificates,
        )

    async def _end_processes(self, patient: bool) -> None:
        try:
            await self.processes.end(patient)
            if self.life.phase is Phase.RESTARTING:
                # Before main hears that we are quiet: then all nodes choose from the same checkpoints.
                await self.homebound.ship_complete()
        except (StoreError, OSError) as error:
            self.say(f"checkpoints are late: {error}")
        finally:
            self.feed(lives.Quiet())

    async def _ship(self) -> None:
        await self._leaving.ship()
        self.feed(lives.Shipped())

    # --- events ------------------------------------------------------------------------------------------

    def _listen(self, watch: int) -> None:
        loop = asyncio.get_running_loop()
        for number in ENDING_SIGNALS:
            loop.add_signal_handler(number, self._signalled, number)
        loop.add_reader(watch, self._hung_up, watch, "its guardian was killed")
        if self.settings.lifeline is not None:
            loop.add_reader(self.settings.lifeline, self._hung_up, self.settings.lifeline, "the launcher went away")

    def _signalled(self, number: signal.Signals) -> None:
        self.side.stop(f"{self.record.node} was asked to end by {signal.Signals(number).name}")

    def _hung_up(self, pipe: int, detail: str) -> None:
        asyncio.get_running_loop().remove_reader(pipe)
        if pipe == self.settings.lifeline:
            self.quit_quietly = not self.side.ready
        self.side.stop(detail)

    def _exited(self, ended: Exit) -> None:
        script = ended.command.script
        failure = self._failure(ended) if ended.code != 0 or not script else None
        known = [found for found in (self.record.failure, failure) if found]
        self.record = replace(self.record, failure=first_cause(known))
        self.feed(lives.Exited(ended.generation, ended.command.process, script, failure))

    def _failure(self, ended: Exit) -> Failure:
        return Failure(
            node=self.record.node,
            process=f"rank {ended.rank}" if ended.rank is not None else ended.command.process,
            exit_code=ended.code or 1,
            at=time.time(),
            rank=ended.rank,
            tail=ended.tail,
            complaint=self.framework.complaint(ended.tail),
        )

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            if self._leaving.gets_on():
                self.feed(lives.Arriving())
            self.feed(lives.Tick())
            self.side.tick()
            tree.reap(self.processes.pids())

    # --- the record --------------------------------------------------------------------------------------

    def next_record(self) -> NodeRecord:
        """How the node stands now. Made in the loop, where all that it tells of changes."""
        life = self.life
        first = next((member.first_rank for member in life.members if member.node == life.node), None)
        fresh = life.generation != self.record.generation
        self.record = replace(
            self.record,
            state=life.phase.value,
            reason=life.reason,
            address=life.address,
            beat=self.record.beat + 1,
            generation=life.generation,
            processes=life.processes,
            first_rank=first,
            ports=dict(life.ports or {}),
            done=self.side.done,
            failure=None if fresh else self.record.failure,
            verdict=life.verdict,
            ended_at=time.time() if life.phase is Phase.ENDED else None,
        )
        return self.record


def first_record(settings: Settings) -> NodeRecord:
    """What a node says of itself when it claims its name."""
    process = Process.here()
    return NodeRecord(
        node=settings.node or f"{settings.role}-{secrets.token_hex(4)}",
        role=settings.role,
        state=Phase.CLAIMING.value,
        host=socket.gethostname(),
        pid=process.pid,
        machine=process.machine,
        pid_started=process.started,
        boot=secrets.token_hex(8),
        started_at=time.time(),
    )
