"""A log of many segments, read without a wait for each."""

from __future__ import annotations

from contextlib import closing

import pytest

from muster.errors import StoreBusy
from muster.workdir.loglines import LogLine, read_logs
from muster.workdir.run import RunFolder
from tests.workdir.lines import Line, Meeting

pytestmark = pytest.mark.unit


def log(run: RunFolder, node: str, segments: int) -> None:
    for number in range(1, segments + 1):
        line = LogLine(number, float(number), node, "rank 0", "out", f"{node} {number}")
        run.store.put(run.at("logs", node, f"{number:08}.jsonl"), line.encode() + b"\n")


@pytest.fixture
def line() -> Line:
    return Line(parallel=8)


@pytest.fixture
def run(line: Line) -> RunFolder:
    return RunFolder(line, "run")


def texts(run: RunFolder, nodes: list[str] | None = None) -> list[str]:
    return [one.text for one in read_logs(run, nodes)]


def test_segments_are_fetched_many_at_a_time_and_each_once(run: RunFolder, line: Line) -> None:
    log(run, "main", 500)
    line.reset()
    line.most = 0
    line.meets["get"] = Meeting(4)
    assert texts(run) == [f"main {number}" for number in range(1, 501)]
    assert line.counts == {"list": 1, "get": 500}
    assert 4 <= line.most <= 8


def test_many_nodes_are_one_listing_and_their_first_segments_come_together(run: RunFolder, line: Line) -> None:
    for node in range(16):
        log(run, f"worker-{node}", 2)
    line.reset()
    line.meets["get"] = Meeting(8)
    assert len(texts(run)) == 32
    assert line.counts == {"list": 1, "get": 32}


def test_of_some_nodes_nothing_else_is_fetched(run: RunFolder, line: Line) -> None:
    for node in ("main", "worker-1", "worker-10"):
        log(run, node, 3)
    line.reset()
    assert texts(run, ["worker-1"]) == [f"worker-1 {number}" for number in (1, 2, 3)]
    assert line.counts == {"list": 1, "get": 3}


def test_who_has_seen_enough_fetches_no_more(run: RunFolder, line: Line) -> None:
    log(run, "main", 500)
    line.reset()
    with closing(read_logs(run)) as lines:  # type: ignore[type-var]
        assert next(iter(lines)).text == "main 1"
    assert line.counts["get"] <= 1 + 2 * 8


def test_a_segment_that_is_gone_is_passed_over_and_an_outage_is_told(run: RunFolder, line: Line) -> None:
    log(run, "main", 3)
    listed = list(line.list())
    line.delete(listed[1].key)
    line.list = lambda prefix="", after="": iter(listed)  # type: ignore[method-assign]
    assert texts(run) == ["main 1", "main 3"]
    with line.away(), pytest.raises(StoreBusy):
        texts(run)
