"""What stands in a folder that a script writes into, while it writes."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from .store import is_text


class Stamp(NamedTuple):
    """Tells whether a file was written to, without reading it."""

    size: int
    mtime_ns: int
    inode: int


class Found(NamedTuple):
    """One file: its path below the folder, where it is, and its stamp."""

    path: str
    place: Path
    stamp: Stamp


@dataclass
class Look:
    """What one look at a folder found."""

    files: list[Found] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """What cannot be brought home, each with the reason."""
    complete: bool = True
    """False if the folder or a part of it could not be read, so that nothing follows from what was not found."""


def look(folder: Path) -> Look:
    """All files below a folder, in order. Links are followed as long as they stay inside it."""
    found = Look()
    root = Path(os.path.realpath(folder))
    _look(root, root, "", (str(root),), found)
    found.files.sort()
    return found


def stamp_of(place: Path) -> Stamp | None:
    """The stamp of a file; None if it is gone."""
    try:
        seen = place.stat()
    except OSError:
        return None
    return Stamp(seen.st_size, seen.st_mtime_ns, seen.st_ino)


def key_path(path: str) -> str:
    """A path as part of a key. Bytes that are not UTF-8 are written as `\\xNN`, because a bucket takes no others."""
    return path if is_text(path) else os.fsencode(path).decode("utf-8", "backslashreplace")


def _look(root: Path, place: Path, above: str, way: tuple[str, ...], found: Look) -> None:
    try:
        with os.scandir(place) as entries:
            here = list(entries)
    except OSError as error:
        found.complete = False
        if above:
            found.left_out.append(f"{above}: {error.strerror}")
        return
    for entry in here:
        path = f"{above}/{entry.name}" if above else entry.name
        real = os.path.realpath(entry.path) if entry.is_symlink() else entry.path
        if real != str(root) and not real.startswith(f"{root}/"):
            found.left_out.append(f"{path}: a link that leads out of the folder")
            continue
        try:
            seen = os.stat(real)  # noqa: PTH116 - for each file of a folder, again and again
        except OSError:
            continue  # it vanished, or is a link to nothing
        if stat.S_ISDIR(seen.st_mode):
            if real not in way:  # else a link back to where we came from
                _look(root, Path(real), path, (*way, real), found)
        elif stat.S_ISREG(seen.st_mode):
            found.files.append(Found(path, Path(real), Stamp(seen.st_size, seen.st_mtime_ns, seen.st_ino)))
        else:
            found.left_out.append(f"{path}: neither a file nor a folder")
