"""Files of code as pieces, so that of a large file that changed only what is around the change is sent again.

A cut stands behind a line whose last bytes happen to have a low checksum, so that the same bytes are cut at the same
places wherever they stand in a file. Long lines are as much likelier to be cut behind as they are longer: pieces are
of one size in text, and in data that knows no lines, where the byte that ends them is as frequent as others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ..errors import CodeError
from .manifest import FileEntry, Manifest
from .scan import changed

ONE_PIECE = 1 << 16
"""A file up to this size is one piece, whose digest is the file's own."""
LARGEST_PIECE = 1 << 20
_SMALLEST = 1 << 14
_USUAL = 1 << 15
"""Bytes between the smallest size and the next cut, in the mean."""
_WINDOW = 32
_LOW = (1 << 32) // _USUAL
_READ = 8 * LARGEST_PIECE


class Piece(NamedTuple):
    """Some bytes of a file, named by their sha256."""

    digest: bytes
    size: int


Cuts = Mapping[str, tuple[Piece, ...]]
"""The pieces of each file that is larger than `ONE_PIECE`, by the sha256 of the file."""


def pieces_of(entry: FileEntry, cuts: Cuts) -> tuple[Piece, ...]:
    """The pieces that a file is made of, in order."""
    if entry.link is not None or not entry.size:
        return ()
    if entry.size > ONE_PIECE:
        return cuts[entry.sha256]
    return (Piece(bytes.fromhex(entry.sha256), entry.size),)


def all_pieces(manifest: Manifest, cuts: Cuts) -> dict[bytes, int]:
    """The size of each piece by its digest, in the order in which the files need them."""
    return {piece.digest: piece.size for entry in manifest.files for piece in pieces_of(entry, cuts)}


def place_of(folder: Path, entry: FileEntry) -> Path:
    """Where a scanned file is. Code may be one file."""
    return folder if folder.is_file() else folder / entry.path


def cut(place: Path, entry: FileEntry) -> tuple[Piece, ...]:
    """Cuts a file, which must be the one that was scanned."""
    import hashlib

    whole, found, size = hashlib.sha256(), [], 0
    try:
        with place.open("rb", buffering=0) as file:
            for part in cut_stream(lambda: file.read(_READ)):
                whole.update(part)
                size += len(part)
                found.append(Piece(hashlib.sha256(part).digest(), len(part)))
                if size > entry.size:
                    raise changed(place)
    except OSError as error:
        raise CodeError(f"cannot read {place}: {error.strerror}") from error
    if whole.hexdigest() != entry.sha256:
        raise changed(place)
    return tuple(found)


def cut_stream(read: Callable[[], bytes]) -> Iterator[bytes]:
    """Pieces of a stream. Where it is cut does not depend on how much `read` gives at a time."""
    data, start = b"", 0
    while more := read():
        data, start = data[start:] + more, 0
        while len(data) - start >= LARGEST_PIECE:
            end = _end(data, start)
            yield data[start:end]
            start = end
    while start < len(data):
        end = _end(data, start)
        yield data[start:end]
        start = end


def _end(data: bytes, start: int) -> int:
    import zlib

    limit = min(start + LARGEST_PIECE, len(data))
    line = data.find(b"\n", start + _SMALLEST, limit) + 1
    while line and (at := data.find(b"\n", line, limit) + 1):
        if zlib.crc32(data[at - _WINDOW : at]) < (at - line) * _LOW:
            return at
        line = at
    return limit
