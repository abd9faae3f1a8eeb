"""The real `ads opctl run` against the rehearsed cloud: its clusters start there, Muster's nodes take its environment,
and where it falls short, ours does not."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.rehearsal.oracle import OracleServer
from tests.harness import Muster, eventually
from tests.rehearsal.peers import PEERS, Peer, peer
from tests.targets.oracle_place import FINAL, IMAGE, OCIDS, There, account, reach

pytestmark = [pytest.mark.slow]

SHOWS = [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
WAITS = ["sleep", "600"]
NODE = [sys.executable, "-m", "muster.node"]
TRAINS = """\
import os, sys
from distributed import Client

with Client() as client:
    client.wait_for_workers(2)
    print(client.submit(sum, [1, 2]).result(), sys.argv[1:], os.environ["TEST"], bool(os.environ["SCHEDULER_IP"]))
"""
LINES = """\
import json, os, re, sys
from click.testing import CliRunner
from ads.cli import click_cli

heard = {}
for name, line in json.loads(sys.argv[1]).items():
    os.environ["HOME"] = line["home"]
    made = re.findall(r"main: (ocid1.datasciencejobrun[\\w.]+)", json.dumps(heard)) or ["none"]
    done = CliRunner().invoke(click_cli, [made[0] if word == "@main" else word for word in line["words"]])
    heard[name] = {"code": done.exit_code, "said": done.output + repr(done.exception)}
json.dump(heard, open("heard.json", "w"))
"""
"""Several command lines in one process, for ADS takes seconds to load; `@main` is the first main that was printed."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OracleServer]:
    with account(tmp_path_factory.mktemp("cloud")) as found:
        yield found


@pytest.fixture(scope="module")
def user(server: OracleServer, tmp_path_factory: pytest.TempPathFactory) -> Peer:
    return peer(server, tmp_path_factory.mktemp("user"))


@pytest.fixture
def there(muster: Muster, server: OracleServer, tmp_path: Path) -> There:
    """Our own command, as another user of the same cloud."""
    return reach(muster, server, tmp_path)


def ads_file(folder: Path, name: str = "train", **cluster: Any) -> Path:
    """A cluster of Dask as ADS's users write it; `cluster` replaces or (None) takes away."""
    infrastructure = {
        "compartmentId": OCIDS["compartment_id"],
        "projectId": OCIDS["project_id"],
        "subnetId": OCIDS["subnet_id"],
        "shapeName": "VM.Standard.E4.Flex",
        "shapeConfigDetails": {"ocpus": 1, "memoryInGBs": 16},
        "blockStorageSize": 50,
    }
    whole = {
        "image": IMAGE,
        "workDir": "oci://training@rehearsal/ads",
        "name": name,
        "config": {"env": [{"name": "OCI__TIMEOUT", "value": "60"}], "startOptions": ["--memory-limit 1GiB"]},
        "main": {"config": None},
        "worker": {"replicas": 2, "config": {"env": [{"name": "WHO", "value": "worker"}]}},
        **cluster,
    }
    runtime = {
        "entryPoint": str(folder / "train.py"),
        "args": ["one", 2],
        "kwargs": "--epochs 3",
        "env": [{"name": "TEST", "value": "tested"}],
    }
    parts = {
        "infrastructure": {"kind": "infrastructure", "type": "dataScienceJob", "spec": infrastructure},
        "cluster": {"kind": "dask", "spec": {key: value for key, value in whole.items() if value is not None}},
        "runtime": {"kind": "python", "spec": runtime},
    }
    (folder / "train.py").write_text(TRAINS, encoding="utf-8")
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"kind": "distributed", "apiVersion": "v1.0", "spec": parts}), encoding="utf-8")
    return path


def printed(said: str) -> dict[str, Any]:
    """The OCIDs that `run` prints as YAML, behind its first line."""
    return dict(yaml.safe_load(said[said.index("jobId:") :]))


def run_ids(told: dict[str, Any]) -> dict[str, str]:
    """The job runs, main first, by their names."""
    return {name: ocid for each in (told["mainJobRunId"], *told["otherJobRunIds"]) for name, ocid in each.items()}


def states(server: OracleServer, ids: dict[str, str]) -> list[str]:
    return [str(run["lifecycleState"]) for run in server.job_runs() if run["id"] in ids.values()]


def all_ended(server: OracleServer, ids: dict[str, str]) -> list[str]:
    eventually(lambda: all(state in FINAL for state in states(server, ids)), within=90)
    return states(server, ids)


def set_image(server: OracleServer, argv: list[str]) -> None:
    server.steering.ask("POST", "images", {"image": IMAGE, "argv": argv})


