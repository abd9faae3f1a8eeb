"""The processes of a node: started each in a session of its own, listened to, and ended whole trees at a time."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import NodeError
from ..frameworks.base import Command
from . import tree
from .capture import Capture, Stream, traceback_of

PATIENT = 10.0
"""Seconds between asking a process to end and ending it, where it may have something to save."""
IMPATIENT = 0.1
_DRAIN = 1.0
_CHUNK = 256 << 10


class Pipe:
    """The reading end of a process's output; each chunk goes to its stream as soon as it is there."""

    def __init__(self, number: int, stream: Stream) -> None:
        self._number, self.stream = number, stream
        self.closed = asyncio.Event()
        os.set_blocking(number, False)
        asyncio.get_running_loop().add_reader(number, self._read)

    def _read(self) -> bool:
        """Takes one chunk; false when there is none for now."""
        try:
            data = os.read(self._number, _CHUNK)
        except BlockingIOError:
            return False
        if data:
            self.stream.feed(data)
        else:
            self.close()
        return bool(data)

    def close(self) -> None:
        """Reads what is left without waiting for more, and hangs up."""
        if self.closed.is_set():
            return
        self.closed.set()
        asyncio.get_running_loop().remove_reader(self._number)
        while self._read():
            pass
        self.stream.close()
        os.close(self._number)


@dataclass
class Running:
    """One process, its own two pipes, and those of the ranks that it starts."""

    command: Command
    generation: int
    popen: subprocess.Popen[bytes]
    pipes: list[Pipe]
    rank_pipes: list[Pipe]
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    expected: bool = False
    """We are ending it ourselves, so its end is no news."""
    on_exit: Callable[[Exit], None] | None = None
    """Who hears of its end instead of everybody; also if it was asked to."""


@dataclass(frozen=True)
class Exit:
    """How a process ended by itself."""

    command: Command
    generation: int
    code: int
    """As a shell shows it: 128 and the signal's number where a signal ended it."""
    tail: tuple[str, ...]
    rank: int | None


