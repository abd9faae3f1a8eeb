"""The digests of files that were read before, so that a large folder that stayed the same is not read again.

Kept in the user's home, one file for each folder. A file counts as the same by its size, inode and both of its
times. One that was changed shortly before it was read is not kept: it may change again within the same tick.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from .files import appearing, write_all
from .home import home

Stamp = tuple[int, int, int, int]
Known = Mapping[str, tuple[Stamp, str]]

_VERSION = 1
_SETTLED = 2.0
_MOST_FOLDERS = 32


def stamp(seen: os.stat_result) -> Stamp:
    return seen.st_size, seen.st_mtime_ns, seen.st_ino, seen.st_ctime_ns


def known_digests(folder: Path) -> dict[str, tuple[Stamp, str]]:
    """The stamp and the digest of each file of a folder that was read before, by path. Nothing if it cannot be told."""
    try:
        value = json.loads(_place(folder).read_bytes())
        if value["version"] != _VERSION or value["folder"] != str(folder):
            return {}
        return {path: ((row[0], row[1], row[2], row[3]), str(row[4])) for path, row in value["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        return {}


def keep_digests(folder: Path, found: Known, read_at: float) -> None:
    """Keeps what was found in a folder that was begun to be read at a time. It is no harm if that fails."""
    settled = (read_at - _SETTLED) * 1e9
    files = {path: [*seen, digest] for path, (seen, digest) in found.items() if max(seen[1], seen[3]) < settled}
    if not files:
        return
    place = _place(folder)
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with appearing(place) as descriptor:
            value = {"version": _VERSION, "folder": str(folder), "files": files}
            write_all(descriptor, json.dumps(value, separators=(",", ":")).encode("ascii"))
        _forget_oldest(place.parent)


def _place(folder: Path) -> Path:
    import hashlib

    return home() / "digests" / f"{hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]}.json"


def _forget_oldest(kept: Path) -> None:
    places = sorted(kept.glob("*.json"), key=lambda place: place.stat().st_mtime, reverse=True)
    for place in places[_MOST_FOLDERS:]:
        place.unlink(missing_ok=True)
