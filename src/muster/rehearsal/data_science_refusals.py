"""Job runs that are refused because a test wants it so: the third, say, with 400 LimitExceeded."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from .routing import Refusal


@dataclass
class _Waiting:
    skip: int
    left: int | None
    refusal: Refusal


class Refusals:
    """Counts the runs that are asked for, and refuses those it was told to."""

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []
        self._lock = threading.Lock()

    def add(self, number: int, status: int, code: str, message: str, times: int | None) -> None:
        """The so-manieth run from now on (the next is 1), and after it so many in all; None: all that follow."""
        with self._lock:
            self._waiting.append(_Waiting(number - 1, times, Refusal(status, code, message)))

    def clear(self) -> None:
        with self._lock:
            self._waiting.clear()

    def check(self) -> None:
        """Asked once for each run that would otherwise be made."""
        with self._lock:
            for one in self._waiting:
                if one.left == 0:
                    continue
                if one.skip:
                    one.skip -= 1
                    continue
                if one.left is not None:
                    one.left -= 1
                raise one.refusal
