"""What every target promises. A target's own test module subclasses this and gives the `place` fixture."""

from __future__ import annotations

import json
import os
import signal
from typing import Any, Protocol

import pytest

from tests.harness import Muster, eventually

SAYS = "import os\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'], flush=True)\n"
LEAVES = """
import os, pathlib
pathlib.Path("outputs").mkdir(exist_ok=True)
pathlib.Path(f"outputs/{os.environ['RANK']}.txt").write_text("model")
"""
WAITS = "import os, time\nprint('rank', os.environ['RANK'], 'here', flush=True)\ntime.sleep(600)\n"


class Place(Protocol):
    """A target that is ready to be used, and a look behind it."""

    muster: Muster
    on: str
    fields: dict[str, Any]
    """What a job needs beside the rest to run there."""
    remote: bool
    """Whether a run outlives its launcher."""

    def left(self) -> list[str]:
        """What is there that costs, or would be in the way: processes, job runs, jobs."""

    def refused(self, number: int) -> str:
        """Launches a job of four nodes, the n-th of which is refused; what the user is told."""

    def kill(self, run: str, node: str) -> None:
        """Kills a node's machine, without a word to anybody."""


def job(place: Place, script: str, **fields: Any) -> Any:
    return place.muster.job(script, **{**place.fields, **fields})


def status(place: Place, run: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(place.muster("status", run, "--json").stdout)
    return told


def logs(place: Place, run: str) -> str:
    return place.muster("logs", run).stdout


def all_here(place: Place, run: str, ranks: int) -> None:
    eventually(lambda: all(f"rank {rank} here" in logs(place, run) for rank in range(ranks)), within=90)


def nothing_left(place: Place) -> None:
    eventually(lambda: not place.left(), within=60)


class TargetContract:
    """One job, whatever the target."""

    def test_a_plan_is_dry_and_lists_every_node(self, place: Place) -> None:
        told = json.loads(place.muster("plan", job(place, SAYS, workers=2), "--on", place.on, "--json").stdout)
        assert [node["name"] for node in told["nodes"]] == ["main", "worker-1", "worker-2"]
        assert json.loads(place.muster("ps", "--json").stdout) == []
        assert place.left() == []

    def test_all_ranks_run_and_their_lines_and_files_come_back(self, place: Place) -> None:
        place.muster("run", job(place, SAYS + LEAVES, workers=2), "--on", place.on)
        run = place.muster.run_id()
        assert status(place, run)["result"]["state"] == "succeeded"
        told = logs(place, run)
        assert all(f"rank {rank} of 3" in told for rank in range(3))
        assert sorted(json.loads(place.muster("outputs", run, "--json").stdout)) == ["0.txt", "1.txt", "2.txt"]
        nothing_left(place)

    def test_the_exit_code_is_the_scripts_own(self, place: Place) -> None:
        script = "import os, sys\nsys.exit(7 if os.environ['RANK'] == '1' else 0)\n"
        place.muster("run", job(place, script, workers=1), "--on", place.on, check=7)
        assert status(place, place.muster.run_id())["result"]["exit_code"] == 7
        nothing_left(place)

    def test_stopped_by_another_process_all_of_it_ends(self, place: Place) -> None:
        launcher = place.muster.start("run", job(place, WAITS, workers=2), "--on", place.on)
        run = place.muster.run_id()
        all_here(place, run, 3)
        assert "stopped" in place.muster("stop", run).stdout
        launcher.communicate(timeout=60)
        assert status(place, run)["result"]["end"] == "stop-requested"
        nothing_left(place)

    @pytest.mark.parametrize("number", [1, 3])
    def test_a_node_that_is_refused_takes_all_back(self, place: Place, number: int) -> None:
        told = place.refused(number)
        assert any(name in told for name in ("main", "worker-")), told
        assert status(place, place.muster.run_id())["result"]["end"] == "launch-refused"
        nothing_left(place)

    def test_a_lost_node_is_replaced_while_the_job_has_retries(self, place: Place) -> None:
        go = (
            "import os, pathlib, time\n"
            "mark = pathlib.Path('checkpoints', 'mark')\n"
            "again = mark.exists()\n"
            "print('rank', os.environ['RANK'], 'here', 'again' if again else '', flush=True)\n"
            "if not again:\n"
            "    mark.with_suffix('.tmp').touch()\n"
            "    mark.with_suffix('.tmp').rename(mark)\n"
            "    time.sleep(600)\n"
        )
        launcher = place.muster.start("run", job(place, go, workers=1, retries=2), "--on", place.on)
        run = place.muster.run_id()
        all_here(place, run, 2)
        place.kill(run, "worker-1")
        _, told = launcher.communicate(timeout=150)
        assert launcher.returncode == 0, told
        assert "again" in logs(place, run)
        nothing_left(place)

    def test_a_lost_node_ends_a_run_without_retries_and_is_named(self, place: Place) -> None:
        launcher = place.muster.start("run", job(place, WAITS, workers=1), "--on", place.on)
        run = place.muster.run_id()
        all_here(place, run, 2)
        place.kill(run, "worker-1")
        _, told = launcher.communicate(timeout=150)
        assert launcher.returncode != 0
        assert "worker-1 was lost" in told
        nothing_left(place)

    def test_a_launcher_that_is_killed_leaves_what_its_target_says(self, place: Place) -> None:
        launcher = place.muster.start("run", job(place, WAITS, workers=1), "--on", place.on)
        run = place.muster.run_id()
        all_here(place, run, 2)
        os.kill(launcher.pid, signal.SIGKILL)
        launcher.communicate(timeout=30)
        if place.remote:
            assert status(place, run)["state"] == "running"
            assert [one["run"] for one in json.loads(place.muster("ps", "--json").stdout)] == [run]
            place.muster("stop", run)
        nothing_left(place)

    def test_its_time_is_up_and_all_ends(self, place: Place) -> None:
        done = place.muster("run", job(place, WAITS, workers=1, ttl="6s"), "--on", place.on, check=None)
        assert done.returncode != 0
        assert status(place, place.muster.run_id())["result"]["end"] == "ttl-reached"
        nothing_left(place)

    def test_an_elastic_run_grows_and_shrinks(self, place: Place) -> None:
        fields = {"workers": {"min": 1, "max": 2, "start": 1}}
        launcher = place.muster.start("run", job(place, WAITS, **fields), "--on", place.on)
        run = place.muster.run_id()
        all_here(place, run, 2)
        grown = json.loads(place.muster("scale", run, "2", "--json").stdout)
        assert grown["workers"] == ["worker-1", "worker-2"]
        shrunk = json.loads(place.muster("scale", run, "1", "--json").stdout)
        assert shrunk["workers"] == ["worker-1"]
        place.muster("stop", run)
        launcher.communicate(timeout=60)
        nothing_left(place)
