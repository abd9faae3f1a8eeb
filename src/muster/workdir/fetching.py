"""Code from elsewhere, brought onto this machine: out of git, from a URL, out of an archive.

A launcher fetches once, for all nodes of its run; a node that was started by its environment alone fetches by itself.
"""

from __future__ import annotations

import os
import posixpath
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ..errors import CodeError, StoreError
from ..spec.problems import nearest
from ..spec.sources import ARCHIVES, Source, code_source, script_name
from .files import sha256_of
from .patience import Say

_MARK = ".muster-code"
"""Stands in a folder that a node filled, and says with what."""
_NOT_CODE = ("__MACOSX", ".DS_Store")
_MOST_NAMES = 2000


class Fetched(NamedTuple):
    """Code that was brought here."""

    folder: Path
    source: str
    """Where it is from, to the commit or checksum: a `code` that gives the same again."""
    mark: str
    """The commit, or the digest of what came."""


def check_fetchable(code: str) -> None:
    """An error for code that this machine could never fetch. Asks nobody else."""
    source = code_source(code)
    if source and source.kind == "git":
        from .git import check_git

        check_git()
    if source and source.kind == "bucket":
        from .opening import open_store

        try:
            open_store(source.place)
        except StoreError as error:
            raise CodeError(f"code: {error.message}", error.fix) from error


@contextmanager
def fetched(code: str, entry: str | None, say: Say) -> Iterator[Fetched]:
    """Code as a folder that lasts as long as the block."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="muster-code-") as scratch:
        yield _fetch(code, entry, Path(scratch), say)


def fetch_to(code: str, entry: str | None, place: Path, say: Say) -> None:
    """Lays code out at a place that other nodes may use too. What stands there already is never overwritten."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        (_fill if place.exists() else _make)(code, entry, place, say)
    except OSError as error:
        fix = "Set CODE_DIR to a folder that can be written, or take it out."
        raise CodeError(f"cannot lay out the code at {place}: {error.strerror}", fix) from error


def _make(code: str, entry: str | None, place: Path, say: Say) -> None:
    """A place that is not there appears at once, and whole."""
    with _part(place.parent) as scratch:
        got = _fetch(code, entry, scratch, say)
        _write_mark(got.folder, got)
        try:
            got.folder.rename(place)
        except OSError:
            if not place.is_dir():
                raise
            _check_same(place, got.mark, code)  # another node was quicker


def _fill(code: str, entry: str | None, place: Path, say: Say) -> None:
    """A place that is there may be a mount, so it is filled where it is; by one node after the other."""
    import fcntl

    holder = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        for left in place.glob(".muster-*.part"):
            shutil.rmtree(left)  # a node was killed here
        if any(place.iterdir()):
            _use(code, entry, place, say)
            return
        with _part(place) as scratch:
            got = _fetch(code, entry, scratch, say)
            for item in got.folder.iterdir():
                item.rename(place / item.name)
        _write_mark(place, got)
    finally:
        os.close(holder)


def _use(code: str, entry: str | None, place: Path, say: Say) -> None:
    """Takes a folder as it is, if it holds what is wanted."""
    source = code_source(code)
    if source is None or source.mark is None or source.mark != _held(place):
        with fetched(code, entry, say) as got:
            _check_same(place, got.mark, code)
    _check_entry(place, entry, code)


def _check_same(place: Path, mark: str, code: str) -> None:
    if _held(place) != mark:
        raise CodeError(
            f"{place} holds something already, and it is not {code} at {mark[:12]}",
            "Set CODE_DIR to a new or an empty folder, or take it out: the node then has one of its own.",
        )


def _held(place: Path) -> str | None:
    """The commit or digest of what a folder holds, as a node or git left it."""
    from .git import head_of

    with suppress(OSError, IndexError):
        return (place / _MARK).read_text(encoding="utf-8").split()[0]
    return head_of(place)


def _write_mark(folder: Path, got: Fetched) -> None:
    (folder / _MARK).write_text(f"{got.mark} {got.source}\n", encoding="utf-8")


@contextmanager
def _part(folder: Path) -> Iterator[Path]:
    """A place for what is not finished, on the file system where it will stay."""
    scratch = folder / f".muster-{os.urandom(8).hex()}.part"
    scratch.mkdir()
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


# --- fetching -------------------------------------------------------------------------------------------------


