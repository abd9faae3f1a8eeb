"""Bundles at a test's hands: small limits, stores that count bytes, and bundles made without a folder."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from muster.workdir.code_contents import Contents
from muster.workdir.code_format import encode
from muster.workdir.code_packs import Spot, stored_form
from muster.workdir.code_pieces import Cuts, Piece, all_pieces, cut_stream
from muster.workdir.code_reading import code_key
from muster.workdir.counting import CountingStore
from muster.workdir.manifest import FileEntry, Manifest
from muster.workdir.store import Store


class Sent(CountingStore):
    """Counts the bytes that are sent, and remembers the keys."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.bytes = 0
        self.keys: list[str] = []

    def create(self, key: str, data: bytes) -> None:
        super().create(key, data)
        self._note(key, data)

    def put(self, key: str, data: bytes) -> None:
        super().put(key, data)
        self._note(key, data)

    def reset(self) -> None:
        super().reset()
        self.bytes, self.keys = 0, []

    @property
    def packs(self) -> list[str]:
        return [key for key in self.keys if key.startswith("code/packs/")]

    def _note(self, key: str, data: bytes) -> None:
        self.bytes += len(data)
        self.keys.append(key)


@contextmanager
def small_limits(inside: int = 1 << 12, light: int = 4, pack: int = 1 << 18) -> Iterator[None]:
    """So that a few kilobytes go the ways of many megabytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("muster.workdir.code_plan.INSIDE", inside)
        patch.setattr("muster.workdir.code_plan.LIGHT", light)
        patch.setattr("muster.workdir.code_packs.LARGEST_PACK", (1 << 20) + pack)
        patch.setattr("muster.workdir.code_packs._SMALLEST_PACK", pack // 2)
        yield


def noise(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def lines(count: int, seed: int = 0) -> bytes:
    numbers = random.Random(seed)
    return b"".join(b"line %d of a file of code\n" % numbers.randrange(1 << 40) for _ in range(count))


def fill(folder: Path, files: dict[str, bytes]) -> Path:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def entry(path: str, content: bytes, executable: bool = False) -> FileEntry:
    return FileEntry(path, len(content), hashlib.sha256(content).hexdigest(), executable)


def pieces(content: bytes) -> tuple[Piece, ...]:
    rest = iter([content])
    return tuple(Piece(hashlib.sha256(part).digest(), len(part)) for part in cut_stream(lambda: next(rest, b"")))


def inside(files: dict[str, bytes], links: dict[str, str] | None = None) -> tuple[Contents, bytes]:
    """A bundle of these files that has all of its pieces in itself, and those pieces."""
    found = [entry(path, content) for path, content in files.items()]
    found += [FileEntry(path, link=target) for path, target in (links or {}).items()]
    cuts: Cuts = {one.sha256: pieces(files[one.path]) for one in found if one.size > 1 << 16}
    manifest = Manifest(tuple(sorted(found, key=lambda one: one.path)))
    contents = {hashlib.sha256(content).digest(): content for content in files.values()}
    spots, tail = {}, b""
    for digest in all_pieces(manifest, cuts):
        stored = stored_form(contents[digest])
        spots[digest] = Spot("", len(tail), len(stored))
        tail += stored
    return Contents(manifest, cuts, spots, {}), tail


def put(store: Store, contents: Contents, tail: bytes = b"") -> str:
    """Puts a bundle as it is, however wrong. The digest that it goes by."""
    digest = contents.manifest.digest
    store.put(code_key(digest), encode(contents, tail))
    return digest
