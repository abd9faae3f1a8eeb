"""Brings a folder that a script writes into to the work dir, again and again, sending only what changed."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import NamedTuple

from ..errors import NotFound
from .files import sha256_of
from .manifest import FileEntry, Manifest
from .store import Store
from .walking import Found, Look, Stamp, key_path, look, stamp_of

UNSETTLED_SECONDS = 0.1
"""A file written so shortly before we read it may have been written once more without its stamp showing it."""


class Shipped(NamedTuple):
    """What one round sent, and what it had to leave out, each with the reason."""

    files: int = 0
    bytes: int = 0
    left_out: tuple[str, ...] = ()


class Sent(NamedTuple):
    """What the work dir has of a file."""

    stamp: Stamp
    sha256: str
    """Empty if the file changed while it was sent, so that nobody knows what arrived."""
    settled: bool


class Shipper:
    """Keeps `<prefix>/…` in the work dir equal to a folder. `finish` adds `<prefix>.manifest.json` at the end.

    A file that a script takes away again (most often one that it renames) is taken away there too; only what
    this shipper sent itself. A folder that cannot be read changes nothing.
    """

    def __init__(self, store: Store, prefix: str, folder: Path) -> None:
        self._store, self._prefix, self._folder = store, prefix, folder
        self._sent: dict[str, Sent] = {}
        self._began = False
        # A round may still be under way in another thread when the last one begins.
        self._lock = threading.Lock()

    def ship(self) -> Shipped:
        """Sends what changed since the last time."""
        with self._lock:
            return self._round()

    def finish(self) -> Shipped:
        """Sends what is left, and then the list of all files with their digests."""
        with self._lock:
            first = self._round()
            # Once more for what was written just before: nobody writes now.
            last = self._round()
            known = {path: sent for path, sent in sorted(self._sent.items()) if sent.sha256}
            files = tuple(FileEntry(path, sent.stamp.size, sent.sha256) for path, sent in known.items())
            self._store.put(manifest_key(self._prefix), Manifest(files).canonical())
        return Shipped(first.files + last.files, first.bytes + last.bytes, last.left_out)

    def _round(self) -> Shipped:
        seen = look(self._folder)
        self._take_away(seen)
        files = size = 0
        left_out = list(seen.left_out)
        for found in seen.files:
            try:
                if self._update(found):
                    files, size = files + 1, size + found.stamp.size
            except OSError as error:
                left_out.append(f"{found.path}: {error.strerror}")
        return Shipped(files, size, tuple(left_out))

    def _take_away(self, seen: Look) -> None:
        if not seen.complete:
            return
        for path in set(self._sent) - {found.path for found in seen.files}:
            self._store.delete(self._key(path))
            del self._sent[path]

    def _update(self, found: Found) -> bool:
        """Sends a file if need be. One that vanishes or changes meanwhile is left for the next time."""
        before = self._sent.get(found.path)
        if before and before.settled and before.stamp == found.stamp:
            return False
        settled = abs(time.time() - found.stamp.mtime_ns / 1e9) > UNSETTLED_SECONDS
        try:
            digest = sha256_of(found.place)
            same = before is not None and before.sha256 == digest
            if not same:
                self._begin()
                self._sent[found.path] = Sent(found.stamp, "", settled=False)
                self._store.put_file(self._key(found.path), found.place)
        except (FileNotFoundError, NotFound):
            return False
        if stamp_of(found.place) == found.stamp:
            self._sent[found.path] = Sent(found.stamp, digest, settled)
        return not same

    def _begin(self) -> None:
        """Before the first file: a list that an earlier start of this node left no longer describes what is there."""
        if not self._began:
            self._store.delete(manifest_key(self._prefix))
            self._began = True

    def _key(self, path: str) -> str:
        return f"{self._prefix}/{key_path(path)}"


def manifest_key(prefix: str) -> str:
    """Where the list of a shipped folder's files is kept."""
    return f"{prefix}.manifest.json"
