"""What is particular to the target `oci`: roles, secrets, the twin folder, ends, logs, ways to be somebody."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from muster import launching
from muster.rehearsal import oracle
from muster.rehearsal.oracle import OracleServer
from muster.targets import oci, oci_home
from muster.workdir.opening import open_store
from tests.harness import Muster, eventually, marked
from tests.targets.oracle_hands import (
    all_final,
    asked,
    at_rest,
    cleared,
    end,
    jobs,
    kill,
    made,
    result_of,
    run_of,
    runs,
    set_target,
    work_dir,
)
from tests.targets.oracle_place import IMAGE, OCIDS, There, account, reach
from tests.targets.target_contract import SAYS, WAITS, all_here, job, logs, status

SHAPE = "VM.Standard.E4.Flex"
REFUSED = 120


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OracleServer]:
    with account(tmp_path_factory.mktemp("cloud")) as server:
        yield server


@pytest.fixture
def place(muster: Muster, cloud: OracleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[There]:
    there = at_rest(muster, cloud, tmp_path)
    known_here(there, monkeypatch)
    yield there
    cleared(there)


def known_here(place: There, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is the same user as the command."""
    for name in ("OCI_CONFIG_FILE", "MUSTER_OCI_ENDPOINT", "OCI_OBJECTSTORAGE_SERVICE_ENDPOINT"):
        monkeypatch.setenv(name, place.muster.env[name])


def launch(place: There, script: str = SAYS, workers: Any = 1, **fields: Any) -> tuple[str | Path, ...]:
    return ("run", job(place, script, workers=workers, **fields), "--on", place.on)


def detached(place: There, script: str = SAYS, workers: Any = 1, **fields: Any) -> str:
    """The run, once all its nodes are accepted."""
    return place.muster(*launch(place, script, workers, **fields), "--detach").stdout.strip()


def refused(place: There, workers: int = 3, **fields: Any) -> str:
    """What the user is told of a launch that is refused. Nothing is left of it."""
    told = place.muster(*launch(place, workers=workers, **fields), check=REFUSED).stderr
    run = place.muster.run_id()
    assert end(place, run) == "launch-refused"
    assert place.left() == []
    return told


# --- what is asked of the cloud --------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
def test_a_launch_asks_for_nothing_twice(place: There, workers: int) -> None:
    place.server.steering.reset_counts()
    detached(place, workers=workers)
    assert asked(place) == Counter({"get_subnet": 1, "create_job": 1, "get_job": 1, "create_run": 1 + workers})


@pytest.mark.parametrize("kind", ["create_job", "create_run", "get_job", "get_subnet"])
def test_the_reply_of_a_launch_is_lost(place: There, kind: str) -> None:
    place.server.steering.lose(kind=kind)
    run = detached(place)
    assert made(place, run) == Counter(["job", "main", "worker-1"])
    assert place.server.steering.waiting() == []


def test_the_replies_of_an_end_are_lost(place: There) -> None:
    run = detached(place)
    for kind in ("cancel_run", "list_runs", "delete_job"):
        place.server.steering.lose(kind=kind)
    assert "stopped (stop-requested)" in place.muster("stop", run).stdout
    assert place.left() == []
    assert place.server.steering.waiting() == []


def test_a_cloud_that_throttles_and_fails_is_asked_again(place: There) -> None:
    place.server.steering.fail(times=2, status=500, kind="create_job")
    place.server.steering.fail(times=3, status=503, kind="create_run")
    place.server.steering.ask("PUT", "throttle", 3)
    run = detached(place, workers=5)
    assert made(place, run).total() == 7
    assert "stopped" in place.muster("stop", run).stdout
    assert place.left() == []


@pytest.mark.slow
def test_a_cloud_that_is_away_for_a_while_does_not_end_a_run(place: There) -> None:
    place.server.delay("accepted", 0)
    go = "import os, pathlib, time\nprint('rank', os.environ['RANK'], 'here', flush=True)\ntime.sleep(25)\n"
    launcher = place.muster.start(*launch(place, go))
    all_here(place, place.muster.run_id(), 2)
    with place.server.steering.away("close"):
        time.sleep(20)  # as long as it is away
        assert launcher.poll() is None
    _, told = launcher.communicate(timeout=120)
    assert launcher.returncode == 0, told
    assert place.left() == []


