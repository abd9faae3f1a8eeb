"""Conditional writes that meet: the real stores tell the later of two at once to try again."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class Collisions:
    """Who is writing where. Unless it is on, nobody is ever told of another."""

    def __init__(self, on: bool) -> None:
        self._on = on
        self._writing: set[Hashable] = set()
        self._lock = threading.Lock()

    @contextmanager
    def writing(self, place: Hashable, conditional: bool) -> Iterator[bool]:
        """Whether the place is free; it is taken for the length of the `with`."""
        if not (self._on and conditional):
            yield True
            return
        with self._lock:
            free = place not in self._writing
            self._writing.add(place)
        try:
            yield free
        finally:
            if free:
                with self._lock:
                    self._writing.discard(place)
