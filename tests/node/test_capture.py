"""The output of processes as lines: in full, in order, and free of secrets, however it arrives."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.node.capture import BLOCK, Capture, traceback_of
from muster.workdir.loglines import LogLine

pytestmark = pytest.mark.unit

LONG = 64 << 10


def captured(*chunks: bytes, secrets: Sequence[str] = ()) -> list[str]:
    """The texts of the lines that these chunks make."""
    lines: list[LogLine] = []
    stream = Capture("main", lines.append, secrets).stream("script", "out")
    for chunk in chunks:
        stream.feed(chunk)
    stream.close()
    return [line.text for line in lines]


def test_lines_are_stamped_numbered_and_say_whose_they_are() -> None:
    lines: list[LogLine] = []
    capture = Capture("worker-1", lines.append)
    capture.stream("rank 3", "err", 3).feed(b"one\ntwo\n")
    capture.say("ready")
    capture.step("running")
    assert [(line.n, line.process, line.stream, line.text, line.rank) for line in lines] == [
        (1, "rank 3", "err", "one", 3),
        (2, "rank 3", "err", "two", 3),
        (3, "muster", "note", "ready", None),
        (4, "muster", "step", "running", None),
    ]
    assert {line.node for line in lines} == {"worker-1"}
    assert [line.time for line in lines] == sorted(line.time for line in lines)


def test_each_start_of_a_node_numbers_in_a_block_of_its_own() -> None:
    lines: list[LogLine] = []
    for incarnation in (1, 2, 3):
        Capture("main", lines.append, incarnation=incarnation).say("here")
    assert [line.n for line in lines] == [1, BLOCK + 1, 2 * BLOCK + 1]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"no end", ["no end"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"10%\r20%\rdone\n", ["10%", "20%", "done"]),
        (b"\xff\xfe\n", ["\ufffd\ufffd"]),
        ("Ä ö\tü\n".encode(), ["Ä ö\tü"]),
        (b"a\x00b\x1b[31mred\n", ["a\x00b\x1b[31mred"]),
    ],
)
def test_every_end_of_a_line_ends_it_and_nothing_else_is_changed(data: bytes, lines: list[str]) -> None:
    assert captured(data) == lines


@given(
    st.lists(st.sampled_from([b"a", b"\xc3\xa4", b"\n", b"\r", b"\r\n", b" word "]), max_size=30),
    st.lists(st.integers(0, 60), max_size=10),
)
@settings(max_examples=300, deadline=None)
def test_how_output_is_chopped_does_not_show(pieces: list[bytes], cuts: list[int]) -> None:
    data = b"".join(pieces)
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    chunks = [data[start:end] for start, end in pairwise(edges)]
    assert captured(*chunks) == captured(data)


def test_a_line_without_end_is_cut_and_nothing_of_it_is_lost() -> None:
    whole = "ä" * LONG
    data = b"x" + whole.encode()
    found = captured(*(data[start : start + 1000] for start in range(0, len(data), 1000)))
    assert len(found) == 3
    assert "".join(found) == "x" + whole


@pytest.mark.parametrize("before", [LONG - 20, LONG - 9, LONG - 1, LONG])
def test_a_secret_that_a_cut_would_go_through_is_masked_all_the_same(before: int) -> None:
    data = b"x" * before + b"open sesame" + b"y" * LONG
    found = captured(*(data[start : start + 4096] for start in range(0, len(data), 4096)), secrets=["open sesame"])
    assert "".join(found) == "x" * before + "***" + "y" * LONG


def test_secrets_are_masked_wherever_they_stand() -> None:
    secrets = ["hunter2hunter2", "hunter2", "", "abc"]
    assert captured(b"key=hunter2hunter2&old=hunter2 abc\n", secrets=secrets) == ["key=***&old=*** abc"]


def test_a_key_of_several_lines_is_masked_line_by_line() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADAN\nBgkqhkiG9w0B\n-----END KEY-----\n"
    found = captured(b"the key:\n", key.encode(), repr(key).encode(), secrets=[key])
    assert "MIIEvQIBADAN" not in "".join(found)
    assert "BgkqhkiG9w0B" not in "".join(found)


def test_the_last_words_of_a_process_are_kept_masked_too() -> None:
    stream = Capture("main", lambda _line: None, ["open sesame"]).stream("script", "err")
    stream.feed(b"open sesame\n" * 300)
    assert set(stream.tail) == {"***"}
    assert len(stream.tail) == 250


def test_an_agents_rank_says_who_it_is_and_how_it_ended() -> None:
    lines: list[LogLine] = []
    stream = Capture("main", lines.append).stream("local rank 0", "out")
    stream.feed(b"\x1emuster rank 4\nhello\nno end\x1emuster exit 3\n")
    assert [(line.process, line.rank, line.text) for line in lines] == [("rank 4", 4, "hello"), ("rank 4", 4, "no end")]
    assert (stream.rank, stream.exit_code) == (4, 3)
    stream.feed(b"\x1emuster rank 5\n")
    assert (stream.rank, stream.exit_code, list(stream.tail)) == (5, None, [])


HEAD = "Traceback (most recent call last):"


def test_the_last_traceback_is_what_a_failure_is_told_by() -> None:
    tail = ["epoch 1", HEAD, "  old", "OldError", "epoch 2", HEAD, "  new", "NewError", "bye"]
    assert traceback_of(tail) == (HEAD, "  new", "NewError", "bye")


@pytest.mark.parametrize(
    "link",
    [
        "The above exception was the direct cause of the following exception:",
        "During handling of the above exception, another exception occurred:",
    ],
)
def test_a_chain_of_exceptions_is_shown_from_its_head(link: str) -> None:
    chain = [HEAD, "  first", "KeyError: 1", "", link, "", HEAD, "  second", "RuntimeError"]
    assert traceback_of(["noise", *chain]) == tuple(chain)


def test_without_a_traceback_the_last_lines_tell() -> None:
    assert traceback_of([f"line {n}" for n in range(50)]) == tuple(f"line {n}" for n in range(30, 50))
