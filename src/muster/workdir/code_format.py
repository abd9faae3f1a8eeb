"""How a bundle is written: a head of JSON that compresses well, then digests as they are, then pieces.

The head has columns instead of rows. Digests do not compress, so they stand apart, in the order in which the head
needs them: those of the files, of the pieces of cut files, and the names of the packs.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .code_contents import Contents, Difference, difference, former_pieces
from .code_packs import Spot
from .code_pieces import Cuts, Piece, pieces_of
from .manifest import FileEntry, Manifest

MAGIC = b"muster code 1\n"
_LENGTHS = struct.Struct("<II")
_DIGEST = 32
_LARGEST_HEAD = 1 << 27

BaseOf = Callable[[str], Contents]


def encode(contents: Contents, tail: bytes = b"") -> bytes:
    """The object of a bundle. `tail` has the pieces whose spot names no pack."""
    import zlib

    base = contents.base
    found = difference(contents.manifest, contents.cuts, base)
    placed = [contents.spots[digest] for digest in _to_place(found.listed, contents.cuts, base)]
    packs = list(dict.fromkeys(spot.pack for spot in placed if spot.pack in contents.packs))
    head = {
        "base": base.manifest.digest if base else "",
        "removed": found.removed,
        "files": _columns(found.listed),
        "cuts": [[cut.number, cut.same_before, cut.same_behind, *_sizes(cut.between)] for cut in found.cuts],
        "packs": [contents.packs[pack] for pack in packs],
        "placed": _places(placed, {pack: number for number, pack in enumerate(packs)}),
    }
    packed = zlib.compress(json.dumps(head, separators=(",", ":")).encode("ascii"))
    digests = b"".join(_digests(found, packs))
    return b"".join((MAGIC, _LENGTHS.pack(len(packed), len(digests)), packed, digests, tail))


def decode(data: bytes, digest: str, base_of: BaseOf) -> Contents:
    """Reads a bundle of a digest; `ValueError` and its like if it is not what the digest stands for."""
    head, digests, tail = _parts(data)
    base = base_of(head["base"]) if head["base"] else None
    listed = list(_listed(head["files"], digests))
    manifest = _manifest(listed, head["removed"], base)
    if manifest.digest != digest:
        raise ValueError("its manifest does not have this digest")
    manifest.check()
    cuts = {**(base.cuts if base else {}), **_cuts(head["cuts"], listed, digests, base)}
    packs = {_next(digests).hex(): int(size) for size in head["packs"]}
    new = _to_place(listed, cuts, base)
    spots = dict(zip(new, _spots(head["placed"], list(packs), digest), strict=True))
    contents = Contents(
        manifest,
        cuts,
        {**(base.spots if base else {}), **spots},
        {**(base.packs if base else {}), **packs},
        {**(base.tails if base else {}), digest: tail},
        base,
    )
    contents.check()
    return contents


def _to_place(listed: list[FileEntry], cuts: Cuts, base: Contents | None) -> list[bytes]:
    """The pieces of these files that the base does not place, each once."""
    known: Mapping[bytes, Spot] = base.spots if base else {}
    pieces = (piece.digest for entry in listed for piece in pieces_of(entry, cuts))
    return [digest for digest in dict.fromkeys(pieces) if digest not in known]


# --- writing --------------------------------------------------------------------------------------------------


def _columns(listed: list[FileEntry]) -> dict[str, Any]:
    return {
        "path": [entry.path for entry in listed],
        "size": [entry.size for entry in listed],
        "executable": [number for number, entry in enumerate(listed) if entry.executable],
        "link": {number: entry.link for number, entry in enumerate(listed) if entry.link is not None},
    }


def _sizes(pieces: tuple[Piece, ...]) -> list[int]:
    return [piece.size for piece in pieces]


def _places(placed: list[Spot], packs: Mapping[str, int]) -> dict[str, list[int]]:
    """Where pieces are: mostly right behind the one before, so that what is skipped is mostly nothing."""
    columns: dict[str, list[int]] = {"pack": [], "skip": [], "stored": []}
    ends: dict[int, int] = {}
    for spot in placed:
        pack = packs.get(spot.pack, -1)
        columns["pack"].append(pack)
        columns["skip"].append(spot.offset - ends.get(pack, 0))
        columns["stored"].append(spot.stored)
        ends[pack] = spot.offset + spot.stored
    return columns


def _digests(found: Difference, packs: list[str]) -> Iterator[bytes]:
    yield from (bytes.fromhex(entry.sha256) for entry in found.listed if entry.link is None)
    yield from (piece.digest for cut in found.cuts for piece in cut.between)
    yield from map(bytes.fromhex, packs)


# --- reading --------------------------------------------------------------------------------------------------


def _parts(data: bytes) -> tuple[dict[str, Any], Iterator[bytes], bytes]:
    import zlib

    if not data.startswith(MAGIC):
        raise ValueError("it is no bundle, or one of another Muster")
    packed, digests = _LENGTHS.unpack_from(data, len(MAGIC))
    start = len(MAGIC) + _LENGTHS.size
    middle, end = start + packed, start + packed + digests
    if end > len(data) or digests % _DIGEST:
        raise ValueError("it ends too early")
    unpacking = zlib.decompressobj()
    head = unpacking.decompress(data[start:middle], _LARGEST_HEAD)
    if not unpacking.eof:
        raise ValueError("its head is not whole")
    found = (data[at : at + _DIGEST] for at in range(middle, end, _DIGEST))
    return json.loads(head), found, data[end:]


def _next(digests: Iterator[bytes]) -> bytes:
    try:
        return next(digests)
    except StopIteration:
        raise ValueError("it lacks a digest") from None


def _listed(columns: Mapping[str, Any], digests: Iterator[bytes]) -> Iterator[FileEntry]:
    executable, links = set(columns["executable"]), columns["link"]
    for number, (path, size) in enumerate(zip(columns["path"], columns["size"], strict=True)):
        if (link := links.get(str(number))) is not None:
            yield FileEntry(path, link=link)
        else:
            yield FileEntry(path, size, _next(digests).hex(), number in executable)


def _manifest(listed: list[FileEntry], removed: list[str], base: Contents | None) -> Manifest:
    if base is None:
        return Manifest(tuple(listed))
    gone = set(removed)
    files = {path: entry for path, entry in base.files.items() if path not in gone}
    files.update((entry.path, entry) for entry in listed)
    return Manifest(tuple(sorted(files.values(), key=lambda entry: entry.path)))


def _cuts(
    rows: list[list[int]], listed: list[FileEntry], digests: Iterator[bytes], base: Contents | None
) -> dict[str, tuple[Piece, ...]]:
    cuts = {}
    for number, before, behind, *sizes in rows:
        entry = listed[number]
        former = former_pieces(entry, base)
        between = [Piece(_next(digests), int(size)) for size in sizes]
        cuts[entry.sha256] = (*former[:before], *between, *former[len(former) - behind :])
    return cuts


def _spots(columns: Mapping[str, list[int]], packs: list[str], digest: str) -> Iterator[Spot]:
    ends: dict[int, int] = {}
    for pack, skip, stored in zip(columns["pack"], columns["skip"], columns["stored"], strict=True):
        offset = ends.get(pack, 0) + int(skip)
        yield Spot(digest if pack == -1 else packs[pack], offset, int(stored))
        ends[pack] = offset + stored
