"""Several things done at once, as many as a store says are worth it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def at_once(workers: int, work: Callable[[A], B], items: Iterable[A]) -> Iterator[B]:
    """What `work` gives for each item, as it is done. The first error ends it, and what was not begun is left."""
    todo = list(items)
    if min(workers, len(todo)) <= 1:
        yield from map(work, todo)
        return
    from concurrent.futures import ThreadPoolExecutor, as_completed

    with ThreadPoolExecutor(min(workers, len(todo)), "muster-at-once") as pool:
        begun = [pool.submit(work, item) for item in todo]
        try:
            for done in as_completed(begun):
                yield done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
