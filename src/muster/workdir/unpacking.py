"""Lays out code as a new folder, all or nothing, and trusts nothing in it that the digest does not vouch for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ..errors import CodeError, NotFound
from .code_contents import Contents
from .code_packs import Spot, pack_key, plain_form
from .code_pieces import ONE_PIECE, Piece, pieces_of, place_of
from .code_reading import DAMAGE, damaged
from .files import CHUNK, sha256_of
from .manifest import FileEntry, Manifest
from .parallel import at_once
from .progress import Progress
from .scan import changed
from .store import Store

_GAP = 1 << 17
"""Bytes that nobody needs are read along rather than asked around, as long as they are no more than this."""


def lay_out(store: Store, contents: Contents, into: Path, progress: Progress) -> None:
    """Makes a folder of a bundle. Each piece and each file is checked."""
    digest = contents.manifest.digest
    try:
        with new_folder(into) as place:
            tree = _Tree(contents, place)
            _fill(store, tree, progress)
            for _ in at_once(os.cpu_count() or 1, tree.check, tree.cut_files):
                pass
            make_links(contents.manifest, place)
    except DAMAGE as error:
        raise damaged(digest, error) from error
    except NotFound as error:
        raise damaged(digest, error.message) from error


def copy_code(source: Path, manifest: Manifest, into: Path) -> None:
    """Makes a folder of scanned code. A file that has changed since is an error."""
    with new_folder(into) as place:
        for entry in manifest.files:
            if entry.link is None:
                _copy(place_of(source, entry), entry, place)
        make_links(manifest, place)


@contextmanager
def new_folder(into: Path) -> Iterator[Path]:
    """A folder that becomes `into` if all goes well, and else is gone. `into` must not be there, or be empty."""
    try:
        into.parent.mkdir(parents=True, exist_ok=True)
        place = into.parent / f".muster-{os.urandom(8).hex()}"
        place.mkdir()
        try:
            yield place
            place.rename(into)
        except BaseException:
            import shutil

            shutil.rmtree(place)
            raise
    except OSError as error:
        raise CodeError(f"cannot lay out the code at {into}: {error.strerror}", "Name a new folder.") from error


def make_links(manifest: Manifest, place: Path) -> None:
    """Last, so that no file can be written through a link, whatever the file system thinks of their names."""
    for entry in manifest.files:
        if entry.link is not None:
            (place / entry.path).parent.mkdir(parents=True, exist_ok=True)
            (place / entry.path).symlink_to(entry.link)


def new_file(entry: FileEntry, place: Path) -> int:
    """A descriptor for a file that must not be there yet."""
    mode = 0o777 if entry.executable else 0o666
    return os.open(place / entry.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)


def _copy(source: Path, entry: FileEntry, place: Path) -> None:
    import hashlib

    (place / entry.path).parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    try:
        reading = source.open("rb", buffering=0)
    except OSError as error:
        raise CodeError(f"cannot read {source}: {error.strerror}") from error
    with reading, os.fdopen(new_file(entry, place), "wb") as writing:
        while chunk := reading.read(CHUNK):
            digest.update(chunk)
            writing.write(chunk)
    if digest.hexdigest() != entry.sha256:
        raise changed(source)


# --- files of pieces ------------------------------------------------------------------------------------------


class _Tree:
    """The files of a bundle, in a folder where they are being made. Pieces may come in any order, and at once."""

    def __init__(self, contents: Contents, place: Path) -> None:
        self.contents, self._place = contents, place
        self.cut_files: list[FileEntry] = []
        self._homes: dict[bytes, list[tuple[FileEntry, int]]] = {}
        folders = {place / os.path.dirname(entry.path) for entry in contents.manifest.files}  # noqa: PTH120
        for folder in sorted(folders):
            folder.mkdir(parents=True, exist_ok=True)
        for entry in contents.manifest.files:
            if entry.link is None:
                self._expect(entry)

    def _expect(self, entry: FileEntry) -> None:
        if not entry.size or entry.size > ONE_PIECE:
            os.close(new_file(entry, self._place))
            self.cut_files.append(entry)
        offset = 0
        for piece in pieces_of(entry, self.contents.cuts):
            self._homes.setdefault(piece.digest, []).append((entry, offset))
            offset += piece.size

    def put(self, piece: Piece, stored: bytes) -> None:
        """Writes a piece wherever it belongs."""
        homes = self._homes[piece.digest]
        try:
            content = plain_form(stored, piece)
        except DAMAGE:
            raise ValueError(f"{homes[0][0].path!r} does not have the content that its manifest says") from None
        for entry, offset in homes:
            if entry.size <= ONE_PIECE:
                descriptor = new_file(entry, self._place)
            else:
                descriptor = os.open(self._place / entry.path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(descriptor, "wb") as file:
                file.seek(offset)
                file.write(content)

    def check(self, entry: FileEntry) -> None:
        """That a file which is not one piece is what the manifest says: nothing vouches for how it was cut."""
        if sha256_of(self._place / entry.path) != entry.sha256:
            raise ValueError(f"{entry.path!r} does not have the content that its manifest says")


class _Run(NamedTuple):
    """Pieces of one pack that are read together, in the order of their offsets."""

    pack: str
    start: int
    end: int
    pieces: list[tuple[Piece, Spot]]


def _fill(store: Store, tree: _Tree, progress: Progress) -> None:
    contents = tree.contents

    def bring(run: _Run) -> int:
        data = _read(store, contents, run)
        for piece, spot in run.pieces:
            at = spot.offset - run.start
            tree.put(piece, data[at : at + spot.stored])
        return run.end - run.start

    runs = _runs(contents)
    done, total = 0, sum(run.end - run.start for run in runs)
    progress(done, total)
    for brought in at_once(store.capabilities.parallel, bring, runs):
        done += brought
        progress(done, total)


def _read(store: Store, contents: Contents, run: _Run) -> bytes:
    if run.pack in contents.tails:
        return contents.tails[run.pack][run.start : run.end]
    return store.get_range(pack_key(run.pack), run.start, run.end - run.start)


def _runs(contents: Contents) -> list[_Run]:
    """What is to be read of the packs, in as few requests as reads little in vain."""
    places = sorted((contents.spots[digest], digest) for digest in contents.pieces)
    runs: list[_Run] = []
    for spot, digest in places:
        piece = Piece(digest, contents.pieces[digest])
        end = spot.offset + spot.stored
        last = runs[-1] if runs else None
        if last and last.pack == spot.pack and spot.offset <= last.end + _GAP:
            last.pieces.append((piece, spot))
            runs[-1] = last._replace(end=max(end, last.end))
        else:
            runs.append(_Run(spot.pack, spot.offset, end, [(piece, spot)]))
    return runs
