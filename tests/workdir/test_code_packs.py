"""Pieces in packs: named before they are read, found by their index, never more than they say."""

from __future__ import annotations

import hashlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.workdir.code_packs import (
    LARGEST_PACK,
    Pack,
    Spot,
    grouped,
    index_size,
    plain_form,
    spots_in,
    stored_form,
    written,
)
from muster.workdir.code_pieces import LARGEST_PIECE, Piece

from .code_desk import lines, noise

pytestmark = pytest.mark.unit


def piece(content: bytes) -> Piece:
    return Piece(hashlib.sha256(content).digest(), len(content))


def some(count: int, size: int, seed: int = 0) -> list[Piece]:
    return [Piece(noise(32, seed * 1_000_000 + number), size) for number in range(count)]


@pytest.mark.parametrize("size", [1, 1000, 50_000, LARGEST_PIECE])
def test_packs_have_bounds_and_all_pieces_in_order(size: int) -> None:
    pieces = some(min(40_000, 100_000_000 // size), size)
    packs = grouped(pieces)
    assert [one for pack in packs for one in pack.pieces] == pieces
    assert all(LARGEST_PACK // 2 <= pack.size <= LARGEST_PACK for pack in packs[:-1])
    assert grouped(pieces) == packs
    assert grouped([]) == []


def test_a_new_piece_leaves_most_packs_as_they_were() -> None:
    pieces = some(6000, 50_000)
    before = {pack.name for pack in grouped(pieces)}
    after = {pack.name for pack in grouped([*pieces[:100], *some(1, 50_000, seed=1), *pieces[100:]])}
    assert len(before) > 20
    assert len(after - before) <= 3


@given(st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=5, unique=True))
def test_a_pack_tells_where_its_pieces_are(contents: list[bytes]) -> None:
    (pack,) = grouped([piece(content) for content in contents])
    data = written([stored_form(content) for content in contents])
    found = spots_in(pack, data[: index_size(pack)], len(data))
    assert found is not None
    for content in contents:
        spot = found[piece(content).digest]
        assert spot.pack == pack.name
        assert plain_form(data[spot.offset : spot.offset + spot.stored], piece(content)) == content


def test_a_pack_that_is_cut_short_or_another_is_known_as_such() -> None:
    pack = Pack("name", (piece(b"1"), piece(b"22")))
    data = written([b"1", b"22"])
    assert spots_in(pack, data, len(data)) == {
        piece(b"1").digest: Spot("name", 12, 1),
        piece(b"22").digest: Spot("name", 13, 2),
    }
    for index, size in [
        (data, len(data) - 1),
        (data[:11], len(data)),
        (b"", 0),
        (written([b"1", b"2", b"3"]), 19),
        (written([b"", b"22"]), 14),
        (written([b"11", b"2"]), len(data)),
    ]:
        assert spots_in(pack, index, size) is None


@pytest.mark.parametrize("content", [b"x", bytes(50_000), lines(2000), noise(50_000), noise(4096) + bytes(60_000)])
def test_a_piece_comes_back_and_is_never_larger(content: bytes) -> None:
    stored = stored_form(content)
    assert len(stored) <= len(content)
    assert plain_form(stored, piece(content)) == content


def test_what_can_be_made_smaller_is() -> None:
    assert len(stored_form(lines(2000))) < len(lines(2000)) // 2


def test_a_piece_that_unpacks_to_more_or_less_than_it_says_is_refused() -> None:
    content = bytes(1000)
    for stored in (
        zlib.compress(bytes(100_000_000)),
        zlib.compress(bytes(1001)),
        zlib.compress(bytes(999)),
        zlib.compress(content)[:-1],
        zlib.compress(b"x" * 1000),
        b"x" * 1000,
        b"",
    ):
        with pytest.raises((ValueError, zlib.error)):
            plain_form(stored, piece(content))
