"""Creates that are asked twice: `opc-retry-token`, kept for a day."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .routing import Call, Refusal

KEPT = 24 * 3600.0
LONGEST = 64


class Retries:
    """What was made under which token. A token belongs to who sent it, and to one operation."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._made: dict[tuple[str, str, str], tuple[float, Any, str]] = {}
        self._lock = threading.Lock()

    def once(self, call: Call, operation: str, said: Any, make: Callable[[], str]) -> str:
        """The id of what this call makes, or made when it came first."""
        token = call.header("opc-retry-token")
        if token is None:
            return make()
        if not 1 <= len(token) <= LONGEST:
            raise Refusal(400, "InvalidParameter", f"opc-retry-token must have from 1 to {LONGEST} characters")
        with self._lock:
            key = (call.principal.id, operation, token)
            since, before, made = self._made.get(key, (0.0, None, ""))
            if made and self._clock() - since < KEPT:
                return self._same(before, said, made)
            made = make()
            self._made[key] = (self._clock(), said, made)
            return made

    def _same(self, before: Any, said: Any, made: str) -> str:
        if before != said:
            told = "The retry token was used before, for a request with another body"
            raise Refusal(409, "InvalidatedRetryToken", told)
        return made
