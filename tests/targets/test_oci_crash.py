"""`muster run` is killed before and after each call to Oracle's cloud. Whoever comes next, a launcher or a sweep, finds
at most one job for one intent and at most one machine for one node; and after its bound nothing of a run is left.

Here job runs stay accepted until they are let go, so that most cases need no node to be started.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.rehearsal.faults import Fault, Way
from muster.rehearsal.oracle import OracleServer
from muster.spec.config import Target as TargetConfig
from muster.targets.base import Swept
from muster.targets.oci import Oci
from muster.targets.oci_payloads import MARGIN
from muster.targets.oci_sweep import sweep
from tests.harness import Muster, eventually
from tests.targets.oracle_place import FINAL, OCIDS, There, account, reach
from tests.targets.target_contract import SAYS, WAITS, job, status

TIMES = {"timeout": "60s", "ttl": "5m"}
BOUND = 60 + 300 + 2 * MARGIN
"""Seconds after which nothing of such a run may be left."""
LAUNCH = ("get_subnet", "create_job", "get_job", "create_run", "create_run")
"""What a launch of two nodes asks, in this order."""
WAYS: tuple[Way, ...] = ("hold", "keep")
"""Killed before the cloud has done what it was asked, and after."""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OracleServer]:
    with account(tmp_path_factory.mktemp("cloud")) as server:
        yield server


@pytest.fixture
def place(muster: Muster, cloud: OracleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[There]:
    there = reach(muster, cloud, tmp_path)
    for name in ("OCI_CONFIG_FILE", "MUSTER_OCI_ENDPOINT", "OCI_OBJECTSTORAGE_SERVICE_ENDPOINT"):
        monkeypatch.setenv(name, muster.env[name])
    cloud.delay("accepted", math.inf)
    yield there
    cloud.steering.clear()
    cloud.steering.ask("POST", "clear_science")
    swept(there, after=BOUND + 60)
    assert there.left() == []


def swept(place: There, after: float = 0.0, dry: bool = False) -> list[Swept]:
    """What a sweep does that comes so many seconds later."""
    work_dir = f"oci://training@{place.server.namespace}/team/runs"
    target = Oci(TargetConfig("oci", "oci", work_dir, {"compartment_id": OCIDS["compartment_id"]}))
    return sweep(target.jobs, work_dir, lambda _text: None, dry, time.time() + after)


def held(place: There, process: subprocess.Popen[str], way: Way, **fault: Any) -> None:
    """Waits until one request of a process is held: all but that one went through."""
    eventually(lambda: place.server.steering.held() or process.poll() is not None, within=90)
    assert process.poll() is None, f"it ended without {way} {fault}: {process.communicate()}"


def killed(place: There, *words: str | Path, way: Way, **fault: Any) -> None:
    """Runs the command until it has asked for just this, and kills it. What it had asked is done, then or now."""
    place.server.steering.add(Fault(way, **fault))
    process = place.muster.start(*words)
    held(place, process, way, **fault)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    place.server.steering.clear()
    eventually(lambda: not place.server.steering.held())


def launch(place: There, **fields: Any) -> tuple[str | Path, ...]:
    return ("run", job(place, fields.pop("script", SAYS), workers=1, **{**TIMES, **fields}), "--on", place.on)


def made(place: There, run: str) -> Counter[str]:
    """How many jobs, and how many machines of each node, the cloud has had for a run."""
    jobs = [one for one in place.server.steering.ask("GET", "jobs") if one["freeformTags"].get("muster-run") == run]
    return Counter(["job"] * len(jobs) + [one["freeformTags"]["muster-node"] for one in runs(place, run)])


def runs(place: There, run: str) -> list[dict[str, Any]]:
    return [one for one in place.server.job_runs() if one["freeformTags"].get("muster-run") == run]


ONE_OF_EACH = Counter(["job", "main", "worker-1"])


def test_these_are_all_the_calls_of_a_launch(place: There) -> None:
    place.server.steering.reset_counts()
    place.muster(*launch(place), "--detach")
    asked = place.server.steering.counts().requests
    stored = ("put", "get", "head", "list", "delete", "other")
    assert Counter({kind: n for (_, kind), n in asked.items() if kind not in stored}) == Counter(LAUNCH)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", range(len(LAUNCH)), ids=[f"{n}-{name}" for n, name in enumerate(LAUNCH)])
def test_killed_at_a_call_the_launch_is_taken_up(place: There, way: Way, number: int) -> None:
    killed(place, *launch(place), way=way, kind="|".join(set(LAUNCH)), skip=number)
    run = place.muster.run_id()
    assert all(count == 1 for count in made(place, run).values())
    assert place.muster("run", "--resume", run, "--detach").stdout.strip() == run
    assert made(place, run) == ONE_OF_EACH
    assert [one.did for one in swept(place)] == ["kept"]
    assert {one["lifecycleState"] for one in runs(place, run)} == {"ACCEPTED"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", range(len(LAUNCH)), ids=[f"{n}-{name}" for n, name in enumerate(LAUNCH)])
def test_killed_at_a_call_the_launch_is_swept(place: There, way: Way, number: int) -> None:
    killed(place, *launch(place), way=way, kind="|".join(set(LAUNCH)), skip=number)
    run = place.muster.run_id()
    there = made(place, run)
    assert [one.did for one in swept(place)] == ["kept"] * there["job"], "its launcher may still be at work"
    after = swept(place, after=BOUND)
    assert [one.did for one in after] == (["ended" if there.total() > 1 else "deleted"] if there else [])
    assert place.left() == []
    assert made(place, run) == there


@pytest.mark.slow
@pytest.mark.parametrize(("way", "kind"), [("hold", "create_job"), ("keep", "create_job"), ("keep", "create_run")])
def test_a_launch_that_is_taken_up_succeeds(place: There, way: Way, kind: str) -> None:
    place.server.delay("accepted", 0)
    killed(place, *launch(place), way=way, kind=kind)
    run = place.muster.run_id()
    done = place.muster("run", "--resume", run)
    assert "rank 1 of 2" in done.stdout
    assert made(place, run) == ONE_OF_EACH
    assert {one["lifecycleState"] for one in runs(place, run)} == {"SUCCEEDED"}
    assert place.left() == []
