"""Tests that live in an event loop, with real sockets in it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

Test = Callable[..., Coroutine[Any, Any, None]]


def in_loop(test: Test) -> Callable[..., None]:
    """Runs an asynchronous test. What nobody caught in the loop fails it."""

    @functools.wraps(test)
    def run(*args: Any, **named: Any) -> None:
        asyncio.run(_bounded(test(*args, **named)))

    return run


async def _bounded(test: Coroutine[Any, Any, None]) -> None:
    uncaught: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: uncaught.append(context))
    await asyncio.wait_for(test, 60)
    assert uncaught == []


async def soon(look: Callable[[], Any], within: float = 30.0) -> Any:
    """`eventually`, for whatever happens in this loop."""
    until = asyncio.get_running_loop().time() + within
    while not (found := look()):
        assert asyncio.get_running_loop().time() < until, "it did not happen in time"
        await asyncio.sleep(0.01)
    return found
