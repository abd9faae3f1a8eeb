"""The environment of a node's processes: the names that ADS's scripts know, and Python's paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.node.settings import Settings
from muster.node.surroundings import process_environment
from muster.spec.job import Job, Role, Workers

pytestmark = pytest.mark.unit

JOB = Job(
    name="j",
    framework="tensorflow",
    entry="deep/train.py",
    workers=Workers(3, 3),
    ps=2,
    python_path=("src", "lib/deep"),
)


def seen(job: Job = JOB, by_hand: bool = False, env: dict[str, str] | None = None, **settings: Any) -> dict[str, str]:
    known: dict[str, Any] = {"work_dir": "/runs", "run": "run-1", "role": "worker", "node": "worker-2"}
    known |= {"job": job if by_hand else None, "folder": Path("/node"), **settings}
    return process_environment(Settings(**known), job, Path("/node/code"), env or {})


ADS = {
    "OCI__WORK_DIR": "/runs",
    "OCI__EPHEMERAL": "1",
    "OCI__CLUSTER_TYPE": "TENSORFLOW",
    "OCI__WORKER_COUNT": "3",
    "OCI__PS_COUNT": "2",
    "OCI__MODE": "WORKER",
    "OCI__ENTRY_SCRIPT": "deep/train.py",
    "OCI__CODE_DIR": "/node/code",
    "OCI__SYNC_DIR": "/node/code/outputs",
    "JOB_OCID": "run-1",
    "JOB_RUN_OCID": "run-1/worker-2",
}


def test_scripts_made_for_ads_find_what_they_know() -> None:
    found = seen(env={"OCI__RANK": "1", "RANK": "1"})
    assert {name: value for name, value in found.items() if name.startswith(("OCI__", "JOB_"))} == ADS
    assert "RANK" not in found


def test_what_does_not_apply_is_not_there() -> None:
    found = seen(Job(name="j", framework="dask", ephemeral=False))
    assert found["OCI__EPHEMERAL"] == "0"
    assert not {"OCI__PS_COUNT", "OCI__ENTRY_SCRIPT"} & found.keys()


def test_a_launchers_own_job_run_is_not_taken_for_the_nodes() -> None:
    outer = {"OCI__MODE": "MAIN", "OCI__WORKER_COUNT": "9", "JOB_OCID": "ocid1.job"}
    assert seen(env=outer) == {**seen(), "JOB_OCID": "ocid1.job"}


def test_a_node_that_was_started_by_its_environment_keeps_it() -> None:
    own = {"OCI__EPHEMERAL": "None", "OCI__WORK_DIR": "oci://b@n/x", "JOB_RUN_OCID": "ocid1.run"}
    assert seen(by_hand=True, env=own) == {**seen(), **own}
    assert seen(by_hand=True, node=None)["JOB_RUN_OCID"] == "run-1/node"


def test_the_job_has_the_last_word() -> None:
    job = Job(name="j", framework="dask", env={"OCI__MODE": "A"}, roles={"worker": Role(env={"JOB_OCID": "B"})})
    assert (seen(job)["OCI__MODE"], seen(job)["JOB_OCID"]) == ("A", "B")


def test_folders_inside_the_code_stand_behind_it_on_pythons_path() -> None:
    assert seen(env={"PYTHONPATH": "/mine"})["PYTHONPATH"] == "/node/code:/node/code/src:/node/code/lib/deep:/mine"
