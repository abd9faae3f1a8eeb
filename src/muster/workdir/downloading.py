"""Many files from a store into a folder. A second time only what is missing comes: of a large file only its rest."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import StoreError
from .files import sha256_of
from .parallel import at_once
from .parts import Changed, Parts, Wanted
from .progress import Progress, unseen
from .store import Store
from .transfers import move_all

RESUMED = 64 << 20
"""Bytes from which a file comes in parts that are kept: what is smaller is soon fetched again."""
_READ_AT_ONCE = 4


class Damaged(StoreError):
    """What came from the work dir is not what was brought there."""


class Download:
    """Brings files to their places, each of which gets all of its content or keeps what it has."""

    def __init__(self, store: Store, wanted: Iterable[Wanted], progress: Progress = unseen) -> None:
        self._store, self._wanted, self._progress = store, list(wanted), progress
        self._done, self._total = 0, sum(one.size for one in self._wanted)
        self._counting = threading.Lock()
        # Large files come one after the other, because the parts of one fill the line.
        self._turn = threading.Lock()

    def run(self) -> Iterator[tuple[Wanted, int]]:
        """Each file as it is there, with the bytes that had to be fetched. Errors come when all were tried."""
        looked = sorted(at_once(_READ_AT_ONCE, self._look, self._wanted))
        self._count(sum(done for _, _, done in looked))
        yield from ((one, 0) for one, stands, _ in looked if stands)
        absent = [one for one, stands, _ in looked if not stands]
        yield from move_all(self._store, absent, lambda one: one.size, self._bring)

    def _look(self, one: Wanted) -> tuple[Wanted, bool, int]:
        """Whether the file stands at its place already, and how many of its bytes are here."""
        stands = bool(one.sha256) and has_content(one.place, one.size, one.sha256)
        if not _in_parts(one):
            return one, stands, one.size if stands else 0
        parts = Parts(one)
        if stands:
            parts.clear()  # whoever was killed just before the end left its list
        return one, stands, one.size if stands else parts.done

    def _bring(self, one: Wanted) -> tuple[Wanted, int]:
        parts = Parts(one)
        try:
            size = self._bring_parts(one, parts) if _in_parts(one) else self._bring_whole(one, parts)
        except Changed:
            self._count(-parts.done)
            size = self._bring_whole(one, parts)  # all of one version, whichever it is now
        self._put(one, parts)
        return one, size

    def _bring_whole(self, one: Wanted, parts: Parts) -> int:
        parts.clear()
        self._store.get_file(one.key, parts.content)
        self._count(one.size)
        return one.size

    def _bring_parts(self, one: Wanted, parts: Parts) -> int:
        with self._turn:
            size = parts.fetch(self._store, self._count)
        self._check_version(one)
        return size

    def _put(self, one: Wanted, parts: Parts) -> None:
        """To its place, if it is what it should be."""
        try:
            if not one.sha256 or sha256_of(parts.content) == one.sha256:
                parts.content.replace(one.place)
                return
        except OSError as error:
            raise StoreError(f"cannot write {one.place}: {error.strerror}") from error
        finally:
            parts.clear()
        raise Damaged(
            f"{one.key!r} in the work dir {self._store.url} is damaged: it is not what was brought there",
            "Fetch it again. If that does not help, it was changed by other hands.",
        )

    def _check_version(self, one: Wanted) -> None:
        """Where no digest tells it: parts that came while the file was overwritten are of two versions."""
        if one.sha256:
            return
        now = next(iter(self._store.list(one.key)), None)
        if now is None or (now.key, now.size, now.tag) != (one.key, one.size, one.tag):
            raise Changed(f"{one.key!r} in the work dir {self._store.url} changed while it was fetched")

    def _count(self, size: int) -> None:
        with self._counting:
            self._done += size
            self._progress(self._done, self._total)


def _in_parts(one: Wanted) -> bool:
    return one.size > RESUMED and bool(one.version)


def has_content(place: Path, size: int, sha256: str) -> bool:
    """Whether a file of just this content stands there. A link is none: it is replaced, not followed."""
    try:
        return (
            place.is_file() and not place.is_symlink() and place.stat().st_size == size and sha256_of(place) == sha256
        )
    except OSError:
        return False


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Nobody else fetches into the folder meanwhile. It is made if need be."""
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise StoreError(f"cannot write into {folder}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(
                f"another `muster outputs` brings files into {folder}", "Wait for it, or name another folder."
            ) from None
        except OSError:
            pass  # a file system without locks; two at once would only waste time
        yield
    finally:
        os.close(descriptor)
