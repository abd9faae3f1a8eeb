"""What stores and sync do with plain files: write whole, copy fast, appear at once, digest."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

CHUNK = 1 << 20

T = TypeVar("T")

_NO_FOLDER_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF, errno.ENOENT}


def write_all(descriptor: int, data: bytes) -> None:
    """Writes all of `data`: one `os.write` may take less."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def pwrite_all(descriptor: int, data: bytes, at: int) -> None:
    """Writes all of `data` at a place, whatever else is written elsewhere at the same time."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, at)
        view, at = view[written:], at + written


def copy_bytes(source: int, target: int) -> None:
    """Copies what is left of one descriptor to another, inside the kernel where it can."""
    try:
        while os.copy_file_range(source, target, 1 << 30):
            pass
    except (AttributeError, OSError):
        pass  # not on this system, or not between these two: both offsets stand where it stopped
    # Always drained by reading, too: some file systems report an end where there is none.
    while chunk := os.read(source, CHUNK):
        write_all(target, chunk)


def new_file(path: Path) -> int:
    """A descriptor for a file that was not there, for its owner alone."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)


def in_folder(target: Path, act: Callable[[], T], *, durable: bool = False, attempts: int = 20) -> T:
    """Does something that needs the target's folder, which is made when it is missing.

    More than once, because one who deletes the last key of a folder takes the folder away as well.
    """
    try:
        return act()
    except FileNotFoundError:
        if not attempts:
            raise
    with suppress(FileNotFoundError):
        _make_folder(target.parent, durable)
    return in_folder(target, act, durable=durable, attempts=attempts - 1)


def _make_folder(folder: Path, durable: bool) -> None:
    try:
        folder.mkdir(0o700)
    except FileExistsError:
        # Asked once: it may have been taken away since, and then is no folder either.
        if not stat.S_ISDIR(folder.stat().st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None
    except FileNotFoundError:
        _make_folder(folder.parent, durable)
        with suppress(FileExistsError):  # whoever made it may even have taken it away again
            folder.mkdir(0o700)
    if durable:
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable, where the file system knows how."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise


@contextmanager
def appearing(path: Path) -> Iterator[int]:
    """A descriptor for what becomes `path` when the block ends well; else nothing is left of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".muster-{os.urandom(8).hex()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            yield descriptor
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sha256_of(path: Path) -> str:
    """The digest of a file's content."""
    import hashlib

    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
