"""Brings code into a work dir: what is not there yet, packs first, the bundle last."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ..errors import AlreadyExists, CodeError
from .code_contents import Contents
from .code_format import encode
from .code_packs import PACKS, Pack, Spot, grouped, index_size, pack_key, spots, spots_in, stored_form, written
from .code_pieces import ONE_PIECE, Cuts, Piece, cut, pieces_of, place_of
from .code_plan import UploadPlan, is_small, planned
from .code_reading import code_key, latest, latest_key
from .manifest import FileEntry, Manifest
from .parallel import at_once
from .progress import Progress
from .scan import changed
from .store import Store

_PACKS_AT_ONCE = 8
"""Each is in memory while it is on its way, and over a slow line more of them only take longer each."""

_ATTEMPTS = 3

_Sent = tuple[Pack, int, dict[bytes, Spot]]
"""A pack that is there: its size, and where its pieces are in it."""


def upload(store: Store, folder: Path, manifest: Manifest, job: str, progress: Progress) -> None:
    """Puts the bundle of a scanned folder into the work dir. A file that has changed since is an error."""
    for _ in range(_ATTEMPTS):
        used = _upload(store, folder, manifest, job, progress)
        if not used or used <= set(packs_there(store)):
            return
        # Somebody took away what no run needed, before our bundle said that it is needed.
        store.delete(code_key(manifest.digest))
    raise CodeError(f"code is taken away from {store.url} while it is brought there", "Stop what prunes it.")


def _upload(store: Store, folder: Path, manifest: Manifest, job: str, progress: Progress) -> set[str]:
    """The packs that were there before and are used again."""
    former = latest(store, job) if job and not is_small(manifest) else None
    cuts = _cuts(folder, manifest, former.cuts if former else {})
    there = packs_there(store) if former else None
    plan = planned(manifest, cuts, former, there or {})
    if there is None and not plan.inside and len(grouped(plan.new)) > 1:
        there = packs_there(store) or None
    pieces = _Pieces(folder, manifest, cuts)
    if plan.inside:
        contents, tail = _with_tail(plan, pieces)
    else:
        if former:
            # Whoever takes away what no run needs leaves alone what a young pointer leads to.
            store.put(latest_key(job), former.manifest.digest.encode())
        contents, tail = _with_packs(store, plan, there, pieces, progress), b""
    own = {pack.name for pack in grouped(plan.new)} if there is None else set()
    with suppress(AlreadyExists):  # another launcher brought the same code in the meantime
        store.create(code_key(manifest.digest), encode(contents, tail))
    return set(contents.packs) - own


def point_to(store: Store, manifest: Manifest, job: str) -> None:
    """Says that a job of this name used this code last."""
    if job and not is_small(manifest):
        store.put(latest_key(job), manifest.digest.encode())


def _cuts(folder: Path, manifest: Manifest, known: Cuts) -> Cuts:
    large = {entry.sha256: entry for entry in manifest.files if entry.size > ONE_PIECE}
    new = [entry for sha256, entry in large.items() if sha256 not in known]

    def cut_one(entry: FileEntry) -> tuple[str, tuple[Piece, ...]]:
        return entry.sha256, cut(place_of(folder, entry), entry)

    found = dict(at_once(os.cpu_count() or 1, cut_one, new))
    return {sha256: found.get(sha256) or known[sha256] for sha256 in large}


def _with_tail(plan: UploadPlan, pieces: _Pieces) -> tuple[Contents, bytes]:
    stored = [stored_form(pieces.read(piece)) for piece in plan.new]
    found = spots("", plan.new, map(len, stored))
    return replace(plan.contents, spots={**plan.contents.spots, **found}), b"".join(stored)


def _with_packs(
    store: Store, plan: UploadPlan, there: Mapping[str, int] | None, pieces: _Pieces, progress: Progress
) -> Contents:
    packs = grouped(plan.new)
    sending = _Sending(store, there or {}, pieces)
    found, sizes = dict(plan.contents.spots), dict(plan.contents.packs)
    done, total = 0, plan.bytes
    progress(done, total)
    for pack, size, places in at_once(min(store.capabilities.parallel, _PACKS_AT_ONCE), sending.send, packs):
        found.update(places)
        sizes[pack.name] = size
        done += pack.size
        progress(done, total)
    return replace(plan.contents, spots=found, packs=sizes)


def packs_there(store: Store) -> dict[str, int]:
    """The packs of a work dir, with their sizes."""
    return {entry.key.removeprefix(PACKS): entry.size for entry in store.list(PACKS)}


class _Sending:
    """Sends packs that are not there yet, several at once. No more of them are in memory than are on their way."""

    def __init__(self, store: Store, there: Mapping[str, int], pieces: _Pieces) -> None:
        self._store, self._there, self._pieces = store, there, pieces

    def send(self, pack: Pack) -> _Sent:
        key, size = pack_key(pack.name), self._there.get(pack.name, 0)
        if size and (found := self._found(pack, size)):
            return found
        data = written([stored_form(self._pieces.read(piece)) for piece in pack.pieces])
        try:
            if size:
                self._store.put(key, data)  # what is there was cut short
            else:
                self._store.create(key, data)
        except AlreadyExists:
            # Another launcher brings the same, perhaps compressed by another zlib.
            size = sum(entry.size for entry in self._store.list(key))
            if found := self._found(pack, size):
                return found
            raise
        return pack, len(data), spots_in(pack, data, len(data)) or {}

    def _found(self, pack: Pack, size: int) -> _Sent | None:
        index = self._store.get_range(pack_key(pack.name), 0, index_size(pack))
        places = spots_in(pack, index, size)
        return (pack, size, places) if places else None


class _Pieces:
    """The pieces of a scanned folder, read when they are needed."""

    def __init__(self, folder: Path, manifest: Manifest, cuts: Cuts) -> None:
        self._folder = folder
        self._where: dict[bytes, tuple[FileEntry, int]] = {}
        for entry in manifest.files:
            offset = 0
            for piece in pieces_of(entry, cuts):
                self._where.setdefault(piece.digest, (entry, offset))
                offset += piece.size

    def read(self, piece: Piece) -> bytes:
        """The bytes of a piece, which must be those that were scanned."""
        import hashlib

        entry, offset = self._where[piece.digest]
        place = place_of(self._folder, entry)
        is_last = offset + piece.size == entry.size
        try:
            with place.open("rb") as file:
                file.seek(offset)
                content = file.read(piece.size + is_last)
        except OSError as error:
            raise CodeError(f"cannot read {place}: {error.strerror}") from error
        if hashlib.sha256(content).digest() != piece.digest:
            raise changed(place)
        return content
