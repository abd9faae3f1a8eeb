"""What a bundle holds, as a value: its files, the pieces they are made of, and where each piece is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from .code_packs import LARGEST_PACK, Spot
from .code_pieces import LARGEST_PIECE, Cuts, Piece, all_pieces, pieces_of
from .manifest import FileEntry, Manifest


@dataclass(frozen=True)
class Contents:
    """A bundle, read whole. One that was written as a difference has a `base`, which never has one itself."""

    manifest: Manifest
    cuts: Cuts
    spots: Mapping[bytes, Spot]
    packs: Mapping[str, int]
    """The size of each pack."""
    tails: Mapping[str, bytes] = field(default_factory=dict)
    """Pieces that are kept in a bundle itself, by its digest."""
    base: Contents | None = None

    @cached_property
    def pieces(self) -> dict[bytes, int]:
        return all_pieces(self.manifest, self.cuts)

    @cached_property
    def files(self) -> dict[str, FileEntry]:
        return {entry.path: entry for entry in self.manifest.files}

    @property
    def root(self) -> Contents:
        """The bundle that another can be written as a difference to."""
        return self.base or self

    def check(self) -> None:
        """`ValueError` if its files cannot be made of its pieces. The digest vouches for the files alone."""
        for entry in self.manifest.files:
            self._check_file(entry)
        for pack, size in self.packs.items():
            if not 0 < size <= 2 * LARGEST_PACK:
                raise ValueError(f"a pack of {size} bytes: {pack[:12]}")
        for digest, size in self.pieces.items():
            self._check_piece(digest, size)

    def _check_file(self, entry: FileEntry) -> None:
        try:
            pieces = pieces_of(entry, self.cuts)
        except (KeyError, ValueError):
            raise ValueError(f"it lacks the pieces of {entry.path!r}") from None
        wrong = any(not 0 < piece.size <= LARGEST_PIECE for piece in pieces)
        if wrong or (entry.link is None and sum(piece.size for piece in pieces) != entry.size):
            raise ValueError(f"{entry.path!r} is not what its manifest says")

    def _check_piece(self, digest: bytes, size: int) -> None:
        spot = self.spots.get(digest)
        if spot is None:
            raise ValueError("it lacks a piece")
        limit = self.packs[spot.pack] if spot.pack in self.packs else len(self.tails.get(spot.pack, b""))
        if not 0 < spot.stored <= size or spot.offset < 0 or spot.offset + spot.stored > limit:
            raise ValueError("a piece stands where nothing is")


class Cut(NamedTuple):
    """How a file was cut: as the base's file of that name at its start and its end, and anew between."""

    number: int
    same_before: int
    same_behind: int
    between: tuple[Piece, ...]


@dataclass(frozen=True)
class Difference:
    """What is to be written of a bundle beside its base; all of it if there is none."""

    listed: list[FileEntry]
    removed: list[str]
    cuts: list[Cut]

    @property
    def weight(self) -> int:
        """How many digests it takes to write it, which is most of it."""
        return len(self.listed) + len(self.removed) + sum(len(cut.between) for cut in self.cuts)


def difference(manifest: Manifest, cuts: Cuts, base: Contents | None) -> Difference:
    """What a manifest has that its base has not."""
    known = base.files if base else {}
    listed = [entry for entry in manifest.files if known.get(entry.path) != entry]
    names = {entry.path for entry in manifest.files}
    removed = [path for path in known if path not in names]
    done = set(base.cuts) if base else set()
    found = []
    for number, entry in enumerate(listed):
        if entry.sha256 in cuts and entry.sha256 not in done:
            done.add(entry.sha256)
            found.append(_cut(number, cuts[entry.sha256], former_pieces(entry, base)))
    return Difference(listed, removed, found)


def former_pieces(entry: FileEntry, base: Contents | None) -> tuple[Piece, ...]:
    """The pieces of the base's file of the same name."""
    former = base.files.get(entry.path) if base else None
    return base.cuts.get(former.sha256, ()) if base and former else ()


def _cut(number: int, pieces: tuple[Piece, ...], former: tuple[Piece, ...]) -> Cut:
    most = min(len(pieces), len(former))
    before = next((at for at in range(most) if pieces[at] != former[at]), most)
    most -= before
    behind = next((at for at in range(most) if pieces[-1 - at] != former[-1 - at]), most)
    return Cut(number, before, behind, pieces[before : len(pieces) - behind])
