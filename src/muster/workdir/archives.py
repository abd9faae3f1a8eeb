"""Unpacks archives that others made: zip, and tar in any of its compressions.

Nothing in them is trusted. A name leads nowhere but into the folder; no file is written through a link, for links
come last; what is neither file, folder nor link is refused; and sizes are counted as they are written, because an
archive of a few kilobytes can hold a disk full of zeros.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, NamedTuple

from ..errors import CodeError
from ..spec.units import size_text
from .files import CHUNK
from .manifest import is_inside, stays_inside

if TYPE_CHECKING:
    import tarfile
    import zipfile

LARGEST = 8 << 30
"""Bytes of all files together. Code is smaller; what is larger is data, or an archive made to fill a disk."""
MOST_FILES = 200_000
_LONGEST_READ = 32 << 20
"""Bytes that the readers of Python may ask for at once: headers are read whole, however long they claim to be."""
_LONGEST_LINK = 4096
_BLOCK = 512
_WEB_PAGE = (b"<!doctype html", b"<html")


class Member(NamedTuple):
    """One entry of an archive, of whichever format."""

    path: str
    kind: str
    """`file`, `folder`, `link` or `copy` (of a file before it: a hard link)."""
    size: int = 0
    executable: bool = False
    target: str = ""
    handle: Any = None


def unpack_archive(archive: Path, into: Path, called: str) -> None:
    """Lays an archive out as a new folder. Errors name it as `called`, where it came from."""
    import tarfile
    import zipfile
    import zlib
    from lzma import LZMAError
    from struct import error as struct_error

    into.mkdir()
    try:
        with archive.open("rb") as file:
            bounded: Any = _Bounded(file)
            if file.read(4)[:2] == b"PK":
                with zipfile.ZipFile(bounded) as found:
                    _lay_out(_zip_members(found), lambda member: found.open(member.handle), into)
            else:
                _untar(file, into)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, LZMAError, struct_error, EOFError) as error:
        raise _no_archive(archive, called, error) from error
    except (ValueError, NotImplementedError) as error:
        raise CodeError(f"{called} is not unpacked: {error}", "Make the archive anew, of the code alone.") from error
    except OSError as error:
        if error.errno is None:  # gzip and bz2 tell of damage so
            raise _no_archive(archive, called, error) from error
        raise CodeError(f"cannot unpack {called}: {error.strerror}", "Free some space, or set TMPDIR.") from error


def looks_like_a_page(begin: bytes) -> bool:
    """Whether a file is what servers send instead of one: a page to log in, or to say that it is gone."""
    return begin.lstrip()[:20].lower().startswith(_WEB_PAGE)


def _no_archive(archive: Path, called: str, error: Exception) -> CodeError:
    with archive.open("rb") as file:
        begin = file.read(64)
    if looks_like_a_page(begin):
        return CodeError(f"{called} is a web page, not an archive", "Open it in a browser: it may want a login.")
    return CodeError(f"{called} is no whole zip or tar archive: {error}", "Fetch or make the archive anew.")


class _Bounded:
    """A file of which nobody can ask for very much at once."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell, self.close = file.seek, file.tell, file.close

    def read(self, size: int = -1) -> bytes:
        if size > _LONGEST_READ:
            raise ValueError(f"one of its headers claims {size_text(size)}")
        return self._file.read(size if size >= 0 else _LONGEST_READ)

    def seekable(self) -> bool:
        return True


