"""Waiting on a store: quick at first, then slower, with jitter, so that a thousand nodes do not knock at once."""

from __future__ import annotations

import random
from collections.abc import Iterator


def delays(slowest: float, first: float = 0.02, growth: float = 1.5) -> Iterator[float]:
    """Seconds to wait before each further look, without end."""
    delay = first
    while True:
        yield delay * random.uniform(0.75, 1.25)  # noqa: S311 - spreads load, guards nothing
        delay = min(delay * growth, slowest)
