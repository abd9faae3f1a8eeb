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
from collections.abc import Callable, Iterator
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
        lock = self._file.with_suffix(".lock")
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self._known = self._read(self._file)
            yield
            self._write()
        finally:
            os.close(descriptor)

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
            arriving.chmod(0o444)  # a script that writes to what it was given spoils it for nobody else
            place = self._objects / digest
            arriving.replace(place)
        finally:
            arriving.unlink(missing_ok=True)
        seen = place.stat()
        self._known[key] = Kept(tag, digest, seen.st_size, seen.st_mtime_ns)

    def place(self, key: str) -> Path:
        """Where an object is that is here."""
        return self._objects / self._known[key].sha256

    def make_room(self, size: int) -> int:
        """Takes away what was used longest ago until so much fits; the bytes that are missing even then."""
        missing = self._missing(size)
        for file in sorted(self._file.parent.glob("*.json"), key=lambda one: one.stat().st_mtime):
            if missing <= 0:
                break
            if file != self._file:
                self._forget(file)
                missing = self._missing(size)
        return max(missing, 0)

    def _missing(self, size: int) -> int:
        disk = shutil.disk_usage(self._objects)
        return size - (disk.free - int(disk.total * _SPARE))

    def _forget(self, file: Path) -> None:
        others = [other for other in self._file.parent.glob("*.json") if other != file]
        used = {kept.sha256 for other in others for kept in self._read(other).values()}
        for kept in self._read(file).values():
            if kept.sha256 not in used:
                (self._objects / kept.sha256).unlink(missing_ok=True)  # a run that has it keeps it by its own link
        file.unlink(missing_ok=True)

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