# --- all or nothing --------------------------------------------------------------------------------------


def test_refused_for_quota(place: There) -> None:
    place.server.steering.ask("PUT", "quota", {SHAPE: 2})
    told = refused(place)
    assert f"{SHAPE} (2)" in told
    assert "LimitExceeded" in told
    assert "worker-" in told or "main" in told
    assert "run fewer workers" in told
    states = Counter(one["lifecycleState"] for one in runs(place, place.muster.run_id()))
    assert states == {"CANCELED": 2}


def test_refused_for_a_shape_that_is_not_offered(place: There) -> None:
    set_target(place, shape_name="VM.Standard9.Flex")
    told = refused(place)
    assert "refused the job" in told
    assert "VM.Standard9.Flex is not offered here" in told


@pytest.mark.parametrize(
    ("permission", "what"),
    [
        ("DATA_SCIENCE_JOB_CREATE", "the job"),
        ("DATA_SCIENCE_JOB_RUN_CREATE", "main"),
        ("SUBNET_READ", OCIDS["subnet_id"]),
    ],
)
def test_refused_for_a_policy_that_is_missing(place: There, permission: str, what: str) -> None:
    place.server.deny(permission)
    told = refused(place, workers=1)
    assert what in told or "worker-1" in told
    assert "`muster policy` prints" in told


def test_what_cannot_be_taken_back_is_named(place: There) -> None:
    place.server.refuse_run(1)
    place.server.deny("DATA_SCIENCE_JOB_DELETE")
    told = place.muster(*launch(place, workers=0), check=REFUSED).stderr
    (made_job,) = jobs(place, place.muster.run_id())
    assert "refused main" in told
    assert f"{made_job['id']} could not be taken back" in told
    assert "muster sweep" in told


# --- roles, secrets, the twin ----------------------------------------------------------------------------


def test_a_role_has_its_own_image_and_shape(place: There) -> None:
    other = "iad.ocir.io/rehearsal/worker:2"
    place.server.learn(images=[other])
    set_target(place, roles={"worker": {"shape_name": "VM.Standard2.2"}})
    run = detached(place, worker={"image": other})
    main, worker = run_of(place, run, "main"), run_of(place, run, "worker-1")
    assert main["jobInfrastructureConfigurationDetails"]["shapeName"] == SHAPE
    assert worker["jobInfrastructureConfigurationDetails"]["shapeName"] == "VM.Standard2.2"
    assert "jobEnvironmentConfigurationOverrideDetails" not in main
    assert worker["jobEnvironmentConfigurationOverrideDetails"]["image"] == other
    place.server.steering.ask("PUT", "quota", {"VM.Standard2.2": 1})
    assert "VM.Standard2.2 (1)" in place.muster(*launch(place, worker={"image": other}), check=REFUSED).stderr


SECRET = "rehearsed WANDB_API_KEY"
TELLS = """
import os, time
secret = os.environ["WANDB_API_KEY"]
print("rank", os.environ["RANK"], "here", len(secret), secret, flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_a_secret_of_the_vault_reaches_the_script_and_nothing_else(place: There, mark: str) -> None:
    vault = "ocid1.vaultsecret.oc1.iad.wandb"
    place.server.learn(secrets={"WANDB_API_KEY": vault})
    set_target(place, secrets={"WANDB_API_KEY": vault})
    place.server.delay("accepted", 0)
    fields = {"secrets": ["WANDB_API_KEY"], "ttl": "10m"}
    planned = place.muster("plan", job(place, TELLS, workers=1, **fields), "--on", place.on, "--json").stdout
    assert vault in planned
    launcher = place.muster.start(*launch(place, TELLS, **fields))
    run = place.muster.run_id()
    all_here(place, run, 2)
    told = logs(place, run)
    assert f"here {len(SECRET)} ***" in told
    word = SECRET.encode()
    store = open_store(work_dir(place))
    assert [entry.key for entry in store.list("") if word in store.get(entry.key)] == []
    assert SECRET not in planned + told + json.dumps([*runs(place, run), *jobs(place, run)])
    lines = command_lines()
    assert any(run.encode() in line or b"script.py" in line for line in lines)
    assert not [line for line in lines if word in line]
    place.muster("stop", run)
    launcher.communicate(timeout=60)


def command_lines() -> list[bytes]:
    """Of all processes of this machine."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_bytes())
    return found


