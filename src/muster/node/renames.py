"""Hears what is renamed into place below a folder, and what is written there afterwards, in the order it happened.

On Linux the kernel tells (inotify). Where it does not (macOS, or no watch is left), a look decides: a file whose ctime
is later than its mtime was renamed after it was written, and so was a folder in which nothing is newer than that.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from ..workdir.units import SCRATCH, Heard

_MODIFY, _MOVED_FROM, _MOVED_TO, _CREATE = 0x2, 0x40, 0x80, 0x100
_OVERFLOW, _IGNORED, _IS_FOLDER = 0x4000, 0x8000, 0x40000000
_ONLY_FOLDERS, _NO_LINKS, _NOT_UNLINKED = 0x01000000, 0x02000000, 0x04000000
_BELOW = _MODIFY | _MOVED_FROM | _MOVED_TO | _CREATE | _ONLY_FOLDERS | _NO_LINKS | _NOT_UNLINKED
_ABOVE = _MOVED_TO | _CREATE | _ONLY_FOLDERS
_EVENT = struct.Struct("iIII")
_BUFFER = 1 << 16
_LOOK = 1.0
"""Seconds between two looks where the kernel does not tell."""


class Watch(Protocol):
    """Both ways to know."""

    def take(self) -> list[Heard]:
        """What happened since the last time. Never waits."""

    def wait(self, seconds: float) -> bool | None:
        """Waits until `take` may have something to tell, but not longer than this; None if it is closed."""

    def close(self) -> None:
        """No more; who waits is let go, and then nothing is held any longer."""


def watch(folder: Path) -> Watch:
    """The best way there is on this machine. From now on nothing is missed."""
    if sys.platform.startswith("linux"):
        with suppress(OSError):
            return Renames(folder)
    return Looks(folder)


class Looks:
    """Tells by times: what counts as renamed is told at every look, known or not. Writing is told by nobody."""

    def __init__(self, folder: Path) -> None:
        self._root = os.path.realpath(folder)
        self._over = False

    def take(self) -> list[Heard]:
        return [Heard(path, renamed=True, sure=False) for path in renamed_by_times(self._root)]

    def wait(self, seconds: float) -> bool | None:
        time.sleep(min(seconds, _LOOK))
        return None if self._over else True

    def close(self) -> None:
        self._over = True


class Renames:
    """Tells by the kernel's word. Each folder has a watch of its own, from when it appears.

    What came into a new folder before its watch did is judged by its times, and where these are equal it counts as
    written in place: in the moment after a folder was made, a small file may be renamed in it unheard. A folder that is
    renamed into place and written to in the moment before it is noticed may count as complete in its new state.
    """

    def __init__(self, folder: Path) -> None:
        self._root = os.path.realpath(folder)
        self._folders: dict[int, str] = {}
        self._leaving: dict[int, dict[int, str]] = {}
        """By the number of a move: the watches of a folder that left its name, and may come back under another."""
        self._blind = False
        """The kernel has no more watches to give, so that looks must do."""
        self._kernel = _Kernel()
        self._waker, self._wake = os.pipe()
        # A script may take the folder itself away, and make it anew.
        self._above = self._kernel.watch(os.path.dirname(self._root), _ABOVE)  # noqa: PTH120
        list(self._enter(""))

    def take(self) -> list[Heard]:
        heard = [one for event in self._kernel.events() for one in self._hear(*event)]
        while self._leaving:
            self._leave(self._leaving.popitem()[1])
        if self._blind:
            heard += [Heard(path, renamed=True, sure=False) for path in renamed_by_times(self._root)]
        return heard

    def wait(self, seconds: float) -> bool | None:
        poll = select.poll()
        poll.register(self._kernel.number, select.POLLIN)
        poll.register(self._waker, select.POLLIN)
        ready = [number for number, _ in poll.poll(1000 * (min(seconds, _LOOK) if self._blind else seconds))]
        if self._waker not in ready:
            return self._blind or bool(ready)
        # Not by who closes: the numbers must not be given to others while we wait for them.
        self._kernel.close()
        return None

    def close(self) -> None:
        os.write(self._wake, b".")

    def __del__(self) -> None:
        with suppress(AttributeError):
            os.close(self._waker)
            os.close(self._wake)

    def _hear(self, watch: int, kind: int, move: int, name: str) -> Iterator[Heard]:
        if kind & _OVERFLOW:
            list(self._enter(""))
            yield from (Heard(path, renamed=True, sure=False) for path in renamed_by_times(self._root))
        elif watch == self._above:
            if name == os.path.basename(self._root) and kind & _IS_FOLDER:  # noqa: PTH119
                yield Heard("", renamed=bool(kind & _MOVED_TO))
                yield from self._enter("", renamed=bool(kind & _MOVED_TO))
        elif kind & _IGNORED:
            self._folders.pop(watch, None)
        elif (above := self._folders.get(watch)) is not None and not name.startswith(SCRATCH):
            path = f"{above}/{name}" if above else name
            if kind & _MOVED_FROM:
                if kind & _IS_FOLDER:
                    self._leaving[move] = self._watches(path)
                return
            renamed = bool(kind & _MOVED_TO)
            if not kind & _IS_FOLDER:
                yield Heard(path, renamed)
                return
            self._leaving.pop(move, None)
            inside = list(self._enter(path, renamed))
            yield Heard(path, renamed and not _written_since(os.path.join(self._root, path)))  # noqa: PTH118
            yield from inside

    def _enter(self, path: str, renamed: bool = True) -> Iterator[Heard]:
        """Watches a folder and those below it; tells what it finds in one that was not renamed but made."""
        place = os.path.join(self._root, path)  # noqa: PTH118
        try:
            self._folders[self._kernel.watch(place, _BELOW)] = path
            with os.scandir(place) as entries:
                here = [(entry, entry.stat(follow_symlinks=False)) for entry in entries]
        except OSError as error:
            self._blind = self._blind or error.errno == errno.ENOSPC
            return  # most often it is gone already
        for entry, seen in here:
            if entry.name.startswith(SCRATCH):
                continue
            inner = f"{path}/{entry.name}" if path else entry.name
            moved = _is_renamed(entry.path, seen)
            if not renamed:
                yield Heard(inner, moved, sure=False)
            if stat.S_ISDIR(seen.st_mode):
                yield from self._enter(inner, renamed or moved)

    def _watches(self, path: str) -> dict[int, str]:
        return {watch: at for watch, at in self._folders.items() if at == path or at.startswith(f"{path}/")}

    def _leave(self, watches: dict[int, str]) -> None:
        """The folder went elsewhere: what happens there is no news of this place."""
        for watch, path in watches.items():
            if self._folders.get(watch) == path:
                del self._folders[watch]
                self._kernel.forget(watch)


class _Kernel:
    """The three calls of inotify, and what they answer."""

    def __init__(self) -> None:
        import ctypes

        self._ctypes = ctypes
        self._calls = ctypes.CDLL(None, use_errno=True)
        self.number = self._checked(self._calls.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def watch(self, place: str, kinds: int) -> int:
        return self._checked(self._calls.inotify_add_watch(self.number, os.fsencode(place), kinds))

    def forget(self, watch: int) -> None:
        self._calls.inotify_rm_watch(self.number, watch)

    def events(self) -> Iterator[tuple[int, int, int, str]]:
        """Watch, kind, number of the move and name of each that is there now; who writes on does not keep us."""
        import fcntl
        import termios

        if self.number < 0:
            return
        left = struct.unpack("i", fcntl.ioctl(self.number, termios.FIONREAD, bytes(4)))[0]
        while left > 0:
            data = os.read(self.number, _BUFFER)
            left -= len(data)
            start = 0
            while start < len(data):
                watch, kind, move, length = _EVENT.unpack_from(data, start)
                start += _EVENT.size + length
                yield watch, kind, move, os.fsdecode(data[start - length : start].rstrip(b"\0"))

    def _checked(self, answer: int) -> int:
        if answer < 0:
            number = self._ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return answer

    def close(self) -> None:
        number, self.number = self.number, -1
        if number >= 0:
            os.close(number)

    def __del__(self) -> None:
        with suppress(AttributeError):
            self.close()


def renamed_by_times(root: str, above: str = "") -> Iterator[str]:
    """The files and folders below `root` that were renamed after they were last written, judged by their times."""
    try:
        with os.scandir(os.path.join(root, above)) as entries:  # noqa: PTH118
            here = sorted((entry.name, entry.path, entry.stat(follow_symlinks=False)) for entry in entries)
    except OSError:
        return
    for name, place, seen in here:
        path = f"{above}/{name}" if above else name
        if name.startswith(SCRATCH):
            continue
        if _is_renamed(place, seen):
            yield path
        elif stat.S_ISDIR(seen.st_mode):
            yield from renamed_by_times(root, path)


def _is_renamed(place: str, seen: os.stat_result) -> bool:
    later = seen.st_ctime_ns > seen.st_mtime_ns and not stat.S_ISLNK(seen.st_mode)
    return later and not (stat.S_ISDIR(seen.st_mode) and _written_since(place))


def _written_since(folder: str) -> bool:
    """Whether something in a folder was written after the folder was renamed, as far as times tell."""
    try:
        own = os.lstat(folder)
    except OSError:
        return True
    if own.st_ctime_ns <= own.st_mtime_ns:
        return False
    for above, folders, files in os.walk(folder):
        for name in (*folders, *files):
            with suppress(OSError):
                if os.lstat(os.path.join(above, name)).st_mtime_ns > own.st_ctime_ns:  # noqa: PTH118
                    return True
    return False