def test_its_cluster_starts_with_the_environment_of_the_reference(server: OracleServer, user: Peer) -> None:
    set_image(server, SHOWS)
    path = ads_file(user.folder)
    before = server.steering.counts()
    told = printed(user("ads", "opctl", "run", "-f", path, "--nobuild").stdout)
    asked = (server.steering.counts() - before).requests
    assert asked == {
        ("POST", "create_job"): 1,
        ("GET", "get_job"): 1,
        ("HEAD", "head_artifact"): 1,
        ("POST", "create_run"): 3,
        ("GET", "get_run"): 3,
    }
    ids = run_ids(told)
    assert list(ids) == ["main", "worker_0", "worker_1"]
    assert told["workDir"] == "oci://training@rehearsal/ads"
    assert all_ended(server, ids) == ["SUCCEEDED"] * 3
    seen = {name: json.loads(server.steering.ask("GET", "output", ocid)) for name, ocid in ids.items()}
    for name, environment in seen.items():
        assert environment["JOB_OCID"] == told["jobId"]
        assert environment["JOB_RUN_OCID"] == ids[name]
        assert {key: value for key, value in environment.items() if key.startswith("OCI__")} == {
            "OCI__WORK_DIR": "oci://training@rehearsal/ads",
            "OCI__EPHEMERAL": "None",
            "OCI__CLUSTER_TYPE": "DASK",
            "OCI__WORKER_COUNT": "2",
            "OCI__START_ARGS": "--memory-limit 1GiB",
            "OCI__ENTRY_SCRIPT": str(user.folder / "train.py"),
            "OCI__ENTRY_SCRIPT_ARGS": "one 2",
            "OCI__ENTRY_SCRIPT_KWARGS": "--epochs 3",
            "OCI__TIMEOUT": "60",
            "OCI__MODE": "MAIN" if name == "main" else "WORKER",
        }
    assert [seen[name]["RANK"] for name in ids] == ["0", "1", "2"]
    assert [seen[name].get("WHO") for name in ids] == [None, "worker", "worker"]


def test_it_launches_nodes_of_ours_and_they_are_one_cluster(server: OracleServer, user: Peer, there: There) -> None:
    set_image(server, NODE)
    told = printed(user("ads", "opctl", "run", "-f", ads_file(user.folder, "ours"), "--nobuild").stdout)
    assert all_ended(server, run_ids(told)) == ["SUCCEEDED"] * 3
    words = (told["jobId"], "--work-dir", told["workDir"])
    assert "3 ['one', '2', '--epochs', '3'] tested True" in there.muster("logs", *words).stdout
    assert json.loads(there.muster("status", *words, "--json").stdout)["result"]["state"] == "succeeded"
    assert "ours" in there.jobs(), "ADS cleans up now"


# --- where it falls short, and ours does not -----------------------------------------------------------------


def test_a_refused_run_leaves_its_cluster_half_there_and_ours_not_at_all(
    server: OracleServer, user: Peer, there: There
) -> None:
    set_image(server, WAITS)
    path = ads_file(user.folder, "refused")
    server.refuse_run(3)
    theirs = user("ads", "opctl", "run", "-f", path, "--nobuild", check=1)
    left = [run for run in server.job_runs() if run["lifecycleState"] == "IN_PROGRESS"]
    assert [run["displayName"] for run in left] == ["main", "worker_0"]
    assert "jobId" not in theirs.stdout
    assert left[0]["jobId"] not in theirs.stdout + theirs.stderr
    cancels_one_after_the_other(server, user, left)
    before = there.left()
    server.refuse_run(3)
    ours = there.muster("opctl", "run", "-f", path, "--nobuild", check=120)
    assert "LimitExceeded" in ours.stderr
    assert eventually(lambda: there.left() == before, within=60)


def cancels_one_after_the_other(server: OracleServer, user: Peer, runs: list[dict[str, Any]]) -> None:
    """ADS asks for the next run to be canceled only when the first is gone."""
    server.delay("canceled", 600)
    before = server.steering.counts()

    def asked(kind: str) -> int:
        return (server.steering.counts() - before).of(kind)

    words = ("distributed-training", "cancel", "-j", runs[0]["jobId"], "--oci-profile", "DEFAULT")
    process = user.start("ads", "opctl", *words)
    eventually(lambda: asked("get_run") >= 2, within=120)
    assert asked("cancel_run") == 1
    server.delay("canceled", 0)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert asked("cancel_run") == 2
    assert all_ended(server, {run["displayName"]: run["id"] for run in runs}) == ["CANCELED"] * 2


