"""Log lines: written fast, read back equal, merged into one log."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.errors import StoreError
from muster.workdir.loglines import LogLine, merge, read_logs
from muster.workdir.memory import MemoryStore
from muster.workdir.run import RunFolder
from muster.workdir.segments import SegmentWriter

pytestmark = pytest.mark.unit

any_text = st.text(st.characters(codec=None))  # lone surrogates too
lines = st.builds(
    LogLine,
    st.integers(0),
    st.floats(0, 1e11),
    any_text,
    any_text,
    st.sampled_from(["out", "err", "note"]),
    any_text,
    st.none() | st.integers(0),
)


@given(lines)
def test_any_line_is_read_back_equal_and_is_one_line_of_json(line: LogLine) -> None:
    encoded = line.encode()
    assert LogLine.decode(encoded) == line
    assert b"\n" not in encoded
    assert json.loads(encoded.decode("utf-8"))["text"] == line.text


def test_people_and_tools_can_read_it() -> None:
    line = LogLine(7, 1700000000.25, "worker-1", "rank 3", "err", 'größer "quoted"\ttab', 3)
    assert line.encode().decode() == (
        '{"n":7,"time":1700000000.25,"node":"worker-1","process":"rank 3","stream":"err","rank":3,'
        '"text":"größer \\"quoted\\"\\ttab"}'
    )


@pytest.mark.parametrize("damaged", [b"", b"{", b"[]", b"{}", b'{"n":1,"time":1}', b"\xff"])
def test_a_damaged_line_is_told(damaged: bytes) -> None:
    with pytest.raises(StoreError, match="damaged"):
        LogLine.decode(damaged)


def test_lines_of_many_nodes_come_in_the_order_of_time() -> None:
    main = [LogLine(1, 1.0, "main", "p", "out", "a"), LogLine(2, 3.0, "main", "p", "out", "d")]
    worker = [LogLine(1, 1.0, "worker-1", "p", "out", "b"), LogLine(2, 2.0, "worker-1", "p", "out", "c")]
    assert "".join(line.text for line in merge([worker, main])) == "abcd"


def test_a_clock_that_was_set_back_never_turns_a_nodes_own_lines_around() -> None:
    node = [LogLine(1, 9.0, "main", "p", "out", "first"), LogLine(2, 5.0, "main", "p", "out", "second")]
    other = [LogLine(1, 7.0, "worker-1", "p", "out", "x")]
    assert [line.n for line in merge([node, other]) if line.node == "main"] == [1, 2]


@pytest.fixture
def run() -> RunFolder:
    """Two nodes, two ranks each, each line in a segment of its own."""
    run = RunFolder(MemoryStore("logs"), "run")
    for node, first_rank in (("main", 0), ("worker-1", 2)):
        writer = SegmentWriter(run.store, run.at("logs", node))
        writer.add(LogLine(1, 10.0, node, "muster", "note", f"{node} is ready").encode())
        for n, rank in enumerate((first_rank, first_rank + 1), 2):
            writer.flush()
            writer.add(LogLine(n, 10.0 + rank, node, f"rank {rank}", "out", f"loss of {rank}", rank).encode())
        writer.flush()
    return run


def texts(run: RunFolder, **wanted: object) -> list[str]:
    return [line.text for line in read_logs(run, **wanted)]  # type: ignore[arg-type]


def test_a_runs_log_is_one_and_can_be_narrowed(run: RunFolder) -> None:
    notes, losses = ["main is ready", "worker-1 is ready"], [f"loss of {rank}" for rank in range(4)]
    assert sorted(texts(run)) == sorted(notes + losses)
    assert texts(run, nodes=["worker-1"]) == ["worker-1 is ready", "loss of 2", "loss of 3"]
    assert texts(run, nodes=["nobody"]) == []
    assert texts(run, ranks=[1, 2]) == ["loss of 1", "loss of 2"]
    assert texts(run, grep=re.compile("READY", re.IGNORECASE)) == notes
    assert texts(run, since=12.0) == ["loss of 2", "loss of 3"]
    assert texts(run, since=12.0, ranks=[3], grep=re.compile("loss")) == ["loss of 3"]


def test_a_run_without_logs_has_none() -> None:
    assert texts(RunFolder(MemoryStore("logs"), "run")) == []
