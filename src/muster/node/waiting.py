"""Waiting on a store: quick at first, then slower, with jitter, so that a thousand nodes do not knock at once."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from ..errors import AlreadyExists, NotFound, StoreError

T = TypeVar("T")


def delays(slowest: float, first: float = 0.02, growth: float = 1.5) -> Iterator[float]:
    """Seconds to wait before each further look, without end."""
    delay = first
    while True:
        yield delay * random.uniform(0.75, 1.25)  # noqa: S311 - spreads load, guards nothing
        delay = min(delay * growth, slowest)


async def insist(call: Callable[[], T], within: float = 30.0) -> T:
    """The answer of a store that may be out of reach for a while; after so many seconds its error."""
    until = time.monotonic() + within
    for delay in delays(slowest=2.0, first=0.1):
        try:
            return await asyncio.to_thread(call)
        except (AlreadyExists, NotFound):
            raise
        except StoreError:
            if time.monotonic() + delay > until:
                raise
        await asyncio.sleep(delay)
    raise AssertionError("delays never end")