@pytest.fixture(scope="module")
def heard(server: OracleServer, user: Peer) -> dict[str, Any]:
    """What ADS says to files with mistakes, and to users without a profile: exit code and words, by name."""
    set_image(server, SHOWS)
    nobody = str(user.folder / "nobody")
    runs = ["opctl", "run", "--nobuild", "-f"]
    cancels = ["opctl", "distributed-training", "cancel"]
    lines = {
        "typo": [*runs, str(ads_file(user.folder, "typo", **TYPO))],
        "no runtime": [*runs, str(without_runtime(ads_file(user.folder, "bare")))],
        "stays": [*runs, str(ads_file(user.folder, "stays", ephemeral=False)), "--dry-run"],
        "nobody": [*runs, str(ads_file(user.folder, "nobody")), "--dry-run"],
        "no profile": [*cancels, "-j", "ocid1.datasciencejob.oc1.iad.any"],
        "watch": ["opctl", "watch", "@main", "--interval", "1", "--wait", "1"],
    }
    homes = {"nobody": nobody}
    asked = {name: {"words": words, "home": homes.get(name, str(user.folder))} for name, words in lines.items()}
    user(PEERS / "python", "-c", LINES, json.dumps(asked))
    found: dict[str, Any] = json.loads((user.folder / "heard.json").read_text(encoding="utf-8"))
    return found


TYPO = {"workDir": None, "workDirr": "oci://training@rehearsal/ads", "worker": {"replicas": 0}}


def without_runtime(path: Path) -> Path:
    whole = yaml.safe_load(path.read_text(encoding="utf-8"))
    del whole["spec"]["runtime"]
    path.write_text(yaml.safe_dump(whole), encoding="utf-8")
    return path


def test_a_mistyped_file_starts_a_cluster_there_and_is_refused_here(heard: Any, there: There, tmp_path: Path) -> None:
    """No work dir, and one worker where none was wanted."""
    assert heard["typo"]["code"] == 0
    told = printed(heard["typo"]["said"].removesuffix("None"))
    assert told["workDir"] is None
    assert len(run_ids(told)) == 2
    ours = there.muster("opctl", "run", "--nobuild", "-f", ads_file(tmp_path, "typo", **TYPO), check=2)
    assert "workDirr" in ours.stderr
    assert "`workDir`" in ours.stderr


def test_no_workers_are_no_workers(there: There, tmp_path: Path) -> None:
    path = ads_file(tmp_path, "alone", worker={"replicas": 0})
    told = json.loads(there.muster("plan", path, "--on", "oci", "--json").stdout)
    assert [node["name"] for node in told["nodes"]] == ["main"]


def test_a_missing_runtime_is_a_type_error_there_and_a_sentence_here(heard: Any, there: There, tmp_path: Path) -> None:
    assert heard["no runtime"]["code"] == 1
    assert "TypeError: 'NoneType' object is not subscriptable" in heard["no runtime"]["said"]
    path = without_runtime(ads_file(tmp_path, "bare"))
    ours = there.muster("opctl", "run", "--nobuild", "-f", path, check=2)
    assert "runtime" in ours.stderr


def test_a_cluster_that_stays_is_told_so_in_a_word_that_means_yes(heard: Any, there: There, tmp_path: Path) -> None:
    """Its nodes take any text for yes, so `False` too."""
    env = yaml.safe_load(heard["stays"]["said"].partition("with payload:")[2].partition("+++")[0])
    said = {each["name"]: each["value"] for each in env["spec"]["runtime"]["spec"]["env"]}
    assert said["OCI__EPHEMERAL"] == "False"
    path = ads_file(tmp_path, "stays", ephemeral=False)
    assert "ephemeral: false" in there.muster("convert", path).stdout


def test_a_dry_run_needs_a_config_file_there_and_nothing_here(heard: Any, there: There, tmp_path: Path) -> None:
    assert "ConfigFileNotFound" in heard["nobody"]["said"]
    del there.muster.env["OCI_CONFIG_FILE"]
    path = ads_file(tmp_path, "nobody")
    ours = there.muster("opctl", "run", "--nobuild", "-f", path, "--dry-run", HOME=str(tmp_path / "nobody"))
    assert "worker-2" in ours.stdout


def test_its_cancel_needs_a_profile(heard: Any) -> None:
    assert "ProfileNotFound" in heard["no profile"]["said"]


def test_it_watches_a_run_of_the_rehearsed_cloud(heard: Any) -> None:
    assert heard["watch"]["code"] == 0
    assert "Job Run SUCCEEDED" in heard["watch"]["said"]
