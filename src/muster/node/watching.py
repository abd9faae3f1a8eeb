"""Watching a run from outside: live through main's control channel, and from the run's folder for all else."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from typing import Any

from ..errors import ChannelError, NotFound, StoreBusy, StoreError
from ..workdir.loglines import LogLine, merge
from ..workdir.records import MainConfig, Result
from ..workdir.run import RunFolder
from .asking import ask
from .capture import BLOCK
from .channel import BEAT, WATCHER, Channel, connect
from .stored import Stored
from .waiting import AWAY, delays

_CONNECT = 3.0
_LOOK = 0.5
"""Seconds between two looks at the folder while main cannot be reached, where they cost nothing."""
_AGAIN = 5
"""To find main, and to try its port, costs as much as so many looks, and is done so much less often."""

_ATTEMPT, _WAITS = 0.25, 2.25
"""Seconds between two looks for lines that are missing in between, at first; and for how many of a segment's longest
waits it is looked for them."""

OnLines = Callable[[list[LogLine]], None]
OnState = Callable[[dict[str, Any]], None]


class Tail:
    """The lines of a run, each once, however often and by whichever way they come."""

    def __init__(self, run: RunFolder, on_lines: OnLines) -> None:
        self._on_lines, self._stored = on_lines, Stored(run)
        self._patience = run.store.capabilities.poll_seconds
        self.shown = 0
        """How many lines were shown so far."""
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
        until = asyncio.get_running_loop().time() + _WAITS * self._patience
        for delay in delays(slowest=self._patience / 2, first=_ATTEMPT, spread=0.0):
            try:
                found = await ask(self._stored.new, dict(self._last))
            except StoreError:
                self.gapped = True  # what came meanwhile is held until the folder can be read
                raise
            held, self._held = self._held or [], None
            by_node: dict[str, list[LogLine]] = {}
            for line in sorted([*found, *held], key=lambda line: line.n):
                by_node.setdefault(line.node, []).append(line)
            wholes = {node: self._whole(lines) for node, lines in by_node.items()}
            if asyncio.get_running_loop().time() >= until or wholes == by_node:
                self._show(list(merge(by_node.values())))
                return
            # What is missing in between is with its node still; it will be in the folder when its segment is due.
            self._show(list(merge(wholes.values())))
            self._held = [line for node, lines in by_node.items() for line in lines[len(wholes[node]) :]]
            await asyncio.sleep(delay)

    def _whole(self, lines: list[LogLine]) -> list[LogLine]:
        """The lines of a node up to the first gap."""
        last = self._last.get(lines[0].node, 0)
        for index, line in enumerate(lines):
            if line.n > last + 1 and line.n % BLOCK != 1:
                return lines[:index]
            last = max(last, line.n)
        return lines

    def _show(self, lines: list[LogLine]) -> None:
        fresh = []
        for line in lines:
            if line.n > self._last.get(line.node, 0):
                self._last[line.node] = line.n
                fresh.append(line)
        if fresh:
            self.shown += len(fresh)
            self._on_lines(fresh)


async def watch(
    run: RunFolder, tail: Tail, on_state: OnState, alive: Callable[[], bool] | None = None
) -> Result | None:
    """Shows lines and states until the run has a result, or until `alive` says that nothing more will come."""
    looks = _Looks(run)
    since: float | None = None
    while True:
        try:
            result = await ask(run.result)
            if result or not (alive is None or await ask(alive)):
                await tail.catch_up()
                return result or await ask(run.result)
            if looks.may_listen() and await _heard(run, tail, on_state):
                looks = _Looks(run)
            else:
                before = tail.shown
                await tail.catch_up()
                await looks.pause(quick=tail.shown > before)
            since = None
        except StoreBusy:
            # The nodes go on without their work dir for a while, and so do we.
            since = since or time.monotonic()
            if time.monotonic() - since > AWAY and not await _surely(alive):
                raise
            await looks.pause(quick=False)


async def _surely(alive: Callable[[], bool] | None) -> bool:
    """Whether more will come, as far as that can be known without the work dir."""
    try:
        return alive is not None and await ask(alive)
    except StoreError:
        return False


class _Looks:
    """The looks of one whom main does not reach: quick while something comes, and seldom where they cost money."""

    def __init__(self, run: RunFolder) -> None:
        able = run.store.capabilities
        self._slowest = able.poll_seconds if able.billed else _LOOK
        self._often = not able.billed
        self._pauses, self._listens = self._anew(), delays(self._slowest * _AGAIN, first=_LOOK)
        self._listen_at = 0.0

    def may_listen(self) -> bool:
        """Whether it is time to look for main, and to try its port."""
        now = asyncio.get_running_loop().time()
        if not self._often and now < self._listen_at:
            return False
        self._listen_at = now + next(self._listens)
        return True

    async def pause(self, quick: bool) -> None:
        if quick:
            self._pauses = self._anew()
        await asyncio.sleep(next(self._pauses))

    def _anew(self) -> Iterator[float]:
        return delays(slowest=self._slowest)


async def _heard(run: RunFolder, tail: Tail, on_state: OnState) -> bool:
    config = await ask(run.latest_main)
    return config is not None and await _listen(run, config, tail, on_state)


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
        with suppress(StoreError):  # whoever listened looks into the folder next, and hears of it there
            await catching
        await channel.close()
    return True


async def _connect(run: RunFolder, config: MainConfig) -> Channel:
    key = await ask(run.key)
    return await connect(config.address, config.control_port, key, WATCHER + secrets.token_hex(4), _CONNECT)


async def _beat(channel: Channel) -> None:
    while True:
        await asyncio.sleep(BEAT)
        channel.send({"kind": "beat"})


def ask_to_stop(run: RunFolder, why: str) -> bool:
    """Tells main at once what the stop file tells it when it next looks. False where it cannot be reached."""
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
