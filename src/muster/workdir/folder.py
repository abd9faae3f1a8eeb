"""A work dir in a plain folder: a local disk, NFS, EFS, Lustre. The standard library only.

Content is written to `.muster-tmp` inside the folder (so on the same file system) and then moved or linked
to its name: a reader meets all of it or nothing, and a writer that is killed leaves no part under a key.
`list` never shows that place; what was left there is taken away by the first write that finds it a day old.

`create` makes its file durable before the name appears, and then the name: what a launch may spend money on
is recorded with it, and must outlive a power cut. `put` does not wait for the disk: it carries beats, log
segments and copies of what a node still has, where a sync each second costs much and losing the last one
costs little.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from ..errors import AlreadyExists, NotFound, StoreBusy, StoreError
from .files import appearing, copy_bytes, in_folder, new_file, sync_folder, write_all
from .listing import children, walk
from .store import Capabilities, Entry, check_key, may_begin_keys, names_below

SCRATCH = ".muster-tmp"
STALE_SECONDS = 24 * 3600.0

_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK}
_PASSING = {errno.ESTALE, errno.EIO, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENOTCONN, errno.EBUSY}
"""What a file system says whose server does not answer."""
_ELSEWHERE = "or choose another work dir."
_COLLISION = "A file stands where a folder is needed, or a folder where a file is: move it away, " + _ELSEWHERE
_RIGHTS = f"Give this user the right to read and write there (`ls -ld` shows who has it), {_ELSEWHERE}"
_FIXES = {
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EROFS: f"The file system is mounted read-only: mount it for writing, {_ELSEWHERE}",
    errno.ENOSPC: f"The disk is full: free some space there (`df -h` shows how much there is), {_ELSEWHERE}",
    errno.EDQUOT: f"Your quota is used up: free some space there, {_ELSEWHERE}",
    errno.ENAMETOOLONG: "Use shorter names: most file systems allow 255 bytes in a name and 4096 in a path.",
    errno.ENOTDIR: _COLLISION,
    errno.EISDIR: _COLLISION,
}


class FolderStore:
    """A work dir in a folder. Nothing is made before the first write."""

    def __init__(self, path: Path | str) -> None:
        self._root = Path(path).absolute()
        self._scratch = self._root / SCRATCH
        self._swept = False

    @property
    def url(self) -> str:
        return str(self._root)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(atomic_create=True, poll_seconds=1.0, parallel=4)

    def create(self, key: str, data: bytes) -> None:
        """Creates by an exclusive hard link.

        Where the file system has no hard links the file is made in place, exclusively: still only one of many
        wins, but a reader who comes at that moment may see a part.
        """
        target = self._path(key)

        def fill(descriptor: int) -> None:
            write_all(descriptor, data)
            os.fsync(descriptor)

        with self._explained("create", key):
            if target.is_file():
                self._taken(target)
            temporary = self._fill(fill)
            try:
                in_folder(target, lambda: self._link(temporary, target, fill), durable=True)
                sync_folder(target.parent)
            finally:
                temporary.unlink(missing_ok=True)

    def put(self, key: str, data: bytes) -> None:
        self._place(key, lambda descriptor: write_all(descriptor, data))

    def put_file(self, key: str, path: Path) -> None:
        # A copy, never a hard link: the source may go on changing.
        with self._explained("read", key):
            try:
                source = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                raise NotFound(f"there is no file {path} to put into the work dir") from None
        try:
            self._place(key, lambda descriptor: copy_bytes(source, descriptor))
        finally:
            os.close(source)

    def get(self, key: str) -> bytes:
        path = self._path(key)
        with self._explained("read", key):
            try:
                return path.read_bytes()
            except _ABSENT:
                self._absent(key)

    def get_range(self, key: str, start: int, size: int) -> bytes:
        with self._explained("read", key):
            try:
                with self._path(key).open("rb", buffering=0) as file:
                    return os.pread(file.fileno(), size, start)
            except _ABSENT:
                self._absent(key)

    def get_file(self, key: str, path: Path) -> None:
        with self._explained("read", key):
            try:
                source = self._path(key).open("rb", buffering=0)
            except _ABSENT:
                self._absent(key)
            with source, appearing(path) as target:
                copy_bytes(source.fileno(), target)

    def list(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        """Links to folders are not followed below the prefix, and names that are not UTF-8 are not shown."""
        if not _may_be_here(prefix):
            return iter(())
        return walk(self._children, prefix, after)

    def list_names(self, prefix: str = "") -> Iterator[str]:
        """A folder that someone left empty is shown as well."""
        if not _may_be_here(names_below(prefix)):
            return iter(())
        return iter(sorted(entry.name for entry in self._children(prefix)))

    def delete(self, key: str) -> None:
        """Folders that become empty go too: in a bucket they would not be there."""
        path = self._path(key)
        with self._explained("delete", key):
            try:
                path.unlink()
            except (FileNotFoundError, NotADirectoryError):
                return
            except OSError:
                if path.is_dir():
                    return
                raise
        for folder in path.parents:
            if folder == self._root:
                return
            try:
                folder.rmdir()
            except OSError:
                return

    def delete_all(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.delete(key)

    def _path(self, key: str) -> Path:
        if check_key(key).split("/", 1)[0] == SCRATCH:
            raise StoreError(f"not a key of a work dir: {key!r}", f"{SCRATCH!r} is kept for unfinished files.")
        return self._root / key

    def _place(self, key: str, fill: Callable[[int], None]) -> None:
        target = self._path(key)
        with self._explained("write", key):
            temporary = self._fill(fill)
            try:
                in_folder(target, lambda: temporary.replace(target))
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise

    def _fill(self, fill: Callable[[int], None]) -> Path:
        """A new file in the scratch folder with the content that `fill` gives it."""
        self._sweep()
        temporary = self._scratch / os.urandom(12).hex()
        descriptor = in_folder(temporary, lambda: new_file(temporary))
        try:
            fill(descriptor)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
        return temporary

    def _link(self, temporary: Path, target: Path, fill: Callable[[int], None]) -> None:
        try:
            target.hardlink_to(temporary)
        except FileExistsError:
            # NFS may answer a repeated request with the error, although the first one made the link.
            if temporary.stat().st_nlink < 2:
                self._taken(target)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            self._make_in_place(target, fill)

    def _make_in_place(self, target: Path, fill: Callable[[int], None]) -> None:
        try:
            descriptor = new_file(target)
        except FileExistsError:
            self._taken(target)
        try:
            fill(descriptor)
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)

    def _taken(self, target: Path) -> NoReturn:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
        key = target.relative_to(self._root)
        raise AlreadyExists(f"{str(key)!r} is already in the work dir {self.url}") from None

    def _sweep(self) -> None:
        """Takes away, once, what killed writers left behind. A file still being written is younger."""
        if self._swept:
            return
        self._swept = True
        try:
            for entry in os.scandir(self._scratch):
                if time.time() - entry.stat().st_mtime > STALE_SECONDS:
                    Path(entry.path).unlink(missing_ok=True)
        except OSError:
            return  # another sweeps too, or there is nothing yet; the write that follows tells what is wrong

    def _children(self, above: str) -> Sequence[os.DirEntry[str]]:
        with self._explained("list", above):
            try:
                found = children(self._root / above)
            except NotADirectoryError:
                if above and self._root.is_dir():
                    return ()
                raise
        return [entry for entry in found if above or entry.name != SCRATCH]

    def _absent(self, key: str) -> NoReturn:
        if self._root.exists() and not self._root.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(self._root)) from None
        raise NotFound(f"there is no {key!r} in the work dir {self.url}") from None

    @contextmanager
    def _explained(self, doing: str, key: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            place = f" ({error.filename})" if error.filename else ""
            kind = StoreBusy if error.errno in _PASSING else StoreError
            raise kind(
                f"cannot {doing} {key!r} in the work dir {self.url}: {reason}{place}",
                _FIXES.get(error.errno or 0, ""),
            ) from error


def _may_be_here(prefix: str) -> bool:
    return may_begin_keys(prefix) and not prefix.startswith(f"{SCRATCH}/")
