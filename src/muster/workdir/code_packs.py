"""Packs: many pieces in one object, because each object costs a request.

A pack begins with the stored length of each of its pieces, and they follow. Its name comes from the digests of the
pieces, so that it is known before any of them is read, and a pack that is there already need not be made to know
what is where in it. It is written once and never changed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from .code_pieces import LARGEST_PIECE, Piece

PACKS = "code/packs/"
LARGEST_PACK = 1 << 24
_SMALLEST_PACK = LARGEST_PACK // 2
_PROBE = 1 << 12
_NUMBER = struct.Struct("<I")


class Spot(NamedTuple):
    """Where a piece is kept: in which pack, or in the bundle of which digest, at which offset, how long."""

    pack: str
    offset: int
    stored: int


class Pack(NamedTuple):
    """Pieces that are kept together."""

    name: str
    pieces: tuple[Piece, ...]

    @property
    def size(self) -> int:
        """Of its pieces, before they are compressed."""
        return sum(piece.size for piece in self.pieces)


def pack_key(name: str) -> str:
    return PACKS + name


def grouped(pieces: Iterable[Piece]) -> list[Pack]:
    """Pieces in packs. Where one ends is told by its last piece, so that few differ when a piece is new."""
    packs: list[Pack] = []
    held: list[Piece] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += piece.size
        likely = piece.size / (_SMALLEST_PACK // 2)
        fits = int.from_bytes(piece.digest[:4], "big") / (1 << 32) < likely
        if (size >= _SMALLEST_PACK and fits) or size + LARGEST_PIECE > LARGEST_PACK:
            packs.append(_named(held))
            held, size = [], 0
    return [*packs, _named(held)] if held else packs


def _named(pieces: Sequence[Piece]) -> Pack:
    import hashlib

    return Pack(hashlib.sha256(b"".join(piece.digest for piece in pieces)).hexdigest(), tuple(pieces))


def index_size(pack: Pack) -> int:
    """How many bytes stand before the first piece."""
    return _NUMBER.size * (len(pack.pieces) + 1)


def written(stored: Sequence[bytes]) -> bytes:
    """The content of a pack, from what is stored of each piece."""
    numbers = (len(stored), *map(len, stored))
    return b"".join((struct.pack(f"<{len(numbers)}I", *numbers), *stored))


def spots_in(pack: Pack, index: bytes, size: int) -> dict[bytes, Spot] | None:
    """Where each piece is, from the first bytes of a pack; None if this is not that pack, or not all of it."""
    if len(index) < index_size(pack):
        return None
    count, *lengths = struct.unpack_from(f"<{len(pack.pieces) + 1}I", index)
    fits = all(0 < stored <= piece.size for stored, piece in zip(lengths, pack.pieces, strict=True))
    if count != len(pack.pieces) or not fits or index_size(pack) + sum(lengths) != size:
        return None
    return spots(pack.name, pack.pieces, lengths, index_size(pack))


def spots(name: str, pieces: Iterable[Piece], lengths: Iterable[int], offset: int = 0) -> dict[bytes, Spot]:
    """Pieces one behind the other."""
    found = {}
    for piece, stored in zip(pieces, lengths, strict=True):
        found[piece.digest] = Spot(name, offset, stored)
        offset += stored
    return found


def stored_form(content: bytes) -> bytes:
    """A piece compressed, or as it is where that does not make it smaller."""
    import zlib

    # What is compressed already, or random, is found out by its first bytes: to try it all costs much time.
    if len(content) > 4 * _PROBE and len(zlib.compress(content[:_PROBE], 1)) > 0.95 * _PROBE:
        return content
    packed = zlib.compress(content, 1)
    return packed if len(packed) < len(content) else content


def plain_form(stored: bytes, piece: Piece) -> bytes:
    """What `stored_form` was given, else `ValueError`. Never makes more bytes than the piece has."""
    import hashlib
    import zlib

    if len(stored) == piece.size:
        content = stored
    else:
        unpacking = zlib.decompressobj()
        content = unpacking.decompress(stored, piece.size)
        if unpacking.decompress(unpacking.unconsumed_tail, 1) or not unpacking.eof:
            raise ValueError("a piece is not as long as it should be")
    if len(content) != piece.size or hashlib.sha256(content).digest() != piece.digest:
        raise ValueError("a piece does not have its digest")
    return content


def used_bytes(needed: Iterable[bytes], places: Mapping[bytes, Spot]) -> dict[str, int]:
    """How many bytes of each pack are needed."""
    used: dict[str, int] = {}
    for digest in needed:
        spot = places[digest]
        used[spot.pack] = used.get(spot.pack, 0) + spot.stored
    return used
