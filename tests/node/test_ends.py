"""The eight ways a cluster ends, each on real processes, each named in `result.json` and by `status`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from muster.errors import LaunchError
from muster.launching import load, record
from muster.spec.config import Target
from muster.targets.base import NodePlan
from muster.targets.local import Local
from muster.targets.local_nodes import LocalNodes
from tests.harness import Muster, eventually, marked

FOREVER = "import time\nprint('here', flush=True)\ntime.sleep(600)\n"


def result_of(muster: Muster, run: str) -> dict[str, Any]:
    path = muster.runs / run / "result.json"
    value: dict[str, Any] = json.loads(eventually(lambda: path.exists() and path.read_text()))
    assert value["end"] in muster("status", run).stdout
    return value


def started(muster: Muster, run: str, lines: int) -> None:
    """Waits until this many processes have said that they are here."""
    logs = muster.runs / run / "logs"
    eventually(lambda: sum(path.read_text().count('"here"') for path in logs.rglob("*.jsonl")) >= lines)


def node_pid(muster: Muster, run: str, node: str) -> int:
    path = muster.runs / run / "nodes" / f"{node}.json"
    return int(json.loads(eventually(lambda: path.exists() and path.read_text()))["pid"])


def test_1_the_script_has_ended(muster: Muster) -> None:
    muster("run", muster.job("print('well')", workers=2))
    value = result_of(muster, muster.run_id())
    assert (value["end"], value["state"], value["exit_code"]) == ("script-ended", "succeeded", 0)


def test_2_the_stop_file_is_there_whoever_wrote_it(muster: Muster) -> None:
    process = muster.start("run", muster.job(FOREVER, workers=1))
    run = muster.run_id()
    started(muster, run, 2)
    (muster.runs / run / "stop").touch()
    assert process.wait(30) == 130
    value = result_of(muster, run)
    assert (value["end"], value["state"]) == ("stop-requested", "stopped")


def test_3_its_ttl_is_reached(muster: Muster) -> None:
    done = muster("run", muster.job(FOREVER, workers=1, ttl="2s"), check=123)
    assert "ttl" in done.stderr
    assert result_of(muster, muster.run_id())["end"] == "ttl-reached"


def test_3_its_ttl_is_reached_though_it_is_long_lived(muster: Muster) -> None:
    muster("run", muster.job("print('well')", workers=1, ephemeral=False, ttl="2s"), check=123)
    assert result_of(muster, muster.run_id())["end"] == "ttl-reached"


def by_hand(muster: Muster, run: str, mode: str, script: Path, **env: str) -> subprocess.Popen[str]:
    """A node that no target started: the environment is all it has."""
    return muster.start(
        "node",
        WORK_DIR=str(muster.runs),
        CLUSTER_TYPE="plain",
        MODE=mode,
        JOB_OCID=run,
        ENTRY_POINT=str(script),
        MUSTER_ADDRESS="127.0.0.1",
        MUSTER_FREE_PORTS="1",
        **env,
    )


def test_4_a_worker_waited_for_main(muster: Muster) -> None:
    script = muster.folder / "script.py"
    script.write_text(FOREVER)
    worker = by_hand(muster, "lonely", "WORKER", script, TIMEOUT="1", RANK="1")
    assert worker.wait(30) == 122
    value = json.loads((muster.runs / "lonely" / "result.json").read_text())
    assert value["end"] == "main-not-found"
    assert "worker-1 waited 1 s and saw no main" in value["detail"]


def test_5_it_was_not_ready_in_time_and_the_missing_are_named(muster: Muster) -> None:
    script = muster.folder / "script.py"
    script.write_text(FOREVER)
    workers = {"WORKER_COUNT": "3", "TIMEOUT": "2"}
    main = by_hand(muster, "incomplete", "MAIN", script, **workers)
    worker = by_hand(muster, "incomplete", "WORKER", script, RANK="2", **workers)
    assert main.wait(30) == 121
    assert worker.wait(30) == 121
    value = json.loads((muster.runs / "incomplete" / "result.json").read_text())
    assert (value["end"], value["missing"]) == ("not-ready", ["main", "worker-1", "worker-2", "worker-3"])
    assert "worker-1: never seen" in value["detail"]
    assert "worker-2: here at 127.0.0.1, but not started" in value["detail"]


def test_6_main_is_gone_and_no_new_one_came(muster: Muster, mark: str) -> None:
    process = muster.start("run", muster.job(FOREVER, workers=2))
    run = muster.run_id()
    started(muster, run, 3)
    os.kill(node_pid(muster, run, "main"), signal.SIGKILL)
    assert process.wait(40) == 122
    value = result_of(muster, run)
    assert value["end"] == "main-lost"
    eventually(lambda: not marked(mark))


def test_7_a_rank_failed_and_retries_are_used_up(muster: Muster) -> None:
    script = "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(7)\ntime.sleep(600)\n"
    done = muster("run", muster.job(script, workers=2, retries=1), check=7)
    value = result_of(muster, muster.run_id())
    assert (value["end"], value["exit_code"], value["generation"]) == ("member-failed", 7, 2)
    assert value["failure"]["process"] == "rank 1"
    assert "rank 1 on worker-1 failed first, with exit code 7" in done.stderr


def test_7_a_node_was_lost(muster: Muster) -> None:
    process = muster.start("run", muster.job(FOREVER, workers=2))
    run = muster.run_id()
    started(muster, run, 3)
    os.kill(node_pid(muster, run, "worker-2"), signal.SIGKILL)
    assert process.wait(40) == 124
    value = result_of(muster, run)
    assert value["end"] == "member-failed"
    assert "worker-2 was lost" in value["detail"]


class Stingy(LocalNodes):
    """A target's nodes that refuses the third."""

    def start(self, node: NodePlan) -> None:
        if node.name == "worker-2":
            raise LaunchError(f"{node.name} was refused: the quota is used up")
        super().start(node)


def test_8_the_launch_was_refused_in_part_and_all_of_it_is_taken_back(
    muster: Muster, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in muster.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "plugins"))
    monkeypatch.setattr("muster.targets.local.LocalNodes", Stingy)
    target = Local(Target("local", "local"))
    plan = target.plan(load(muster.job(FOREVER, workers=3)))
    run = record(plan, lambda _text: None)
    with pytest.raises(LaunchError, match="worker-2 was refused: the quota is used up"):
        target.launch(plan, run, lambda _text: None)
    assert not {pid: line for pid, line in marked(mark).items() if "muster" in line and pid != os.getpid()}
    result = result_of(muster, run)
    assert (result["end"], result["exit_code"]) == ("launch-refused", 120)