def _fetch(code: str, entry: str | None, scratch: Path, say: Say) -> Fetched:
    source = code_source(code) or Source("file", code)
    folder = scratch / "code"
    if source.kind == "git":
        from .git import fetch_git

        mark = fetch_git(source.place, source.mark, folder, scratch, say)
        roots, exact = [folder], f"git+{source.place}#{mark}"
    elif source.kind == "file" and Path(source.place).is_dir():
        roots, mark = _copied(Path(source.place), folder)
        exact = code
    elif source.kind == "bucket":
        roots, mark = _from_bucket(source, folder, scratch, entry)
        exact = code
    else:
        file, mark, exact = _file(source, scratch, say)
        roots = _laid_out(file, folder, source.place, entry)
    root = next((root for root in roots if _has(root, entry)), roots[0])
    _check_entry(root, entry, code)
    say(f"fetched {exact}")
    return Fetched(root, exact, mark)


def _file(source: Source, scratch: Path, say: Say) -> tuple[Path, str, str]:
    """The one file that the code is: where it is now, its sha256, and where exactly it is from."""
    if source.kind == "file":
        try:
            return Path(source.place), sha256_of(Path(source.place)), source.place
        except OSError as error:
            raise CodeError(
                f"cannot read the code at {source.place}: {error.strerror}", "Name what is there."
            ) from error
    file = scratch / "download"
    from .download import download

    digest = download(source.place, file, say)
    if source.mark not in (None, digest):
        raise CodeError(
            f"{source.place} is not the file that the job wants: its sha256 is {digest}",
            "See who changed it. If it is right, write this sha256 behind the # of `code`.",
        )
    return file, digest, f"{source.place}#sha256={digest}"


def _from_bucket(source: Source, folder: Path, scratch: Path, entry: str | None) -> tuple[list[Path], str]:
    """An archive is unpacked; a folder may be named with its own name in front, as entries of ADS are."""
    from .bucket_code import fetch_bucket

    arrived = scratch / "bucket" / source.place.partition("?")[0].rpartition("/")[2]
    alone, mark = fetch_bucket(source.place, source.mark, arrived)
    if alone:
        return _laid_out(arrived, folder, source.place, entry), mark
    return [arrived, arrived.parent], mark


def _laid_out(file: Path, folder: Path, place: str, entry: str | None) -> list[Path]:
    """Lays out one file: unpacked if it is an archive. The folders in it that may be the code, the likeliest first."""
    from .archives import looks_like_a_page, unpack_archive

    name = script_name(place) or place.partition("?")[0].rpartition("/")[2]
    if not name.lower().endswith(ARCHIVES):
        folder.mkdir()
        shutil.copy(file, folder / name)
        with file.open("rb") as content:
            if looks_like_a_page(content.read(64)):
                raise CodeError(f"{place} is a web page, not a script", "Open it in a browser: it may want a login.")
        return [folder]
    unpack_archive(file, folder, place)
    names = [item for item in folder.iterdir() if item.name not in _NOT_CODE]
    if len(names) != 1 or names[0].is_symlink() or not names[0].is_dir():
        return [folder]
    # As GitHub makes them: all of the code below one folder, which without an entry must not be a package itself.
    top = names[0]
    return [folder, top] if entry or (top / "__init__.py").exists() else [top]


def _copied(source: Path, folder: Path) -> tuple[list[Path], str]:
    """A copy of a folder. It may be named with its own name in front, as entries of ADS are."""
    from .bundle import copy_code, scan

    manifest = scan(source)
    copy_code(source, manifest, folder / source.name)
    return [folder / source.name, folder], manifest.digest


def _has(root: Path, entry: str | None) -> bool:
    # An entry that is absolute lies elsewhere on the machine.
    return entry is None or entry.startswith("/") or (root / entry).is_file()


def _check_entry(root: Path, entry: str | None, code: str) -> None:
    if entry is None or _has(root, entry):
        return
    names = sorted(_names(root))
    same = [name for name in names if posixpath.basename(name) == posixpath.basename(entry)]
    guess = min(same, key=len) if same else nearest(entry, names)
    fix = f"Did you mean `{guess}`?" if guess else f"It has: {', '.join(names[:10]) or 'nothing'}."
    raise CodeError(f"entry: there is no {entry!r} in {code}", fix)


def _names(root: Path) -> Iterator[str]:
    files = (Path(above, name) for above, _, names in os.walk(root) for name in names)
    for _, path in zip(range(_MOST_NAMES), files, strict=False):
        yield path.relative_to(root).as_posix()
