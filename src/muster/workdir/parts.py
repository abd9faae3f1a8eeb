"""A large file on its way from a store, in parts that are kept: whoever is cut off goes on where it stopped."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ..errors import StoreError
from .files import pwrite_all
from .ledger import Ledger
from .parallel import at_once
from .store import Store

PARTIAL = ".muster-part-"
"""How the names of what is not whole yet begin."""
PART = 8 << 20
AT_ONCE = 16
"""Parts under way: they fill a fast line, are held in memory, and are what is fetched twice after a kill."""


class Wanted(NamedTuple):
    """One file to be fetched."""

    key: str
    size: int
    place: Path
    sha256: str = ""
    """Of the content that it must have; empty where nobody knows."""
    tag: str = ""
    """Of the version that is meant, as the store names it."""

    @property
    def version(self) -> str:
        """Parts of another version are of no use."""
        return self.sha256 or self.tag


class Changed(StoreError):
    """The file was overwritten in the work dir while it was fetched."""


class Parts:
    """What has arrived of a file, beside the place where it will stand, and a list of it."""

    def __init__(self, wanted: Wanted) -> None:
        import hashlib

        self._wanted = wanted
        name = f"{PARTIAL}{hashlib.sha256(os.fsencode(wanted.place.name)).hexdigest()[:16]}"
        self.content = wanted.place.with_name(name)
        self._list = wanted.place.with_name(f"{name}.jsonl")
        self._ledger = Ledger(self._list)
        self._what = {"key": wanted.key, "size": wanted.size, "version": wanted.version, "part": PART}
        self._there = self._read()

    @property
    def done(self) -> int:
        """The bytes that have arrived."""
        return sum(map(self._size, self._there))

    def fetch(self, store: Store, count: Callable[[int], None]) -> int:
        """Brings the parts that are missing into `content`; how many bytes these were."""
        missing = [number for number in range(-(-self._wanted.size // PART)) if number not in self._there]
        try:
            if not self._there:
                self._begin()
            descriptor = os.open(self.content, os.O_WRONLY | os.O_CLOEXEC)
        except OSError as error:
            raise StoreError(f"cannot write {self.content}: {error.strerror}") from error

        def bring(number: int) -> int:
            size = self._bring(store, number, descriptor)
            count(size)
            return size

        try:
            return sum(at_once(min(store.capabilities.parallel, AT_ONCE), bring, missing))
        finally:
            os.close(descriptor)

    def clear(self) -> None:
        """Takes all of it away. The list first: without it nothing is taken for a part."""
        self._there = set()
        for path in (self._list, self.content):
            path.unlink(missing_ok=True)

    def _bring(self, store: Store, number: int, descriptor: int) -> int:
        size = self._size(number)
        data = store.get_range(self._wanted.key, number * PART, size)
        if len(data) != size:
            raise Changed(f"{self._wanted.key!r} in the work dir {store.url} changed while it was fetched")
        try:
            pwrite_all(descriptor, data, number * PART)
            self._ledger.write({"number": number})
            self._there.add(number)
        except OSError as error:
            raise StoreError(f"cannot write {self.content}: {error.strerror}") from error
        return size

    def _begin(self) -> None:
        self.clear()
        self.content.parent.mkdir(parents=True, exist_ok=True)
        with self.content.open("xb") as file:
            file.truncate(self._wanted.size)
        self._ledger.write(self._what)

    def _read(self) -> set[int]:
        try:
            what, *parts = self._ledger.records()
            if what != self._what or self.content.stat().st_size != self._wanted.size:
                return set()
            return {int(part["number"]) for part in parts}
        except (OSError, ValueError, KeyError):
            return set()

    def _size(self, number: int) -> int:
        return min(PART, self._wanted.size - number * PART)