@pytest.mark.slow
def test_the_twin_folder_points_to_the_run_and_a_stop_file_in_it_stops_the_run(place: There) -> None:
    place.server.delay("accepted", 0)
    launcher = place.muster.start(*launch(place, WAITS))
    run = place.muster.run_id()
    all_here(place, run, 2)
    (made_job,) = jobs(place, run)
    store, twin = open_store(work_dir(place)), made_job["id"]
    assert json.loads(store.get(f"{twin}/run.json")) == {"run": run}
    assert json.loads(store.get(f"{twin}/MAIN_config.json"))["node"] == "main"
    shown = status(place, run)["cloud"]
    assert [(one["node"], one["state"]) for one in shown] == [("main", "IN_PROGRESS"), ("worker-1", "IN_PROGRESS")]
    store.put(f"{twin}/stop", b"")
    launcher.communicate(timeout=120)
    assert end(place, run) == "stop-requested"
    assert place.left() == []


# --- ends ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_main_ends_a_job_run_that_never_came_with_its_launcher_gone(place: There) -> None:
    run = detached(place, SAYS, timeout="6s", ttl="5m")
    place.server.delay("accepted", 0, f"{run}-main")
    all_final(place, run, within=90)
    assert run_of(place, run, "worker-1")["lifecycleState"] == "CANCELED"
    assert run_of(place, run, "worker-1")["timeStarted"] is None
    assert end(place, run) == "not-ready"
    assert "worker-1" in result_of(place, run).missing
    assert "ended the job runs of worker-1" in logs(place, run)


@pytest.mark.slow
def test_all_nodes_lost_at_once_are_made_again_while_the_job_has_retries(place: There) -> None:
    place.server.delay("accepted", 0)
    once = (
        "import os, pathlib, time\nmark = pathlib.Path('checkpoints', 'mark')\n"
        "if mark.exists():\n    raise SystemExit(0)\n"
        "mark.with_suffix('.tmp').touch()\nmark.with_suffix('.tmp').rename(mark)\n"
        "print('rank', os.environ['RANK'], 'here', flush=True)\ntime.sleep(600)\n"
    )
    launcher = place.muster.start(*launch(place, once, workers=0, retries=1))
    run = place.muster.run_id()
    all_here(place, run, 1)
    place.kill(run, "main")
    _, told = launcher.communicate(timeout=150)
    assert launcher.returncode == 0, told
    assert made(place, run)["main"] == 2


@pytest.mark.slow
def test_stopped_from_another_machine_with_the_launcher_gone(place: There, tmp_path: Path) -> None:
    place.server.delay("accepted", 0)
    run = detached(place, WAITS, workers={"min": 1, "max": 2, "start": 1})
    all_here(place, run, 2)
    grown = json.loads(place.muster("scale", run, "2", "--json").stdout)
    assert grown["workers"] == ["worker-1", "worker-2"]
    place.muster.env["MUSTER_HOME"] = str(tmp_path / "elsewhere")
    assert "stopped" in place.muster("stop", run, "--work-dir", work_dir(place)).stdout
    assert place.left() == []


def freeze(mark: str) -> None:
    """All that a node consists of; what watches over its machine is not of it."""
    for number in eventually(lambda: [pid for pid, line in marked(mark).items() if "run_guard" not in line]):
        os.kill(number, signal.SIGSTOP)


