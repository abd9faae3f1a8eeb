"""Which pieces of new code are in the work dir already, and which are to be sent. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .code_contents import Contents, difference
from .code_packs import Spot, used_bytes
from .code_pieces import Cuts, Piece, all_pieces
from .manifest import Manifest

INSIDE = 1 << 18
"""Code up to this size is kept in the bundle itself, and so is a change up to a quarter of it."""
POOR = 1 << 20
MOST_POOR = 32
"""Packs of which little is needed; each costs a node a request. If there are more, they become new ones."""
WASTE = 1 << 25
"""Bytes of packs that nobody needs; to keep fewer is not worth sending anything again."""
LIGHT = 256
"""A bundle of so few digests is written whole, so that a node need not read a second one."""


@dataclass(frozen=True)
class UploadPlan:
    """A bundle in the making."""

    contents: Contents
    """With the spots of those pieces that are there already."""
    new: tuple[Piece, ...]

    @property
    def inside(self) -> bool:
        """Whether what is new is kept in the bundle itself."""
        return self.bytes <= (INSIDE // 4 if self.contents.spots else INSIDE)

    @property
    def bytes(self) -> int:
        return sum(piece.size for piece in self.new)


def is_small(manifest: Manifest) -> bool:
    """Small code is kept in its bundle, so that nobody looks for what there was before."""
    return manifest.bytes <= INSIDE


def planned(manifest: Manifest, cuts: Cuts, former: Contents | None, there: Mapping[str, int]) -> UploadPlan:
    """Reuses what a former bundle has, if all of its packs are there."""
    if former and any(there.get(pack) != size for pack, size in former.packs.items()):
        former = None
    pieces = all_pieces(manifest, cuts)
    spots = _reused(pieces, former)
    poor = _poor(used_bytes(spots, spots), former.packs) if former else set()
    spots = {digest: spot for digest, spot in spots.items() if spot.pack not in poor}
    base = former.root if former and not poor and _is_worth_it(manifest, cuts, former.root) else None
    if base:
        spots |= {digest: base.spots[digest] for digest in pieces if digest in base.spots}
    packs = {spot.pack: former.packs[spot.pack] for spot in spots.values() if former and spot.pack in former.packs}
    contents = Contents(manifest, cuts, spots, packs, base=base)
    return UploadPlan(contents, tuple(Piece(*item) for item in pieces.items() if item[0] not in spots))


def _reused(pieces: Mapping[bytes, int], former: Contents | None) -> dict[bytes, Spot]:
    known: Mapping[bytes, Spot] = former.spots if former else {}
    return {
        digest: known[digest] for digest in pieces if digest in known and former and known[digest].pack in former.packs
    }


def _poor(used: Mapping[str, int], sizes: Mapping[str, int]) -> set[str]:
    """The packs that are not worth their request, if those that are used are scattered."""
    poor = {pack for pack, count in used.items() if count < POOR or 4 * count < sizes[pack]}
    needed, kept = sum(used.values()), sum(sizes[pack] for pack in used)
    scattered = len(poor) > MOST_POOR or (4 * needed < kept and kept - needed > WASTE)
    return poor if scattered else set()


def _is_worth_it(manifest: Manifest, cuts: Cuts, base: Contents) -> bool:
    whole = difference(manifest, cuts, None).weight
    return whole > LIGHT and 4 * difference(manifest, cuts, base).weight <= whole
