"""Looks through a folder of code and lists what belongs to the bundle. Reads, and changes nothing."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ..errors import CodeError
from .digests import Stamp, keep_digests, known_digests, stamp
from .files import CHUNK
from .ignore import ALWAYS, Rules
from .manifest import FileEntry, Manifest, stays_inside
from .parallel import at_once

IGNORE_FILE = ".musterignore"

_LARGE = 1 << 23
"""Bytes that take no time to read; only of larger folders is it kept what they held."""
_LEAVE_OUT = f"or leave it out with a line in {IGNORE_FILE} at the top of the code folder."


def scan(folder: Path, ignore: Iterable[str] = ()) -> Manifest:
    """The files of a code folder, or of code that is one file, with their digests.

    Left out are the names in `ALWAYS`, the lines in `ignore` and what the folder's own `.musterignore` says.
    Folders without files are not kept. A link inside the folder stays a link; one that leads out is an error,
    as is anything that is neither file, folder nor link.
    """
    try:
        mode = folder.stat().st_mode
    except OSError as error:
        raise CodeError(
            f"there is no code at {folder}: {error.strerror}",
            "Name a folder or a file that is there as `code` of the job.",
        ) from error
    if stat.S_ISREG(mode):
        return Manifest((_read(folder, folder.name),))
    rules = Rules([*ALWAYS, *ignore, *_own_rules(folder)])
    root = Path(os.path.realpath(folder))
    found = list(_walk(root, "", rules))
    files = [file for file in found if isinstance(file, _File)]
    entries = _read_large(root, files) if sum(file.stamp[0] for file in files) > _LARGE else _read_all(root, files)
    links = [entry for entry in found if isinstance(entry, FileEntry)]
    return Manifest(tuple(sorted([*links, *entries], key=lambda entry: entry.path)))


class _File(NamedTuple):
    """A file as the walk saw it."""

    path: str
    stamp: Stamp
    executable: bool


def _read_large(root: Path, files: list[_File]) -> list[FileEntry]:
    """Reads only what is new or has changed since the folder was read the last time, several files at once."""
    known, read_at = known_digests(root), time.time()
    same = [file for file in files if file.path in known and known[file.path][0] == file.stamp]
    entries = [FileEntry(file.path, file.stamp[0], known[file.path][1], file.executable) for file in same]
    new = sorted(set(files).difference(same))
    workers = os.cpu_count() or 1
    parts = at_once(workers, lambda part: _read_all(root, part), [new[first::workers] for first in range(workers)])
    entries += [entry for part in parts for entry in part]
    if new or len(known) > len(files):
        stamps = {file.path: file.stamp for file in files}
        keep_digests(root, {entry.path: (stamps[entry.path], entry.sha256) for entry in entries}, read_at)
    return entries


def _read_all(root: Path, files: list[_File]) -> list[FileEntry]:
    return [_read(root / file.path, file.path) for file in files]


def _own_rules(folder: Path) -> list[str]:
    path = folder / IGNORE_FILE
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(path, error) from error
    return os.fsdecode(found.removeprefix(b"\xef\xbb\xbf")).split("\n")


def _walk(root: Path, above: str, rules: Rules) -> Iterator[FileEntry | _File]:
    """The files, still to be read, and the links."""
    try:
        with os.scandir(root / above) as entries:
            found = list(entries)
    except OSError as error:
        raise _unreadable(root / above, error) from error
    for entry in found:
        path = above + entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if rules.ignored(path, is_folder):
            continue
        if is_folder:
            yield from _walk(root, path + "/", rules)
        elif entry.is_symlink():
            yield FileEntry(path, link=_link(root, path))
        elif entry.is_file():
            yield _seen(root / path, path)
        else:
            raise CodeError(f"{root / path} is neither a file, a folder nor a link", f"Take it away, {_LEAVE_OUT}")


def _link(root: Path, path: str) -> str:
    """The target of a link, relative to the link and without detours."""
    place = root / path
    target = str(place.readlink())
    resolved = os.path.realpath(place)
    if resolved != str(root) and not resolved.startswith(f"{root}/"):
        raise CodeError(
            f"the link {place} leads out of the code folder, to {target}",
            f"Copy what it leads to in its place, {_LEAVE_OUT}",
        )
    return target if stays_inside(path, target) else os.path.relpath(resolved, place.parent)


def _seen(place: Path, path: str) -> _File:
    try:
        seen = place.lstat()
    except OSError as error:
        raise _unreadable(place, error) from error
    return _File(path, stamp(seen), _is_executable(seen))


def _is_executable(seen: os.stat_result) -> bool:
    return bool(seen.st_mode & stat.S_IXUSR)


def _read(place: Path, path: str) -> FileEntry:
    import hashlib

    digest = hashlib.sha256()
    try:
        with place.open("rb", buffering=0) as file:
            before = os.fstat(file.fileno())
            while chunk := file.read(CHUNK):
                digest.update(chunk)
            after = os.fstat(file.fileno())
    except OSError as error:
        raise _unreadable(place, error) from error
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise changed(place)
    return FileEntry(path, before.st_size, digest.hexdigest(), _is_executable(before))


def changed(place: Path) -> CodeError:
    """The error for a file that did not keep still."""
    return CodeError(f"{place} changed while it was being bundled", f"Start again when it is written, {_LEAVE_OUT}")


def _unreadable(place: Path, error: OSError) -> CodeError:
    return CodeError(f"cannot read {place}: {error.strerror}", f"Make it readable, {_LEAVE_OUT}")
