"""Waiting on a store: quick at first, then slower, with jitter, so that a thousand nodes do not knock at once."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from ..errors import AlreadyExists, NotFound, StoreBusy, StoreError
from .asking import ask

T = TypeVar("T")

AWAY = 180.0
"""Seconds that a work dir may be out of reach without anything being given up: more than two minutes."""

HOME = 720.0
"""The same for what a node has to bring home at its end. With its log, for which it waits `AWAY`, it is 15 minutes."""

_LONG = 90.0
"""Seconds. A store that hangs says so sooner, so that whatever took longer got on."""


def delays(slowest: float, first: float = 0.02, growth: float = 1.5, spread: float = 0.25) -> Iterator[float]:
    """Seconds to wait before each further look, without end."""
    delay = min(first, slowest)
    while True:
        yield delay * random.uniform(1 - spread, 1 + spread)  # noqa: S311 - spreads load, guards nothing
        delay = min(delay * growth, slowest)


async def insist(call: Callable[[], T], within: float = AWAY) -> T:
    """The answer of a store that may be out of reach for a while; after so many seconds its error."""
    until = time.monotonic() + within
    for delay in delays(slowest=2.0, first=0.1):
        try:
            return await _answer(call, until)
        except (AlreadyExists, NotFound):
            raise
        except StoreError:
            if time.monotonic() + delay > until:
                raise
        await asyncio.sleep(delay)
    raise AssertionError("delays never end")


async def _answer(call: Callable[[], T], until: float) -> T:
    asking = asyncio.ensure_future(ask(call))
    done, _ = await asyncio.wait([asking], timeout=max(until - time.monotonic(), 0.1))
    if not done:
        asking.cancel()
        raise StoreBusy("the work dir did not answer in time")
    return asking.result()


class Absence:
    """For how long a store has been away: since the first failure in a row. What gets on in between ends it."""

    def __init__(self, progress: Callable[[], int] = lambda: 0) -> None:
        """`progress` grows with whatever arrives."""
        self._progress = progress
        self._since: float | None = None
        self._seen = progress()

    def lasts(self, began: float) -> float:
        """Seconds, now that an attempt failed which began then."""
        now, before = time.monotonic(), self._seen
        self._seen = self._progress()
        if self._since is None or self._seen != before or now - began > _LONG:
            self._since = now
        return now - self._since


async def persist(
    call: Callable[[], T],
    failed: Callable[[StoreError], None] = lambda _error: None,
    progress: Callable[[], int] = lambda: 0,
    within: float = AWAY,
) -> T:
    """The same for work that may take long, and goes on where it was: it fails when the store stays away.

    It is tried again only while the store is busy, of which `failed` hears, and never broken off. `progress` grows with
    whatever arrives; only the time without it is bounded.
    """
    absence = Absence(progress)
    for delay in delays(slowest=5.0, first=0.5):
        began = time.monotonic()
        try:
            return await ask(call)
        except StoreBusy as error:
            if absence.lasts(began) > within:
                raise
            failed(error)
        await asyncio.sleep(delay)
    raise AssertionError("delays never end")


async def happened(event: asyncio.Event, within: float) -> bool:
    """Whether an event came in so many seconds."""
    # Not `wait_for`, which before Python 3.12 forgets that it was cancelled if both happen at once.
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait([waiting], timeout=max(within, 0.0))
    finally:
        waiting.cancel()
    return event.is_set()
