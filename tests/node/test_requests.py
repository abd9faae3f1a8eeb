"""What a run costs in requests where each costs money, counted; and what becomes of it while the store is away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.bucketlike import BucketLike
from benchmarks.simulated import totals

from muster.errors import NodeError
from muster.node.claiming import claim
from muster.node.metrics import MetricsOut
from muster.node.pace import Pace
from muster.workdir.memory import MemoryStore
from muster.workdir.records import NodeRecord, dump
from muster.workdir.run import RunFolder
from muster.workdir.segments import SegmentWriter, read_segments
from muster.workdir.store import Capabilities
from tests.harness import PLUGINS
from tests.node.rehearsed import LINES, MINUTES

ROOT = Path(__file__).parents[2]
A_MINUTE = 6
"""Requests that an idle node may make."""


def program(module: str, *words: str | Path) -> Any:
    """What a program of nodes prints. They are not ended but left, with what they have in their temporary folder."""
    argv = [sys.executable, "-m", module, *map(str, words)]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        env = {**os.environ, "PYTHONPATH": str(PLUGINS), "TMPDIR": temporary}
        done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("nodes", [2, 40])
def test_a_worker_is_ready_after_five_requests_however_many_there_are(nodes: int) -> None:
    met = program("benchmarks.simulated", str(nodes), "0.0")
    main = met["requests"].pop("main")
    # Its name, its job, the key, main, and whether there is a checkpoint: all but the last at once.
    least = {"create": 1, "get": 3, "list": 1}
    assert least in met["requests"].values()
    for counts in met["requests"].values():
        # Its record once more, and its first steps, where it was not ready within seconds.
        assert {**counts, "put": 0} == {**least, "put": 0}
        assert counts.get("put", 0) <= 2
    # Name and generation; job, key and whether the run is over; asked for before it came, and checkpoints. Then looks.
    assert (main["create"], main["get"]) == (2, 3)
    assert main["put"] <= 5
    assert main["list"] <= 2 + 6


@pytest.mark.slow
def test_a_worker_looks_for_main_often_at_first_and_seldom_once_it_has_waited_long(tmp_path: Path) -> None:
    seen = program("tests.node.rehearsed", "late_main", tmp_path)
    # The first look is 20 ms after the one before, the next a quarter more, and so on up to 12 s.
    assert 20 <= seen["first"]["get"] <= 40
    assert 3 <= seen["tenth"]["get"] <= A_MINUTE + 1
    # Its looks for a stop file, which may come before main does.
    assert 2 <= seen["tenth"]["list"] <= A_MINUTE
    # The look that finds main, and then as always; what it was told to write down in between is one record.
    assert seen["met"]["get"] <= 2
    assert seen["met"].get("put", 0) <= 3


@pytest.mark.slow
def test_an_idle_cluster_makes_at_most_six_requests_per_node_and_minute(tmp_path: Path) -> None:
    seen = program("tests.node.rehearsed", "idle", tmp_path)
    for name, count in totals(seen["idle"]).items():
        assert count <= A_MINUTE * MINUTES, seen["idle"][name]
    with_channel = [totals(seen["idle"])[f"worker-{number}"] for number in (1, 2, 3)]
    assert max(with_channel) <= 2 * MINUTES
    # One listing shows main all that may be asked of it, so it needs no more than one, or two, to see a stop file.
    assert 1 <= seen["looks"] <= 2
    assert set(seen["ends"].values()) == {"stop-requested"}


def test_nodes_whose_main_is_gone_see_a_stop_file_themselves(tmp_path: Path) -> None:
    ends = program("tests.node.rehearsed", "orphans", tmp_path)
    assert ends == {"worker-1": "stop-requested", "worker-2": "stop-requested"}


@pytest.mark.slow
def test_one_who_follows_a_run_through_the_store_alone_looks_less_often_while_nothing_comes(tmp_path: Path) -> None:
    seen = program("tests.node.rehearsed", "follower", tmp_path)
    assert seen["shown"] == [1, 2, 3]
    counts = seen["requests"]
    # A listing and a get of the result each time, of which there are five in a minute; main is tried once in that.
    assert counts["list"] <= 7 * MINUTES
    assert counts["get"] <= 8 * MINUTES
    assert set(counts) == {"list", "get"}


QUICK = Capabilities(atomic_create=True, poll_seconds=0.1, billed=True)


def test_a_name_is_taken_over_at_once_from_one_that_was_silent_for_long_by_the_clock_of_the_store() -> None:
    kept = MemoryStore("claims")
    run = RunFolder(BucketLike(kept), "run")
    former = NodeRecord("worker-1", "worker", "running", host="elsewhere", machine="elsewhere", pid=1, boot="a")
    run.claim(former)
    kept._kept[run.at("nodes/worker-1.json")] = (dump(former), time.time() - 3600)
    again = claim(run, replace(former, boot="b"))
    assert (again.incarnation, again.boot) == (2, "b")
    assert run.node("worker-1") == again


def test_a_name_is_not_taken_over_from_one_that_beats_seldom_but_does() -> None:
    run = RunFolder(BucketLike(MemoryStore("claims"), capabilities=QUICK), "run")
    former = NodeRecord("worker-1", "worker", "running", host="elsewhere", machine="elsewhere", pid=1, boot="a")
    run.claim(former)
    beating = threading.Timer(0.5, run.write_node, [replace(former, beat=1)])
    beating.start()
    with pytest.raises(NodeError, match="is taken by process 1 on elsewhere"):
        claim(run, replace(former, boot="b"))
    beating.join()


def test_a_claim_whose_answer_was_lost_is_our_own() -> None:
    run = RunFolder(BucketLike(MemoryStore("claims")), "run")
    record = NodeRecord("worker-1", "worker", "claiming", boot="a")
    run.claim(record)
    assert claim(run, record) == record


def test_what_a_script_reports_goes_out_soon_at_first_and_usage_waits_for_it() -> None:
    store = BucketLike(MemoryStore("metrics"))
    pace = Pace(store.capabilities)
    out = MetricsOut(SegmentWriter(store, "run/metrics/main", first=1), pace, now=0.0)
    sent = []
    for second in range(3600):
        if second % 2 == 0:
            out.add_usage({"time": second})
        if second < 600 and second % 10 == 0:
            out.add_report({"values": {"loss": 1.0}}, second)
        if second % 5 == 0 and out.due(second):
            out.flush(second)
            sent.append(second)
    assert sent[0] == 5
    assert len([at for at in sent if at < 600]) <= 15
    assert len([at for at in sent if 900 <= at < 3600]) == 2700 // pace.usage
    lines = list(read_segments(store, "run/metrics/main"))
    assert store.counts["put"] == len(sent)
    assert len([line for line in lines if b"loss" in line]) == 60


@pytest.mark.slow
@pytest.mark.parametrize("case", ["fails", "hangs"])
def test_a_node_that_loses_the_store_loses_nothing_and_trains_on(case: str, tmp_path: Path) -> None:
    seen = program("tests.node.rehearsed", case, tmp_path)
    assert seen["refused"]
    assert (seen["lines"], seen["whole"]) == (LINES + 1, True)
    assert (seen["spilled"], seen["bounded"]) == (True, True)
    assert (seen["exit"], seen["result"], seen["record"]) == (0, "script-ended", "ended")
    assert seen["outputs"] == "made while the store was away"
    assert seen["reported"] == [{"loss": 0.5}]
    assert seen["threads"] == 8