class Processes:
    """All processes of this node. `on_exit` hears of each that ended without being asked to."""

    def __init__(
        self,
        mark: str,
        capture: Capture,
        on_exit: Callable[[Exit], None],
        task: Callable[[Coroutine[Any, Any, None]], None],
        complaint: Callable[[Sequence[str]], bool] = lambda _tail: False,
    ) -> None:
        """`task` runs what waits for a process; it must not let an error pass unheard."""
        self._mark, self._capture, self._on_exit, self._task = mark, capture, on_exit, task
        self._complaint = complaint
        self._running: list[Running] = []

    def start(
        self,
        command: Command,
        generation: int,
        env: Mapping[str, str],
        cwd: Path,
        folder: Path,
        on_exit: Callable[[Exit], None] | None = None,
    ) -> Running:
        """Starts one process; its output is read from now on. `folder` holds the pipes of its ranks, if it has any."""
        whole = {**command.defaults, **env, **command.env, tree.MARK: self._mark}
        rank_pipes = self._rank_pipes(folder, command.streams)
        if rank_pipes:
            whole["MUSTER_STREAMS"] = str(folder)
        out, err = os.pipe(), os.pipe()
        try:
            popen = subprocess.Popen(
                command.argv,
                cwd=cwd,
                env=whole,
                stdin=subprocess.DEVNULL,
                stdout=out[1],
                stderr=err[1],
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise NodeError(f"{command.process} could not be started: {error}") from error
        finally:
            os.close(out[1])
            os.close(err[1])
        pipes = [
            Pipe(reading, self._capture.stream(command.process, name, command.rank))
            for reading, name in ((out[0], "out"), (err[0], "err"))
        ]
        running = Running(command, generation, popen, pipes, rank_pipes, on_exit=on_exit)
        self._running.append(running)
        self._task(self._watch(running))
        return running

    def _rank_pipes(self, folder: Path, count: int) -> list[Pipe]:
        made = []
        for local in range(count):
            for name in ("out", "err"):
                path = folder / f"{name}-{local}"
                path.unlink(missing_ok=True)
                os.mkfifo(path, 0o600)
                # Open for both: the pipe then stays open while one rank has ended and the next has not begun.
                number = os.open(path, os.O_RDWR | os.O_NONBLOCK)
                made.append(Pipe(number, self._capture.stream(f"local rank {local}", name)))
        return made

    async def _watch(self, running: Running) -> None:
        code = await _exit_code(running.popen)
        # A grandchild may keep a pipe open for ever; what the process itself wrote is there already.
        closings = [asyncio.ensure_future(pipe.closed.wait()) for pipe in running.pipes]
        _, late = await asyncio.wait(closings, timeout=_DRAIN)
        for closing in late:
            closing.cancel()
        for pipe in (*running.pipes, *running.rank_pipes):
            pipe.close()
        self._running.remove(running)
        running.ended.set()
        if running.on_exit or not running.expected:
            (running.on_exit or self._on_exit)(_exit(running, code if code >= 0 else 128 - code, self._complaint))

    async def end(self, patient: bool) -> None:
        """Asks every process to end, waits, and ends what is left, with all its descendants."""
        for running in self._running:
            running.expected = True
            tree.signal_group(running.popen.pid, signal.SIGTERM)
        await self._all_ended(PATIENT if patient else IMPATIENT)
        left = await asyncio.to_thread(tree.kill, self._mark)
        if left:
            self._capture.say(f"processes {sorted(left)} could not be ended")
        await self._all_ended(_DRAIN)
        tree.reap(self.pids())

    async def dismiss(self, running: Running) -> None:
        """Asks one process to end, waits, and makes sure of it."""
        tree.signal_group(running.popen.pid, signal.SIGTERM)
        try:
            await asyncio.wait_for(running.ended.wait(), PATIENT)
        except asyncio.TimeoutError:
            tree.signal_group(running.popen.pid, signal.SIGKILL)

    async def _all_ended(self, within: float) -> None:
        waits = [asyncio.ensure_future(running.ended.wait()) for running in self._running]
        if waits:
            _, late = await asyncio.wait(waits, timeout=within)
            for wait in late:
                wait.cancel()

    def pids(self) -> list[int]:
        return [running.popen.pid for running in self._running]


def _exit(running: Running, code: int, complaint: Callable[[Sequence[str]], bool]) -> Exit:
    """An agent ends when some of its ranks have failed: then one of them that does not just complain tells why."""
    ranks = [_telling(pair) for pair in zip(running.rank_pipes[::2], running.rank_pipes[1::2], strict=True)]
    own = _telling((running.pipes[0], running.pipes[1]))
    # An agent that loses its peers' agent first has no time to say that a rank of its own has failed.
    failed = [stream for stream in ranks if stream.exit_code is not None] or [*filter(_raised, ranks), own]
    told = code or any(stream.exit_code for stream in ranks)
    chosen = min(failed, key=lambda stream: complaint(traceback_of(stream.tail))) if told else own
    return Exit(running.command, running.generation, chosen.exit_code or code, traceback_of(chosen.tail), chosen.rank)


def _telling(pair: tuple[Pipe, Pipe]) -> Stream:
    """Of a process's output and errors what tells more: a traceback, else errors, else output."""
    out, err = (pipe.stream for pipe in pair)
    return next(filter(_raised, (err, out)), err if err.tail else out)


def _raised(stream: Stream) -> bool:
    return any("Traceback (most recent call last)" in line for line in stream.tail)


async def _exit_code(popen: subprocess.Popen[bytes]) -> int:
    if not sys.platform.startswith("linux"):
        return await asyncio.to_thread(popen.wait)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    try:
        number = os.pidfd_open(popen.pid)
    except OSError:  # an old kernel, or a container that forbids it
        return await asyncio.to_thread(popen.wait)
    loop.add_reader(number, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(number)
        os.close(number)
    return popen.wait()
