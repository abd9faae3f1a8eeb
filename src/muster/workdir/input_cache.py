"""What this machine has fetched as input before, kept by its digest for the runs that come.

`objects/<sha256>` holds contents; `known/<place>.json` says which digest each object of a place had under which tag
of its store. A content that somebody wrote to since is noticed by its stamp, and fetched again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import NamedTuple

from .files import sha256_of
from .home import home

_SPARE = 0.05
"""Part of the disk that stays free."""


class Kept(NamedTuple):
    """One object as it was fetched: the store's tag for it, its digest, and our file's stamp."""

    tag: str
    sha256: str
    size: int
    mtime_ns: int


class InputCache:
    """The fetched objects of one place, for one node at a time."""

    def __init__(self, place: str, folder: Path | None = None) -> None:
        self._root = folder or home() / "inputs"
        self._objects = self._root / "objects"
        self._file = self._root / "known" / f"{hashlib.sha256(place.encode()).hexdigest()[:32]}.json"
        self._known: dict[str, Kept] = {}

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """While another node of this machine fetches the same place we wait, and then find it here."""
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._objects.mkdir(parents=True, exist_ok=True, mode=0o700)
        own, everybody = self._file.with_suffix(".lock"), self._root / "lock"
        with _locked(own, fcntl.LOCK_EX), _locked(everybody, fcntl.LOCK_SH) as self._all:
            self._known = self._read(self._file)
            try:
                yield
            finally:
                self._write()  # after an error too: what has come need not come again

    def has(self, key: str, tag: str) -> bool:
        """Whether an object of this tag is here; one without a tag has to be fetched."""
        kept = self._known.get(key)
        return kept is not None and bool(tag) and kept.tag == tag and self._sound(kept)

    def fetch(self, key: str, tag: str, bring: Callable[[Path], None]) -> None:
        """Fetches an object, and keeps it."""
        arriving = self._objects / f".muster-{os.urandom(8).hex()}"
        try:
            bring(arriving)
            digest = sha256_of(arriving)
            place = self._objects / digest
            # Runs have it under links of their own, so that one who wrote to it, as root can, would spoil theirs.
            arriving.chmod(0o444)
            if not _holds(place, digest):
                arriving.replace(place)
        finally:
            arriving.unlink(missing_ok=True)
        seen = place.stat()
        self._known[key] = Kept(tag, digest, seen.st_size, seen.st_mtime_ns)

    def place(self, key: str) -> Path:
        """Where an object is that is here."""
        return self._objects / self._known[key].sha256

    def forget(self, keep: Container[str]) -> None:
        """Of this place nothing else is needed from now on."""
        self._known = {key: kept for key, kept in self._known.items() if key in keep}

    def make_room(self, size: int) -> int:
        """Takes away what nobody needs, then what was used longest ago, until so much fits; the bytes still missing.

        Nothing goes while another node of this machine is at work here: what it has just fetched no file names yet.
        """
        if self._missing(size) > 0 and self._alone():
            self._sweep()
            others = [file for file in self._file.parent.glob("*.json") if file != self._file]
            for file in sorted(others, key=lambda one: one.stat().st_mtime):
                if self._missing(size) <= 0:
                    break
                file.unlink(missing_ok=True)
                self._sweep()
            fcntl.flock(self._all, fcntl.LOCK_SH)
        return max(self._missing(size), 0)

    def _alone(self) -> bool:
        try:
            fcntl.flock(self._all, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            fcntl.flock(self._all, fcntl.LOCK_SH)
            return False
        return True

    def _missing(self, size: int) -> int:
        disk = shutil.disk_usage(self._objects)
        return size - (disk.free - int(disk.total * _SPARE))

    def _sweep(self) -> None:
        """Takes away what no place names any more. A run that has it keeps it by its own link."""
        others = [file for file in self._file.parent.glob("*.json") if file != self._file]
        known = [self._known, *map(self._read, others)]
        named = {kept.sha256 for one in known for kept in one.values()}
        for path in self._objects.iterdir():
            if path.name not in named:
                path.unlink(missing_ok=True)

    def _sound(self, kept: Kept) -> bool:
        try:
            seen = (self._objects / kept.sha256).stat()
        except OSError:
            return False
        return (seen.st_size, seen.st_mtime_ns) == (kept.size, kept.mtime_ns)

    def _read(self, file: Path) -> dict[str, Kept]:
        try:
            found = json.loads(file.read_bytes())
            return {key: Kept(*one) for key, one in found["objects"].items()}
        except (OSError, ValueError, TypeError, KeyError):
            return {}  # nothing is known, so all is fetched

    def _write(self) -> None:
        arriving = self._file.with_suffix(f".{os.urandom(4).hex()}")
        arriving.write_text(json.dumps({"used": time.time(), "objects": self._known}))
        arriving.replace(self._file)


def _holds(place: Path, digest: str) -> bool:
    try:
        return sha256_of(place) == digest
    except OSError:
        return False


@contextlib.contextmanager
def _locked(file: Path, how: int) -> Iterator[int]:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, how)
        yield descriptor
    finally:
        os.close(descriptor)
