"""Requests and bytes, counted by the server, so that a test can say what something may cost."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import Any

KINDS = ("put", "get", "head", "list", "delete", "multipart-create", "part", "complete", "abort", "other")


@dataclass(frozen=True)
class Counted:
    """What a server has been asked so far: requests by method and kind, and the bytes of bodies each way."""

    requests: dict[tuple[str, str], int]
    bytes_in: int
    bytes_out: int

    def of(self, kind: str, method: str = "") -> int:
        """Requests of this kind (and method)."""
        return sum(n for (verb, name), n in self.requests.items() if name == kind and method in ("", verb))

    @property
    def total(self) -> int:
        return sum(self.requests.values())

    def __sub__(self, earlier: Counted) -> Counted:
        """What came after an earlier count."""
        requests = {pair: n - earlier.requests.get(pair, 0) for pair, n in self.requests.items()}
        return Counted(
            {pair: n for pair, n in requests.items() if n},
            self.bytes_in - earlier.bytes_in,
            self.bytes_out - earlier.bytes_out,
        )

    def to_json(self) -> dict[str, Any]:
        requests = [[method, kind, n] for (method, kind), n in sorted(self.requests.items())]
        return {"requests": requests, "bytes_in": self.bytes_in, "bytes_out": self.bytes_out}

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> Counted:
        requests = {(str(method), str(kind)): int(n) for method, kind, n in said["requests"]}
        return cls(requests, int(said["bytes_in"]), int(said["bytes_out"]))


class Counts:
    """The server's tally. A request counts when it comes in, whatever becomes of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        with self._lock:
            self._requests: Counter[tuple[str, str]] = Counter()
            self._bytes_in = 0
            self._bytes_out = 0

    def came(self, method: str, kind: str) -> None:
        with self._lock:
            self._requests[method, kind] += 1

    def moved(self, bytes_in: int, bytes_out: int) -> None:
        with self._lock:
            self._bytes_in += bytes_in
            self._bytes_out += bytes_out

    def so_far(self) -> Counted:
        with self._lock:
            return Counted(dict(self._requests), self._bytes_in, self._bytes_out)
