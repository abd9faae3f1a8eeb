"""What is brought home again and again, each kind for itself, so that none waits behind a large file of another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from ..errors import StoreError
from .outage import Outage
from .waiting import happened


class Troubles:
    """What keeps several things from home, told as one: most often it is one work dir that is away."""

    def __init__(self, outage: Outage) -> None:
        self._outage = outage
        self._known: dict[object, Exception] = {}

    def began(self, of: object, error: Exception) -> None:
        self._known[of] = error
        self._outage.began(next(iter(self._known.values())))

    def over(self, of: object) -> None:
        self._known.pop(of, None)
        if not self._known:
            self._outage.over()


class Rounds:
    """Of one kind of thing: one round at a time, and none after the last."""

    def __init__(self, ship: Callable[[bool], Awaitable[None]], fresh: asyncio.Event | None = None) -> None:
        """`fresh` brings a round before its time; `ship` is told whether it was time."""
        self._ship, self._fresh = ship, fresh or asyncio.Event()
        self._lock = asyncio.Lock()
        self._over = False

    async def go_on(self, every: float, troubles: Troubles) -> None:
        """Until the last round, or until cancelled. Nothing that goes wrong here may end the training."""
        clock = asyncio.get_running_loop().time
        shipped_at = clock()
        while not self._over:
            await happened(self._fresh, shipped_at + every - clock())
            self._fresh.clear()
            due = clock() - shipped_at >= every
            if due:
                shipped_at = clock()
            try:
                await self._go(due)
                troubles.over(self)
            except (StoreError, OSError) as error:
                troubles.began(self, error)

    async def _go(self, due: bool) -> None:
        async with self._lock:
            # Afterwards the folder may be gone, and what is gone would be taken away at home too.
            if not self._over:
                await self._ship(due)

    @asynccontextmanager
    async def pausing(self) -> AsyncIterator[None]:
        """While none is under way."""
        async with self._lock:
            yield

    @asynccontextmanager
    async def ending(self) -> AsyncIterator[None]:
        """The same, and none comes any more."""
        async with self._lock:
            self._over = True
            yield
