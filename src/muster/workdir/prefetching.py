"""Streams of many small objects, read without a wait for each: what comes next is fetched before it is asked for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from .store import Entry, Store

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor


@contextmanager
def reading_ahead(store: Store, entries: Iterable[Entry]) -> Iterator[Store]:
    """The store for one reader of these streams, which were listed; a stream is the objects of one folder.

    It answers `list` and `get`: the first without a request, the second with one for each object, many at a time.
    """
    from concurrent.futures import ThreadPoolExecutor

    parallel = store.capabilities.parallel
    with ThreadPoolExecutor(parallel, "muster-ahead") as pool:
        try:
            yield cast("Store", _Ahead(store, entries, pool, parallel))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class _Ahead:
    def __init__(self, store: Store, entries: Iterable[Entry], pool: ThreadPoolExecutor, parallel: int) -> None:
        self._store, self._pool = store, pool
        self._entries = sorted(entries, key=lambda entry: entry.key)
        self._keys = [entry.key for entry in self._entries]
        firsts = {_folder(key): key for key in reversed(self._keys)}
        # What was fetched ahead waits in memory, however many streams there are.
        self._depth = max(1, 2 * parallel // max(1, len(firsts)))
        self._begun: set[str] = set()
        self._under_way: dict[str, Future[bytes]] = {}
        # Whoever merges streams needs the first of each.
        self._begin(firsts.values())

    def list(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        for place in range(bisect_left(self._keys, max(prefix, after)), len(self._keys)):
            if not self._keys[place].startswith(prefix):
                return
            if self._keys[place] > after:
                yield self._entries[place]

    def get(self, key: str) -> bytes:
        place = bisect_left(self._keys, key)
        ahead = self._keys[place : place + self._depth + 1]
        self._begin(one for one in ahead if _folder(one) == _folder(key))
        under_way = self._under_way.pop(key, None)
        return under_way.result() if under_way else self._store.get(key)

    def _begin(self, keys: Iterable[str]) -> None:
        for key in keys:
            if key not in self._begun:
                self._begun.add(key)
                self._under_way[key] = self._pool.submit(self._store.get, key)


def _folder(key: str) -> str:
    return key.rpartition("/")[0]
