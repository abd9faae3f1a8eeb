"""A store that behaves towards its callers as a bucket does: it takes its time, bills each request, may be away."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from muster.workdir.counting import CountingStore
from muster.workdir.store import Capabilities, Entry, Store

PAGE = 1000
"""Keys that a bucket lists per request."""
BUCKET = Capabilities(atomic_create=True, poll_seconds=12.0, parallel=32, billed=True)


class BucketLike(CountingStore):
    """Counts requests as they are billed: a listing once per page, a delimiter listing once.

    Each waits for `latency` seconds in its own thread. `trouble`, if there is one, is called before each with the name
    of the method, and may raise or wait.
    """

    def __init__(self, store: Store, latency: float = 0.0, capabilities: Capabilities = BUCKET) -> None:
        super().__init__(store)
        self._latency, self._capabilities = latency, capabilities
        self.trouble: Callable[[str], None] | None = None

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def list(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        found = list(super().list(prefix, after))
        for _ in range(PAGE, len(found), PAGE):
            self._count("list")
        return iter(found)

    def _count(self, kind: str) -> None:
        super()._count(kind)
        if self.trouble:
            self.trouble(kind)
        if self._latency:
            time.sleep(self._latency)
