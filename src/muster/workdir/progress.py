"""How far something has come that takes its time: how fast it goes and how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..spec.units import duration_text, size_text
from .patience import Patience, Say

Progress = Callable[[int, int], None]
"""Is told the bytes that are done, and how many there are."""


def unseen(_done: int, _total: int) -> None:
    """For those who do not look."""


class Pace:
    """Counts from the first time it is told: what was done before that was not done now."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or time.monotonic
        self._first: tuple[int, float] | None = None
        self.done = self.total = 0

    def tell(self, done: int, total: int) -> None:
        self.done, self.total = done, total
        if self._first is None:
            self._first = done, self._clock()

    @property
    def rate(self) -> float:
        """Bytes per second; 0 as long as nobody can say."""
        done, at = self._first or (0, self._clock())
        seconds = self._clock() - at
        return (self.done - done) / seconds if seconds > 0 else 0.0

    def __str__(self) -> str:
        parts = [f"{_rounded(self.done)} of {_rounded(self.total)}"]
        if rate := self.rate:
            parts += [f"{_rounded(rate)}/s", f"{duration_text(round((self.total - self.done) / rate))} left"]
        return ", ".join(parts)


def lines(say: Say, what: str) -> Progress:
    """Progress as plain lines: none in the first second, then one now and then."""
    pace, patience = Pace(), Patience(say, what)

    def tell(done: int, total: int) -> None:
        pace.tell(done, total)
        if done < total:
            patience.look(str(pace))

    return tell


def _rounded(value: float) -> str:
    """Three figures: more would flicker."""
    return size_text(int(float(f"{value:.3g}")))
