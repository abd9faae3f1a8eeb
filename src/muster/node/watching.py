"""Watching a run from outside: live through main's control channel, and from the run's folder for all else."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from ..errors import ChannelError, NotFound, StoreError
from ..workdir.loglines import LogLine, merge
from ..workdir.records import MainConfig, Result
from ..workdir.run import RunFolder
from ..workdir.segments import read_backwards
from .capture import BLOCK
from .channel import BEAT, WATCHER, Channel, connect
from .waiting import delays

_CONNECT = 3.0
_LOOK = 0.5
"""Seconds between two looks at the folder while main cannot be reached."""

_ATTEMPT, _ATTEMPTS = 0.25, 9
"""Seconds between, and number of, the looks for lines that are missing in between: twice a segment's longest wait."""

OnLines = Callable[[list[LogLine]], None]
OnState = Callable[[dict[str, Any]], None]


class Tail:
    """The lines of a run, each once, however often and by whichever way they come."""

    def __init__(self, run: RunFolder, on_lines: OnLines) -> None:
        self._run, self._on_lines = run, on_lines
        self._last: dict[str, int] = {}
        self._held: list[LogLine] | None = None
        self.gapped = False
        """Lines are missing that went into the folder before their node knew of us; only `catch_up` has them."""

    def live(self, encoded: Iterable[str]) -> None:
        lines = [LogLine.decode(line.encode("utf-8", "surrogateescape")) for line in encoded]
        if self._held is None and any(self._gap(line) for line in lines[:1]):
            self._held, self.gapped = [], True
        if self._held is not None:
            self._held += lines
        else:
            self._show(lines)

    def _gap(self, line: LogLine) -> bool:
        # A node that was started anew begins a new block of numbers, which is no gap.
        return line.n > self._last.get(line.node, 0) + 1 and line.n % BLOCK != 1

    def catch_up(self) -> Coroutine[Any, Any, None]:
        """Reads what the folder has and was not shown. Lines that come from now on wait, so that the order holds."""
        # Held before the reading begins: a line could come while it waits for its turn in the loop.
        self._held, self.gapped = self._held or [], False
        return self._catch_up()

    async def _catch_up(self) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                found = await asyncio.to_thread(self._stored)
            finally:
                held, self._held = self._held or [], None
            by_node: dict[str, list[LogLine]] = {}
            for line in sorted([*found, *held], key=lambda line: line.n):
                by_node.setdefault(line.node, []).append(line)
            wholes = {node: self._whole(lines) for node, lines in by_node.items()}
            if attempt == _ATTEMPTS - 1 or wholes == by_node:
                self._show(list(merge(by_node.values())))
                return
            # What is missing in between is with its node still; it will be in the folder when its segment is due.
            self._show(list(merge(wholes.values())))
            self._held = [line for node, lines in by_node.items() for line in lines[len(wholes[node]) :]]
            await asyncio.sleep(_ATTEMPT)

    def _whole(self, lines: list[LogLine]) -> list[LogLine]:
        """The lines of a node up to the first gap."""
        last = self._last.get(lines[0].node, 0)
        for index, line in enumerate(lines):
            if line.n > last + 1 and line.n % BLOCK != 1:
                return lines[:index]
            last = max(last, line.n)
        return lines

    def _stored(self) -> list[LogLine]:
        found: list[LogLine] = []
        for node in self._run.store.list_names(self._run.at("logs/")):
            last = self._last.get(node, 0)
            for segment in read_backwards(self._run.store, self._run.at("logs", node)):
                lines = [LogLine.decode(line) for line in segment]
                found += [line for line in lines if line.n > last]
                if lines and lines[0].n <= last + 1:
                    break
        return found

    def _show(self, lines: list[LogLine]) -> None:
        fresh = []
        for line in lines:
            if line.n > self._last.get(line.node, 0):
                self._last[line.node] = line.n
                fresh.append(line)
        if fresh:
            self._on_lines(fresh)


async def watch(
    run: RunFolder, tail: Tail, on_state: OnState, alive: Callable[[], bool] | None = None
) -> Result | None:
    """Shows lines and states until the run has a result, or until `alive` says that nothing more will come."""
    pauses = delays(slowest=_LOOK)
    while True:
        result = await asyncio.to_thread(run.result)
        if result is None and (alive is None or alive()):
            config = await asyncio.to_thread(run.latest_main)
            if config is None or not await _listen(run, config, tail, on_state):
                await tail.catch_up()
                await asyncio.sleep(next(pauses))
            else:
                pauses = delays(slowest=_LOOK)
            continue
        await tail.catch_up()
        return result or await asyncio.to_thread(run.result)


async def _listen(run: RunFolder, config: MainConfig, tail: Tail, on_state: OnState) -> bool:
    """Hears main out; false where it could not be reached."""
    try:
        channel = await _connect(run, config)
    except (OSError, asyncio.TimeoutError, ChannelError, StoreError):
        return False
    beating = asyncio.ensure_future(_beat(channel))
    catching = asyncio.ensure_future(tail.catch_up())
    try:
        while (value := await channel.receive()) is not None:
            if value.get("kind") == "log":
                tail.live(value["lines"])
                if tail.gapped and catching.done():
                    catching = asyncio.ensure_future(tail.catch_up())
            elif value.get("kind") in ("state", "metrics"):
                on_state(value)
            elif value.get("kind") == "end":
                break
    except ChannelError:
        return False
    finally:
        beating.cancel()
        await catching
        await channel.close()
    return True


async def _connect(run: RunFolder, config: MainConfig) -> Channel:
    key = await asyncio.to_thread(run.key)
    return await connect(config.address, config.control_port, key, WATCHER + secrets.token_hex(4), _CONNECT)


async def _beat(channel: Channel) -> None:
    while True:
        await asyncio.sleep(BEAT)
        channel.send({"kind": "beat"})


def ask_to_stop(run: RunFolder, why: str) -> bool:
    """Tells main at once what the stop file tells it within a second. False where it cannot be reached."""
    return _tell(run, {"kind": "stop", "why": why})


def ask_to_look(run: RunFolder) -> bool:
    """Has main look into the run's folder now for what somebody asks of it."""
    return _tell(run, {"kind": "look"})


def _tell(run: RunFolder, message: dict[str, Any]) -> bool:
    config = run.latest_main()
    if config is None:
        return False

    async def ask() -> None:
        channel = await _connect(run, config)
        channel.send(message)
        await channel.drain()
        await channel.close()

    try:
        asyncio.run(asyncio.wait_for(ask(), _CONNECT))
    except (OSError, asyncio.TimeoutError, ChannelError, NotFound):
        return False
    return True
