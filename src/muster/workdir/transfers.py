"""Files on their way to a store or from it: many small ones at once, few large ones, none lost for another's error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from ..errors import StoreBusy, StoreError
from .parallel import at_once
from .store import Store

A = TypeVar("A")
B = TypeVar("B")

LARGE = 8 << 20
"""Bytes from which a store moves one file in several parts at a time."""
LARGE_AT_ONCE = 4
"""More of those would not be faster, but each has all of its parts in memory."""


def move_all(store: Store, items: Iterable[A], size: Callable[[A], int], move: Callable[[A], B]) -> Iterator[B]:
    """What `move` gives for each item, as it is done. All are tried; the first `StoreError` is raised at the end.

    Only a store that does not answer ends it early: each of the others would wait for it as long again.
    """
    errors: list[StoreError] = []

    def attempt(item: A) -> list[B]:
        if any(isinstance(error, StoreBusy) for error in errors):
            return []
        try:
            return [move(item)]
        except StoreError as error:
            errors.append(error)
            return []

    for workers, some in by_size(store, items, size):
        for moved in at_once(workers, attempt, some):
            yield from moved
    if errors:
        raise errors[0]


def by_size(store: Store, items: Iterable[A], size: Callable[[A], int]) -> Iterator[tuple[int, list[A]]]:
    """The small ones first, because nobody should wait for a plot behind a model; with how many may move at once."""
    known = list(items)
    parallel = store.capabilities.parallel
    yield parallel, [item for item in known if size(item) < LARGE]
    yield min(parallel, LARGE_AT_ONCE), [item for item in known if size(item) >= LARGE]
