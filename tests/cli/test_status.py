"""`muster status`: a run while it goes on, and after."""

from __future__ import annotations

import json

from tests.cli.conftest import Finished
from tests.harness import Muster
from tests.node.hands import FOREVER, heard


def test_an_ended_run_shows_its_end_its_nodes_and_what_they_reported(finished: Finished) -> None:
    shown = finished.muster("status", "done").stdout
    assert shown.startswith(f"{finished.run}: succeeded\n")
    assert "end         script-ended, exit code 0" in shown
    assert f"work dir    {finished.muster.runs}" in shown
    assert "main         ended      127.0.0.1" in shown
    assert "rank 1: step=3  loss=0.5" in shown


def test_the_same_for_programs(finished: Finished) -> None:
    told = json.loads(finished.muster("status", finished.run, "--json").stdout)
    assert (told["run"], told["state"], told["name"], told["framework"]) == (
        finished.run,
        "succeeded",
        "done",
        "plain",
    )
    assert told["result"]["end"] == "script-ended"
    assert [node["node"] for node in told["nodes"]] == ["main", "worker-1"]
    assert told["nodes"][1]["reported"] == {"rank 1": {"step": 3.0, "loss": 0.5}}


def test_a_run_that_goes_on_is_running_and_a_failed_one_shows_the_traceback(muster: Muster) -> None:
    launcher = muster.start("run", muster.job(FOREVER, workers=1))
    run = muster.run_id()
    heard(muster, run, "here", times=2)
    shown = muster("status", run).stdout
    assert shown.startswith(f"{run}: running\n")
    assert "worker-1     running" in shown
    assert "\n  end " not in shown
    muster("stop", run)
    assert launcher.wait(60) == 130
    assert muster("status", run).stdout.startswith(f"{run}: stopped\n")
    muster("run", muster.job("raise RuntimeError('boom')", workers=0, name="bad"), check=1)
    shown = muster("status", "bad").stdout
    assert "first cause rank 0 on main, exit code 1" in shown
    assert "RuntimeError: boom" in shown
