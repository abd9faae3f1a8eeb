"""A work dir that is out of reach for a while: told once when it begins, and once when it is over."""

from __future__ import annotations

import time
from collections.abc import Callable


class Outage:
    """Of one who asks the work dir again and again, and goes on when it does not answer."""

    def __init__(self, say: Callable[[str], None], what: str) -> None:
        self._say, self._what = say, what
        self._since: float | None = None
        self._told = ""

    def began(self, error: Exception) -> None:
        """It failed, perhaps again."""
        self._since = self._since or time.monotonic()
        told = f"{self._what}: {getattr(error, 'message', None) or error}"
        if told != self._told:
            self._told = told
            self._say(told)

    def over(self) -> None:
        """It answered."""
        if self._since is not None:
            self._say(f"the work dir answers again, after {time.monotonic() - self._since:.0f} s")
        self._since, self._told = None, ""
