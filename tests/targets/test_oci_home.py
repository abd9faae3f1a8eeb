"""On Oracle's cloud: nodes that still bring things home are spared, and whoever asks later is told the truth."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster import launching
from muster.clouds.oci import check_endpoint
from muster.errors import StoreError
from muster.rehearsal.faults import Fault
from muster.workdir.addresses import with_defaults
from tests.harness import Muster, eventually
from tests.targets.oracle_place import There, account, reach, target_toml
from tests.targets.target_contract import LEAVES, SAYS, WAITS, job, status


@pytest.fixture
def place(muster: Muster, mark: str, tmp_path: Path) -> Iterator[There]:
    with account(tmp_path, mark) as server:
        yield reach(muster, server, tmp_path)


@pytest.mark.slow
def test_a_worker_that_is_still_uploading_when_main_leaves_is_not_cut_off(place: There) -> None:
    steering = place.server.steering
    steering.add(Fault("hold", method="PUT", key="/outputs/worker-1/"))
    launcher = place.muster.start("run", job(place, SAYS + LEAVES, workers=1), "--on", place.on)
    run = place.muster.run_id()
    eventually(lambda: steering.held() == 1, within=90)
    main, worker = (f"{run}-main", f"{run}-worker-1")
    eventually(lambda: states(place)[main] == "SUCCEEDED", within=60)
    assert states(place)[worker] == "IN_PROGRESS"
    steering.let_go()
    launcher.communicate(timeout=90)
    assert launcher.returncode == 0
    assert states(place) == {main: "SUCCEEDED", worker: "SUCCEEDED"}
    assert "1.txt" in place.muster("outputs", run, "--json").stdout


def states(place: There) -> dict[str, str]:
    return {run["displayName"]: run["lifecycleState"] for run in place.server.job_runs()}


def test_the_profile_of_the_target_holds_for_its_bucket_too(place: There, tmp_path: Path) -> None:
    config = Path(place.muster.env["OCI_CONFIG_FILE"])
    config.write_text(config.read_text().replace("[DEFAULT]", "[TEAM]"))
    toml = Path(place.muster.env["XDG_CONFIG_HOME"]) / "muster" / "muster.toml"
    toml.write_text(target_toml(place.server, profile="TEAM"))
    place.muster("run", job(place, SAYS, workers=0), "--on", place.on)
    run = place.muster.run_id()
    assert status(place, run)["result"]["state"] == "succeeded"
    assert "rank 0 of 1" in place.muster("logs", run).stdout


def test_a_detached_run_whose_machines_are_all_gone_is_over(place: There, monkeypatch: pytest.MonkeyPatch) -> None:
    place.server.delay("started", math.inf)
    run = place.muster("run", "--detach", job(place, WAITS, workers=1), "--on", place.on).stdout.strip()
    for name, value in place.muster.env.items():
        monkeypatch.setenv(name, value)
    found = launching.Run.find(run)
    assert found.poll() is None
    cloud = found.cloud
    assert cloud is not None
    jobs = cloud.jobs  # type: ignore[attr-defined]
    jobs.cancel([{"id": one.id, "lifecycleState": one.state} for one in found.observe()])
    eventually(lambda: all(one.final for one in found.observe()))
    result = launching.Run.find(run).poll()
    assert result is not None
    assert result.end.value == "main-lost"
    found.finish()
    assert place.left() == []


@pytest.mark.unit
@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("oci://b@n/p", "oci://b@n/p?profile=TEAM"),
        ("oci://b@n/p?profile=OWN&region=x", "oci://b@n/p?profile=OWN&region=x"),
    ],
)
def test_a_work_dir_that_says_otherwise_is_believed(url: str, told: str) -> None:
    assert with_defaults(url, {"profile": "TEAM"}) == told


@pytest.mark.unit
@pytest.mark.parametrize("evil", ["http://169.254.169.254", "http://example.com", "ftp://127.0.0.1", "127.0.0.1:80"])
def test_nothing_is_sent_in_the_clear_to_another_machine(evil: str) -> None:
    with pytest.raises(StoreError, match="is no address of Oracle's cloud"):
        check_endpoint(evil)
    assert check_endpoint("http://127.0.0.5:80")
    assert check_endpoint("https://objectstorage.us-ashburn-1.oraclecloud.com")
