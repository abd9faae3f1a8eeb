"""Code that lies in a bucket: an archive, a script, or a folder. Each node fetches it there; nothing is uploaded.

A launch pins what it saw, so that all nodes run the same: `s3://bucket/code.zip#tag=…`, where the tag stands for the
names, sizes and versions of all objects. A node that finds something else says so.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from ..errors import CodeError
from .addresses import split_object
from .files import sha256_of
from .opening import open_store
from .store import Entry, Store, check_key
from .transfers import move_all

_MOST = 20_000
"""Objects below one folder of code; one with more is data."""


class BucketCode(NamedTuple):
    """The objects of code in a bucket, as they are now."""

    store: Store
    entries: list[Entry]
    alone: bool
    """One object that was named itself, not a folder with what is below it."""

    @property
    def tag(self) -> str:
        """Stands for the version of all of it."""
        digest = hashlib.sha256()
        for entry in self.entries:
            digest.update(f"{entry.key}\n{entry.size}\n{entry.tag}\n".encode())
        return digest.hexdigest()

    @property
    def bytes(self) -> int:
        return sum(entry.size for entry in self.entries)

    def bring(self, to: Path) -> None:
        """Lays the objects out: one as the file `to`, those of a folder below it."""
        if self.alone:
            self.store.get_file(self.entries[0].key, to)
            return
        to.mkdir(parents=True)

        def bring(entry: Entry) -> None:
            self.store.get_file(entry.key, to / check_key(entry.key))

        for _ in move_all(self.store, self.entries, lambda entry: entry.size, bring):
            pass


def find_code(place: str) -> BucketCode:
    """What is there now. One listing, or two."""
    folder, key = split_object(place)
    above = open_store(folder)
    for entry in above.list(key):
        if entry.key == key:
            return BucketCode(above, [entry], alone=True)
        break  # they come in order, so that it would have been the first
    below = open_store(place)
    entries = []
    for entry in below.list():
        entries.append(entry)
        if len(entries) > _MOST:
            raise CodeError(
                f"code: {place} has more than {_MOST:,} objects", "Bring data along as `inputs` of the job."
            )
    if not entries:
        raise CodeError(f"code: there is nothing at {place}", "Name an archive, a script or a folder that is there.")
    return BucketCode(below, entries, alone=False)


def pinned(place: str) -> tuple[str, int, int]:
    """The code as a launch pins it, how many objects it is and how many bytes."""
    found = find_code(place)
    return f"{place}#tag={found.tag}", len(found.entries), found.bytes


def fetch_bucket(place: str, tag: str | None, to: Path) -> tuple[bool, str]:
    """Brings code from a bucket; whether it is one file, and a digest of what came."""
    found = find_code(place)
    if tag not in (None, found.tag):
        raise CodeError(
            f"code: {place} is not what it was when the run was launched",
            "Somebody wrote to it. Launch again, and leave it alone until all nodes have it.",
        )
    found.bring(to)
    return found.alone, sha256_of(to) if found.alone else found.tag
