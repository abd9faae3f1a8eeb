"""`muster run` is killed before and after each call to Oracle's cloud. Whoever comes next, a launcher or a sweep, finds
at most one job for one intent and at most one machine for one node; and after its bound nothing of a run is left.

Here job runs stay accepted until they are let go, so that most cases need no node to be started.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.rehearsal.faults import Fault, Way
from muster.rehearsal.oracle import OracleServer
from muster.targets.oci_payloads import MARGIN
from muster.workdir.machine import Process
from muster.workdir.opening import open_store
from tests.harness import Muster, eventually
from tests.targets.oracle_hands import (
    all_final,
    asked,
    at_rest,
    cleared,
    end,
    folder_of,
    held,
    kill,
    killed,
    made,
    runs,
    swept,
    work_dir,
)
from tests.targets.oracle_place import There, account
from tests.targets.target_contract import SAYS, job

TIMES = {"timeout": "60s", "ttl": "5m"}
BOUND = 60 + 300 + 2 * MARGIN
"""Seconds after which nothing of such a run may be left."""
HOME = 900
"""Seconds in which nodes of a run that has ended may still bring home what they have."""
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
    there = at_rest(muster, cloud, tmp_path)
    for name in ("OCI_CONFIG_FILE", "MUSTER_OCI_ENDPOINT", "OCI_OBJECTSTORAGE_SERVICE_ENDPOINT"):
        monkeypatch.setenv(name, muster.env[name])
    yield there
    cleared(there)


def launch(place: There, **fields: Any) -> tuple[str | Path, ...]:
    return ("run", job(place, fields.pop("script", SAYS), workers=1, **{**TIMES, **fields}), "--on", place.on)


ONE_OF_EACH = Counter(["job", "main", "worker-1"])


def test_these_are_all_the_calls_of_a_launch(place: There) -> None:
    place.server.steering.reset_counts()
    place.muster(*launch(place), "--detach")
    assert asked(place) == Counter(LAUNCH)


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


@pytest.mark.slow
def test_nodes_of_a_launch_that_was_never_taken_up_end_by_themselves(place: There) -> None:
    place.server.delay("accepted", 0)
    killed(place, *launch(place, timeout="5s"), way="keep", kind="create_run")
    run = place.muster.run_id()
    all_final(place, run)
    assert end(place, run) in ("not-ready", "main-not-found", "script-ended")
    assert f"{run} " in place.muster("sweep", "--on", place.on).stdout
    assert place.left() == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["list_runs", "cancel_run", "delete_job"])
def test_killed_while_it_takes_a_refused_launch_back(place: There, way: Way, kind: str) -> None:
    place.server.refuse_run(2)
    killed(place, *launch(place), way=way, kind=kind)
    run = place.muster.run_id()
    assert end(place, run) == "launch-refused"
    refused = place.muster("run", "--resume", run, check=None)
    assert refused.returncode != 0
    assert "has ended already: launch-refused" in refused.stderr
    swept(place, after=HOME)
    assert place.left() == []
    assert made(place, run)["job"] == 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["cancel_run", "delete_job"])
def test_killed_while_it_finishes(place: There, way: Way, kind: str) -> None:
    """The launcher looks on, somebody stops the run, and the launcher is killed while it ends what is left."""
    place.server.steering.add(Fault(way, kind=kind))
    launcher = place.muster.start(*launch(place))
    run = place.muster.run_id()
    eventually(lambda: made(place, run) == ONE_OF_EACH, within=90)
    place.muster("stop", run, "--no-wait")
    held(place, launcher)
    kill(launcher)
    place.server.steering.clear()
    assert end(place, run) == "stop-requested"
    swept(place, after=HOME)
    assert place.left() == []
    assert made(place, run) == ONE_OF_EACH


@pytest.mark.parametrize("way", WAYS)
def test_stopped_and_killed_while_it_stops_it_is_stopped_again(place: There, way: Way) -> None:
    place.muster(*launch(place), "--detach")
    run = place.muster.run_id()
    killed(place, "stop", run, way=way, kind="cancel_run")
    assert "stopped (stop-requested)" in place.muster("stop", run).stdout
    assert place.left() == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("key", ["/job.json$", "/launches/", "/cloud.json$", "/run.json$"])
def test_killed_while_it_writes_to_the_work_dir(place: There, way: Way, key: str) -> None:
    killed(place, *launch(place), way=way, kind="put", key=key)
    if (way, key) == ("hold", "/job.json$"):
        assert not place.jobs(), "no call before its intent is durable"
    keys = [entry.key for entry in open_store(work_dir(place)).list("")]
    (run,) = [key.partition("/")[0] for key in keys if key.endswith("/job.json")]
    assert place.muster("run", "--resume", run, "--detach", "--work-dir", work_dir(place)).stdout.strip() == run
    assert made(place, run) == ONE_OF_EACH


def test_a_launcher_on_another_machine_is_followed_by_one_here(place: There) -> None:
    killed(place, *launch(place), way="keep", kind="create_job")
    run = place.muster.run_id()
    folder_of(place, run).claim_launch(2, Process("another machine", 1, "1"))
    assert place.muster("run", "--resume", run, "--detach").stdout.strip() == run
    assert made(place, run) == ONE_OF_EACH


def test_interrupted_while_it_launches_it_takes_all_back(place: There) -> None:
    place.server.steering.add(Fault("keep", kind="create_run"))
    launcher = place.muster.start(*launch(place))
    held(place, launcher)
    os.kill(launcher.pid, signal.SIGINT)
    place.server.steering.clear()
    launcher.communicate(timeout=60)
    assert launcher.returncode == 130
    assert end(place, place.muster.run_id()) == "launch-refused"
    assert place.left() == []


def test_two_stops_and_a_sweep_at_once(place: There) -> None:
    place.muster(*launch(place), "--detach")
    run = place.muster.run_id()
    place.muster("stop", run, "--no-wait")
    words = (("sweep", "--on", place.on), ("stop", run), ("stop", run))
    sweeps = [place.muster.start(*one) for one in words]
    told = [one.communicate(timeout=90) for one in sweeps]
    assert [one.returncode for one in sweeps] == [0, 0, 0], told
    assert place.left() == []
