"""`muster opctl` against the rehearsed cloud: launched, shown, watched and cancelled by the OCIDs of the cloud."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.rehearsal import oracle
from tests.harness import Muster, eventually

PROJECT = "ocid1.datascienceproject.oc1.iad.training"
SUBNET = "ocid1.subnet.oc1.iad.private"
IMAGE = "iad.ocir.io/rehearsal/train:1"
SCRIPT = """\
import sys
from dask.distributed import Client

with Client() as client:
    print(f"{len(client.scheduler_info()['workers'])} workers", flush=True)
    while "--stay" in sys.argv:
        client.submit(pow, 2, 2).result()
"""


@pytest.fixture
def cloud(muster: Muster, mark: str) -> Iterator[oracle.OracleServer]:
    """A cloud whose images have this Python and the code, and a user of it with an ADS file."""
    python = str(Path(sys.executable).parent)
    inside = {"PATH": f"{python}:/usr/bin:/bin", "TEST_MARK": mark}
    with oracle.started("bucket", environment=inside) as server:
        user = server.make_user(muster.folder.parent)
        server.learn(compartment_id=server.compartment, project_id=PROJECT, subnet_id=SUBNET, images=[IMAGE])
        muster.env |= {"OCI_CONFIG_FILE": str(user.config_file), "MUSTER_OCI_ENDPOINT": server.endpoint}
        muster.env["OCI_OBJECTSTORAGE_SERVICE_ENDPOINT"] = server.endpoint
        (muster.folder / "src").mkdir()
        (muster.folder / "src" / "train.py").write_text(SCRIPT)
        yield server


def ads_file(muster: Muster, server: oracle.OracleServer, *args: str, workers: int = 1) -> Path:
    whole = {
        "kind": "distributed",
        "spec": {
            "infrastructure": {
                "kind": "infrastructure",
                "type": "dataScienceJob",
                "spec": {"compartmentId": server.compartment, "projectId": PROJECT, "subnetId": SUBNET},
            },
            "cluster": {
                "kind": "dask",
                "spec": {
                    "name": "tiny",
                    "image": IMAGE,
                    "workDir": f"oci://bucket@{server.namespace}/runs",
                    "worker": {"replicas": workers},
                },
            },
            "runtime": {
                "kind": "python",
                "spec": {"entryPoint": "train.py", "codeDir": str(muster.folder / "src"), "args": list(args)},
            },
        },
    }
    (muster.folder / "train.yaml").write_text(yaml.safe_dump(whole))
    return muster.folder / "train.yaml"


def launched(muster: Muster, file: Path) -> dict[str, Any]:
    """What is printed, kept in a file as its users keep it."""
    printed = muster("opctl", "run", "-f", file, "--nobuild").stdout
    (muster.folder / "info.yaml").write_text(printed)
    found: dict[str, Any] = yaml.safe_load(printed)
    return found


@pytest.mark.slow
def test_a_cluster_is_launched_shown_watched_and_cancelled(muster: Muster, cloud: oracle.OracleServer) -> None:
    ids = launched(muster, ads_file(muster, cloud, "--stay"))
    assert list(ids) == ["jobId", "mainJobRunId", "otherJobRunIds", "workDir"]
    assert ids["jobId"].startswith("ocid1.datasciencejob.")
    assert len(cloud.job_runs()) == 2

    training = ("opctl", "distributed-training")
    shown = eventually(lambda: muster(*training, "show-config", "-f", "info.yaml", check=None).stdout, within=120)
    assert yaml.safe_load(shown.partition("\n")[2])["node"] == "main"
    (main,) = [run["id"] for run in cloud.job_runs() if run["id"] in str(ids["mainJobRunId"])]
    watching = muster.start("opctl", "watch", main)
    eventually(lambda: "1 workers" in muster("logs", muster.run_id(), check=None).stdout, within=120)

    cancelled = muster(*training, "cancel", "-j", ids["jobId"])
    assert "stopped (stop-requested)" in cancelled.stdout
    assert "1 workers" in watching.communicate(timeout=60)[0]
    states = {run["lifecycleState"] for run in cloud.job_runs()}
    assert states <= {"SUCCEEDED", "FAILED", "CANCELED"}


@pytest.mark.slow
def test_a_refused_node_takes_all_of_the_launch_back(muster: Muster, cloud: oracle.OracleServer) -> None:
    cloud.refuse_run(3)
    done = muster("opctl", "run", "-f", ads_file(muster, cloud, workers=3), "--nobuild", check=120)
    assert done.stdout == ""
    assert "All of the launch is taken back" in done.stderr
    states = {run["lifecycleState"] for run in cloud.job_runs()}
    assert states <= {"SUCCEEDED", "FAILED", "CANCELED"}


def test_a_check_is_what_the_doctor_finds(muster: Muster, cloud: oracle.OracleServer) -> None:
    file = ads_file(muster, cloud)
    found = muster("opctl", "check", "-f", file, check=None)
    assert "Traceback" not in found.stderr
    told = muster("doctor", file, "--on", "oci", check=None)
    assert checks(found.stdout) == checks(told.stdout) != []
    assert found.returncode == told.returncode


def checks(text: str) -> list[str]:
    """Which checks were made, and how each went."""
    return sorted(" ".join(line.split()[:2]) for line in text.splitlines() if not line.startswith(" "))
