"""Brings a folder that a script writes into to the work dir, again and again, sending only what changed."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ..errors import AccessDenied, NotFound, StoreBusy, StoreError
from .files import sha256_of
from .manifest import FileEntry, Manifest
from .store import Store
from .transfers import move_all
from .walking import Found, Look, Stamp, key_path, look, stamp_of

UNSETTLED_SECONDS = 0.1
"""A file written so shortly before we read it may have been written once more without its stamp showing it."""

AGAIN_SECONDS = 30.0
"""Between two sendings of one file, where each is billed: a log that grows all day costs two requests a minute."""
SLOW_LINE = 10e6
"""Bytes a second that we count on."""
SHARE = 5
"""A file may take up the line for one part in so many: one of 1 GB that never rests goes each 500 seconds."""


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
    due: float = -math.inf
    """When it may be sent again, on the shipper's clock. At once if it did not arrive."""


class Shipper:
    """Keeps `<prefix>/…` in the work dir equal to a folder. `finish` adds `<prefix>.manifest.json` at the end.

    A file that a script takes away again (most often one that it renames) is taken away there too; only what
    this shipper sent itself. A folder that cannot be read changes nothing.
    """

    def __init__(self, store: Store, prefix: str, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._prefix, self._folder, self._clock = store, prefix, folder, clock
        self._sent: dict[str, Sent] = {}
        self._began = False
        self._beginning = threading.Lock()
        # A round may still be under way in another thread when the last one begins.
        self._lock = threading.Lock()

    def ship(self) -> Shipped:
        """Sends what changed since the last time, and is due."""
        with self._lock:
            seen = look(self._folder)
            problem = self._take_away(seen)
            sent = self._send(seen, last=False)
        if problem:
            raise problem
        return sent

    def finish(self) -> Shipped:
        """Sends what is left, and then the list of all files with their digests.

        A file that is refused keeps neither the others nor the list back. What may not be taken away there stays.
        """
        with self._lock:
            # Twice, for what was written just before: nobody writes now.
            (first, _), (last, refused) = self._last_round(), self._last_round()
            known = {path: sent for path, sent in sorted(self._sent.items()) if sent.sha256}
            files = tuple(FileEntry(path, sent.stamp.size, sent.sha256) for path, sent in known.items())
            self._store.put(manifest_key(self._prefix), Manifest(files).canonical())
        if refused:
            raise refused
        return Shipped(first.files + last.files, first.bytes + last.bytes, last.left_out)

    def _last_round(self) -> tuple[Shipped, StoreError | None]:
        seen = look(self._folder)
        self._take_away(seen)
        try:
            return self._send(seen, last=True), None
        except StoreBusy:
            raise
        except StoreError as error:
            return Shipped(), error

    def _send(self, seen: Look, last: bool) -> Shipped:
        due = [found for found in seen.files if self._is_due(found, last)]
        tried = sorted(move_all(self._store, due, lambda found: found.stamp.size, self._try))
        sent = [found for found, was_sent, _ in tried if was_sent]
        left_out = (f"{found.path}: {reason}" for found, _, reason in tried if reason)
        return Shipped(len(sent), sum(found.stamp.size for found in sent), (*seen.left_out, *left_out))

    def _take_away(self, seen: Look) -> StoreError | None:
        """An error is for later, because where nothing may be deleted files may still be sent."""
        gone = sorted(set(self._sent) - {found.path for found in seen.files}) if seen.complete else []
        if not gone:
            return None
        problem: StoreError | None = None
        try:
            self._store.delete_all(self._key(path) for path in gone)
        except StoreBusy:
            raise
        except AccessDenied as error:
            problem = error  # nor will it be allowed the next time
        except StoreError as error:
            return error
        for path in gone:
            del self._sent[path]
        return problem

    def _is_due(self, found: Found, last: bool) -> bool:
        before = self._sent.get(found.path)
        if before is None:
            return True
        if before.settled and before.stamp == found.stamp:
            return False
        return last or self._clock() >= before.due

    def _try(self, found: Found) -> tuple[Found, bool, str]:
        """Whether the file was sent, and why it cannot be."""
        try:
            return found, self._update(found), ""
        except OSError as error:
            return found, False, error.strerror or str(error)

    def _update(self, found: Found) -> bool:
        """Sends a file if need be. One that vanishes or changes meanwhile is left for the next time."""
        before = self._sent.get(found.path)
        settled = abs(time.time() - found.stamp.mtime_ns / 1e9) > UNSETTLED_SECONDS
        due = before.due if before else -math.inf
        try:
            digest = sha256_of(found.place)
            same = before is not None and before.sha256 == digest
            if not same:
                self._begin()
                self._sent[found.path] = Sent(found.stamp, "", settled=False)
                self._store.put_file(self._key(found.path), found.place)
                due = self._clock() + pause(self._store, found.stamp.size)
        except (FileNotFoundError, NotFound):
            return False
        still = stamp_of(found.place) == found.stamp
        if still or not same:
            self._sent[found.path] = Sent(found.stamp, digest if still else "", still and settled, due)
        return not same

    def _begin(self) -> None:
        """Before the first file: a list that an earlier start of this node left no longer describes what is there."""
        with self._beginning:
            if not self._began:
                self._withdraw_list()
                self._began = True

    def _withdraw_list(self) -> None:
        try:
            self._store.delete(manifest_key(self._prefix))
        except AccessDenied:  # one who may write may yet not delete
            self._store.put(manifest_key(self._prefix), Manifest(()).canonical())

    def _key(self, path: str) -> str:
        return f"{self._prefix}/{key_path(path)}"


def pause(store: Store, size: int) -> float:
    """Seconds that a file of this size rests before it is sent once more, though it has changed."""
    return max(AGAIN_SECONDS, SHARE * size / SLOW_LINE) if store.capabilities.billed else 0.0


def manifest_key(prefix: str) -> str:
    """Where the list of a shipped folder's files is kept."""
    return f"{prefix}.manifest.json"
