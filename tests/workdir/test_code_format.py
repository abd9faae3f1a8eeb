"""A bundle is written small, and a difference smaller."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from muster.workdir.code_contents import Contents, difference
from muster.workdir.code_format import decode, encode
from muster.workdir.code_packs import Spot
from muster.workdir.code_pieces import all_pieces
from muster.workdir.manifest import FileEntry, Manifest

from .code_desk import entry, inside, noise, pieces

pytestmark = pytest.mark.unit

FIRST, SECOND = "ab" * 32, "cd" * 32


def packed(files: dict[str, bytes], base: Contents | None = None) -> Contents:
    """A bundle of these files whose pieces are all in one pack, one behind the other."""
    entries = [entry(path, content) for path, content in sorted(files.items())]
    cuts = {one.sha256: pieces(files[one.path]) for one in entries if one.size > 1 << 16}
    pack, manifest, at, spots = SECOND if base else FIRST, Manifest(tuple(entries)), 0, {}
    for digest, size in all_pieces(manifest, cuts).items():
        spots[digest] = Spot(pack, at, size)
        at += size
    if base is None:
        return Contents(manifest, cuts, spots, {pack: at})
    return Contents(manifest, cuts, {**spots, **base.spots}, {**base.packs, pack: at}, base=base)


def read(data: bytes, digest: str, base: Contents | None = None) -> Contents:
    def base_of(wanted: str) -> Contents:
        assert base
        assert wanted == base.manifest.digest
        return base

    return decode(data, digest, base_of)


def test_all_of_a_bundle_is_read_back() -> None:
    contents, tail = inside({"a": b"1", "b/c": b"", "b/d": b"1"}, {"b/link": "c", os.fsdecode(b"caf\xe9"): "a"})
    files = [replace(one, executable=one.path == "a") for one in contents.manifest.files]
    contents = replace(contents, manifest=Manifest(tuple(files)))
    digest = contents.manifest.digest
    found = read(encode(contents, tail), digest)
    assert found.manifest == contents.manifest
    assert found.spots == {one: spot._replace(pack=digest) for one, spot in contents.spots.items()}
    assert found.tails == {digest: tail}
    assert found.root is found


@pytest.mark.parametrize(
    "change",
    [
        lambda large: large,
        lambda large: large[:500_000] + b"one line\n" + large[500_000:],
        lambda large: b"one line\n" + large,
        lambda large: large + b"one line\n",
        lambda large: large[:700_000],
        lambda large: large + large[:300_000],
        lambda large: b"",
        lambda large: large[:100],
    ],
)
def test_a_large_file_is_told_by_what_changed_in_it(change: Callable[[bytes], bytes]) -> None:
    before = noise(1_000_000)
    base = packed({"large": before, "small": b"1"})
    base = read(encode(base), base.manifest.digest)
    after = packed({"large": change(before), "small": b"1"}, base)
    data = encode(after)
    found = read(data, after.manifest.digest, base)
    assert found.manifest == after.manifest
    assert found.pieces == after.pieces
    assert {digest: found.spots[digest] for digest in after.pieces} == {
        digest: after.spots[digest] for digest in after.pieces
    }
    assert len(data) < 1_000


def test_a_digest_costs_its_bytes_and_not_twice_as_many() -> None:
    contents = packed({f"folder/module_{number:05}.py": noise(50, number) for number in range(5_000)})
    data = encode(contents)
    assert len(data) < 5_000 * 48
    assert len(contents.manifest.canonical()) > 5_000 * 120
    assert read(data, contents.manifest.digest).manifest == contents.manifest


def test_a_base_that_lost_files_is_told_by_their_names() -> None:
    base = packed({f"{number}": b"%d" % number for number in range(100)})
    after = packed({f"{number}": b"%d" % number for number in range(90)}, base)
    found = difference(after.manifest, after.cuts, base)
    assert (found.listed, len(found.removed), found.cuts) == ([], 10, [])
    assert read(encode(after), after.manifest.digest, base).manifest == after.manifest


def test_another_base_is_noticed() -> None:
    base = packed({"a": b"1", "b": b"2"})
    after = packed({"a": b"1", "b": b"3"}, base)
    other = packed({"a": b"2", "b": b"2"})
    with pytest.raises(ValueError, match="does not have this digest"):
        decode(encode(after), after.manifest.digest, lambda _digest: other)


def test_a_manifest_stays_what_it_was() -> None:
    """Digests that travel in the environment of nodes must not change with the way bundles are written."""
    manifest = Manifest((entry("a", b"1", executable=True), FileEntry("l", link="a")))
    assert json.loads(manifest.canonical())["files"][1] == {"link": "a", "path": "l"}
    assert manifest.digest == "058fa924554543bade758bd02ae195571eabaeaf493168386c16e927250e3ef5"