def _untar(file: BinaryIO, into: Path) -> None:
    import tarfile

    bounded: Any = _Bounded(_decompressed(file))
    with tarfile.open(fileobj=bounded, mode="r:") as found:
        _lay_out(_tar_members(found), lambda member: found.extractfile(member.handle), into)
        # Python takes a damaged header for the end, and checks no sum that stands behind it.
        bounded.seek(found.offset)
        if bounded.read(_BLOCK) != bytes(_BLOCK):
            raise tarfile.ReadError("it ends too early, or is damaged")
        for _ in range(_LONGEST_READ // CHUNK):
            if not bounded.read(CHUNK):
                return
        raise ValueError("there is much behind its end")


def _decompressed(file: BinaryIO) -> IO[bytes]:
    file.seek(0)
    begin = file.read(6)
    file.seek(0)
    if begin.startswith(b"\x1f\x8b"):
        import gzip

        return gzip.GzipFile(fileobj=file)  # type: ignore[return-value]
    if begin.startswith(b"BZh"):
        import bz2

        return bz2.BZ2File(file)
    if begin.startswith(b"\xfd7zXZ\0"):
        import lzma

        return lzma.LZMAFile(file)
    return file


def _tar_members(found: tarfile.TarFile) -> Iterator[Member]:
    for entry in found:
        executable = bool(entry.mode & stat.S_IXUSR)
        if entry.isfile():
            yield Member(entry.name, "file", entry.size, executable, handle=entry)
        elif entry.isdir():
            yield Member(entry.name, "folder")
        elif entry.issym():
            yield Member(entry.name, "link", target=entry.linkname)
        elif entry.islnk():
            yield Member(entry.name, "copy", executable=executable, target=entry.linkname)
        else:
            raise ValueError(f"{entry.name!r} is neither a file, a folder nor a link")


def _zip_members(found: zipfile.ZipFile) -> Iterator[Member]:
    for entry in found.infolist():
        mode = entry.external_attr >> 16
        if entry.flag_bits & 1:
            raise ValueError(f"{entry.filename!r} is encrypted")
        if entry.is_dir():
            yield Member(entry.filename, "folder")
        elif stat.S_ISLNK(mode):
            if entry.file_size > _LONGEST_LINK:
                raise ValueError(f"the link {entry.filename!r} is too long")
            yield Member(entry.filename, "link", target=os.fsdecode(found.read(entry)))
        elif stat.S_IFMT(mode) in (0, stat.S_IFREG):
            yield Member(entry.filename, "file", entry.file_size, bool(mode & stat.S_IXUSR), handle=entry)
        else:
            raise ValueError(f"{entry.filename!r} is neither a file, a folder nor a link")


def _lay_out(members: Iterator[Member], opened: Any, into: Path) -> None:
    links: dict[str, str] = {}
    left, seen = LARGEST, 0
    for member in members:
        path = _inside(member.path)
        seen += 1
        if seen > MOST_FILES:
            raise ValueError(f"it holds more than {MOST_FILES:,} files")
        if member.size > left:
            raise _too_large()
        if not path:
            continue
        if member.kind == "link":
            links[path] = _link(path, member.target)
        elif member.kind == "folder":
            _folder(into / path, path)
        else:
            with _before(into, member) if member.kind == "copy" else opened(member) as source:
                left -= _write(source, into / path, path, member.executable, left)
    # Last, so that no file can be written through a link; and no link through another.
    for path, target in links.items():
        place = into / path
        _folder(place.parent, path)
        if os.path.realpath(place.parent) != str(Path(os.path.realpath(into), path).parent):
            raise ValueError(f"{path!r} stands below a link")
        try:
            place.symlink_to(target)
        except FileExistsError:
            raise ValueError(f"it holds {path!r} twice") from None


def _before(into: Path, member: Member) -> BinaryIO:
    """The file that a hard link stands for, which comes before it."""
    try:
        return (into / _inside(member.target)).open("rb")
    except OSError:
        raise ValueError(f"{member.path!r} is a copy of {member.target!r}, which is not there") from None


def _inside(name: str) -> str:
    """A name as a path below the folder; empty for the folder itself."""
    path = "/".join(part for part in name.split("/") if part not in ("", "."))
    if name.startswith("/") or (path and not is_inside(path)):
        raise ValueError(f"{name!r} leads out of its folder")
    return path


def _link(path: str, target: str) -> str:
    if not stays_inside(path, target):
        raise ValueError(f"the link {path!r} leads out of its folder, to {target!r}")
    return target


def _folder(place: Path, path: str) -> None:
    try:
        place.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"{path!r} stands below something that is no folder, or is there twice") from None


def _write(source: IO[bytes], place: Path, path: str, executable: bool, left: int) -> int:
    """The bytes of a new file; more than are left of all that may be written are refused."""
    _folder(place.parent, path)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        descriptor = os.open(place, flags, 0o777 if executable else 0o666)
    except FileExistsError:
        raise ValueError(f"it holds {path!r} twice") from None
    written = 0
    with os.fdopen(descriptor, "wb") as file:
        while chunk := source.read(CHUNK):
            written += len(chunk)
            if written > left:
                raise _too_large()
            file.write(chunk)
    return written


def _too_large() -> ValueError:
    return ValueError(f"it holds more than {size_text(LARGEST)}; bring data along as `inputs` of the job")
