"""What is said of something that takes its time: nothing at first, then what it is, then how far it has come."""

from __future__ import annotations

import time
from collections.abc import Callable

Say = Callable[[str], None]

_QUIET = 1.0
_EVERY = 10.0
"""Seconds between two lines."""


class Patience:
    """Looked at again and again by whoever waits."""

    def __init__(self, say: Say, what: str) -> None:
        self._say, self._what = say, what
        self._next = time.monotonic() + _QUIET

    def look(self, how_far: str = "") -> None:
        """Says it, if it is time to."""
        now = time.monotonic()
        if now >= self._next:
            self._say(f"{self._what}: {how_far}" if how_far else self._what)
            self._next = now + _EVERY
