"""How a file is cut, so that a change moves few cuts."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.errors import CodeError
from muster.workdir.code_pieces import LARGEST_PIECE, ONE_PIECE, Piece, cut, cut_stream, pieces_of

from .code_desk import entry, lines, noise

pytestmark = pytest.mark.unit

CONTENTS = {
    "noise": noise(1_500_000),
    "text": lines(35_000),
    "nothing but zeros": bytes(1_500_000),
    "one line again and again": b"the same line\n" * 100_000,
}


def parts(content: bytes, at_a_time: int = 1 << 30) -> list[bytes]:
    chunks = iter([content[start : start + at_a_time] for start in range(0, len(content), at_a_time)])
    return list(cut_stream(lambda: next(chunks, b"")))


@pytest.mark.parametrize("kind", CONTENTS)
@pytest.mark.parametrize("at_a_time", [1 << 30, 1 << 20, 70_001])
def test_the_parts_are_the_whole_and_do_not_depend_on_reading(kind: str, at_a_time: int) -> None:
    content = CONTENTS[kind]
    found = parts(content, at_a_time)
    assert b"".join(found) == content
    assert found == parts(content)
    assert all(len(part) <= LARGEST_PIECE for part in found)
    assert len(found) < 120


@pytest.mark.parametrize("kind", ["noise", "text"])
@pytest.mark.parametrize(("more", "less"), [(b"", 1), (b"x", 0), (b"x", 1), (b"one line\n", 0), (b"a\nb\nc\n" * 20, 9)])
def test_a_change_costs_a_piece_or_two_wherever_it_is(kind: str, more: bytes, less: int) -> None:
    content = CONTENTS[kind]
    before = set(parts(content))
    costs = []
    for place in range(0, len(content), len(content) // 5):
        after = set(parts(content[:place] + more + content[place + less :]))
        costs.append(sum(map(len, after - before)))
    assert max(costs) < 300_000
    assert sum(costs) / len(costs) < 120_000


def test_a_file_is_cut_as_its_content_and_must_be_what_was_scanned(tmp_path: Path) -> None:
    content = CONTENTS["noise"]
    (tmp_path / "f").write_bytes(content)
    found = cut(tmp_path / "f", entry("f", content))
    assert [piece.size for piece in found] == [len(part) for part in parts(content)]
    for other in (content + b"x", content[:-1], b"x" + content[1:], b""):
        (tmp_path / "f").write_bytes(other)
        with pytest.raises(CodeError, match="changed while"):
            cut(tmp_path / "f", entry("f", content))
    with pytest.raises(CodeError, match="cannot read"):
        cut(tmp_path / "none", entry("none", content))


def test_a_small_file_is_one_piece_with_its_own_digest() -> None:
    one = entry("f", bytes(ONE_PIECE))
    assert pieces_of(one, {}) == (Piece(bytes.fromhex(one.sha256), ONE_PIECE),)
    assert pieces_of(entry("f", b""), {}) == ()
    with pytest.raises(KeyError):
        pieces_of(entry("f", bytes(ONE_PIECE + 1)), {})
