"""The keys of a folder store in their order, without looking where no wanted key can be."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from .store import Entry, is_text


def children(folder: Path) -> list[os.DirEntry[str]]:
    """What stands in a folder, if there is one; without names that no key can have."""
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if is_text(entry.name)]
    except FileNotFoundError:
        return []


def walk(look: Callable[[str], Sequence[os.DirEntry[str]]], prefix: str, after: str) -> Iterator[Entry]:
    """Every key with the prefix and behind `after`; `look` gives what stands in a folder of the store."""
    folder, slash, start = prefix.rpartition("/")
    return _walk(look, folder + slash, start, after)


def _walk(look: Callable[[str], Sequence[os.DirEntry[str]]], above: str, start: str, after: str) -> Iterator[Entry]:
    found = {_sort_name(entry): entry for entry in look(above) if entry.name.startswith(start)}
    for name in sorted(found):
        key = above + name
        if name.endswith("/"):
            if key > after or after.startswith(key):
                yield from _walk(look, key, "", after)
        elif key > after and (seen := _file(found[name])):
            yield Entry(key, seen.st_size, seen.st_mtime, f"{seen.st_ino:x}-{seen.st_mtime_ns:x}-{seen.st_size:x}")


def _sort_name(entry: os.DirEntry[str]) -> str:
    # Keys sort as wholes: 'a.txt' comes before 'a/b', because '.' comes before '/'.
    return entry.name + "/" if entry.is_dir(follow_symlinks=False) else entry.name


def _file(entry: os.DirEntry[str]) -> os.stat_result | None:
    """What is known of a file; None for what is no file, or was deleted since it was listed."""
    try:
        found = entry.stat()
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None