@pytest.mark.slow
def test_what_is_stuck_is_ended_by_the_service(
    muster: Muster, mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Node and launcher can do nothing any more: the maximum runtime, 11 minutes, is half a second each here."""
    with account(tmp_path, mark, minute=0.5) as server:
        place = reach(muster, server, tmp_path)
        set_target(place)
        known_here(place, monkeypatch)
        launcher = muster.start(*launch(place, WAITS, workers=0, ttl="60s"))
        run = muster.run_id()
        eventually(lambda: runs(place, run) and runs(place, run)[0]["timeStarted"], within=60)
        kill(launcher)
        freeze(mark)
        all_final(place, run, within=90)
        assert "maximum runtime of 11 minutes" in runs(place, run)[0]["lifecycleDetails"]


@pytest.mark.slow
def test_a_stop_ends_nodes_that_do_not_answer(
    muster: Muster, mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with account(tmp_path, mark) as server:
        place = reach(muster, server, tmp_path)
        set_target(place)
        known_here(place, monkeypatch)
        launcher = muster.start(*launch(place, WAITS, workers=0))
        run = muster.run_id()
        all_here(place, run, 1)
        kill(launcher)
        freeze(mark)
        for module, name in ((launching, "_STOPPED_WITHIN"), (oci, "_GRACE"), (oci_home, "_SILENT")):
            monkeypatch.setattr(module, name, 2.0)
        result = launching.Run(run, work_dir(place)).stop()
        assert result is not None
        assert result.end.value == "stop-requested"
        assert "ended by their cloud" in result.detail
        assert place.left() == []


def test_interrupted_without_a_terminal_it_goes_on(place: There) -> None:
    launcher = place.muster.start(*launch(place))
    run = place.muster.run_id()
    eventually(lambda: made(place, run).total() == 3, within=60)
    eventually(lambda: asked(place)["list_runs"], within=60)  # it looks on
    os.kill(launcher.pid, signal.SIGINT)
    _, told = launcher.communicate(timeout=60)
    assert launcher.returncode == 130, told
    assert f"run {run} goes on" in told
    assert {one["lifecycleState"] for one in runs(place, run)} == {"ACCEPTED"}


# --- what the service heard ------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 1])
def test_the_words_of_an_image_without_python_are_in_the_logs_and_in_the_end(
    muster: Muster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    with oracle.started("training", environment={"PATH": "/nowhere"}) as server:
        server.learn(**OCIDS, images=[IMAGE])
        place = reach(muster, server, tmp_path)
        set_target(place)
        known_here(place, monkeypatch)
        done = muster(*launch(place, workers=workers), check=None)
        run = muster.run_id()
        assert done.returncode != 0
        assert "there is no Python in this image" in done.stderr
        assert "there is no Python in this image" in result_of(place, run).detail
        assert place.left() == []
        assert "exit code 127" in result_of(place, run).detail


def test_a_node_whose_program_was_changed_says_so(place: There) -> None:
    launcher = place.muster.start(*launch(place, workers=0))
    run = place.muster.run_id()
    eventually(lambda: made(place, run)["main"], within=60)
    store = open_store(work_dir(place))
    (program,) = [entry.key for entry in store.list("") if entry.key.endswith(".pyz")]
    store.put(program, b"something else")
    place.server.delay("accepted", 0)
    _, told = launcher.communicate(timeout=90)
    assert launcher.returncode != 0
    assert "digest" in told
    assert "digest" in result_of(place, run).detail


# --- other ways ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_of_the_services_own_kind_of_cluster(place: There) -> None:
    place.server.delay("accepted", 0)
    set_target(place, multi_node=True)
    place.muster(*launch(place, SAYS, workers=2))
    run = place.muster.run_id()
    told = logs(place, run)
    assert all(f"rank {rank} of 3" in told for rank in range(3))
    assert made(place, run) == Counter(["job", "all"])
    assert place.left() == []


@pytest.mark.parametrize("way", ["security_token", "resource_principal", "instance_principal"])
def test_a_launcher_is_somebody_in_every_way(place: There, tmp_path: Path, way: str) -> None:
    server, muster = place.server, place.muster
    if way == "security_token":
        muster.env["OCI_CONFIG_FILE"] = str(server.make_session(tmp_path / "session").config_file)
    else:
        del muster.env["OCI_CONFIG_FILE"]
        muster.env["HOME"] = str(tmp_path)
    if way == "resource_principal":
        muster.env |= server.resource_principal()
    if way == "instance_principal":
        muster.env |= {**server.instance_principal(), "OCI_SDK_AUTH_CLIENT_REGION_URL": server.endpoint}
    muster.env["OCI_IAM_TYPE"] = way
    set_target(place, auth=way)
    run = detached(place, workers=0)
    assert made(place, run) == Counter(["job", "main"])
    assert [one["state"] for one in status(place, run)["cloud"]] == ["ACCEPTED"]
