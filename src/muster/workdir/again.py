"""Asking again for what may pass by itself."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from ..errors import StoreBusy

T = TypeVar("T")

_FIRST_WAIT = 0.1
_LONGEST_WAIT = 4.0


def patiently(ask: Callable[[], T], patience: float) -> T:
    """What `ask` gives, once it no longer raises `StoreBusy`; after so many seconds it may."""
    until = time.monotonic() + patience
    for wait in waits():
        try:
            return ask()
        except StoreBusy:
            if time.monotonic() + wait > until:
                raise
        time.sleep(wait)
    raise AssertionError("waits never end")


def waits() -> Iterator[float]:
    """Seconds to wait before each next attempt, ever longer, and never the same for two who wait."""
    wait = _FIRST_WAIT
    while True:
        yield wait * random.uniform(0.5, 1.5)  # noqa: S311 - spreads load, guards nothing
        wait = min(2 * wait, _LONGEST_WAIT)
