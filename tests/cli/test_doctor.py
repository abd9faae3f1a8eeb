"""`muster doctor`: findings as lines, as JSON, and as an exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.rehearsal.principals import COMPARTMENT
from tests.access.account import IMAGE, PROJECT, Account, opened
from tests.harness import Muster

TARGET = """
[targets.oci]
kind = "oci"
work_dir = "oci://training@rehearsal/team"
compartment_id = "{compartment}"
project_id = "{project}"
subnet_id = "{subnet}"
log_group_id = "{log_group}"
image = "{image}"
shape_name = "VM.Standard.E4.Flex"
shape_config_details = {{ocpus = 4, memory_in_gbs = 64}}
"""

PATIENT = ("--within", "120")
"""However busy this machine is."""


@pytest.fixture
def account(muster: Muster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    folder = tmp_path / "cloud"
    folder.mkdir()
    with opened(folder, monkeypatch) as (made, _, user):
        muster.env |= {
            "MUSTER_OCI_ENDPOINT": made.endpoint,
            "OCI_OBJECTSTORAGE_SERVICE_ENDPOINT": made.endpoint,
            "OCI_CONFIG_FILE": str(user.config_file),
            "HOME": str(folder),
            "MUSTER_CONTAINER_TOOL": str(folder / "bin" / "docker"),
        }
        yield made


def asked(muster: Muster, account: Account, framework: str = "dask") -> Path:
    job = muster.job("print('hello')", framework, workers=2)
    values = {
        "compartment": COMPARTMENT,
        "project": PROJECT,
        "subnet": account.subnet["id"],
        "log_group": account.log_group,
        "image": IMAGE,
    }
    (job.parent / "muster.toml").write_text(TARGET.format(**values))
    return job


def test_all_is_well(muster: Muster, account: Account) -> None:
    done = muster("doctor", asked(muster, account), "--on", "oci", *PATIENT)
    lines = done.stdout.splitlines()
    assert all(line.startswith("ok ") for line in lines), done.stdout
    assert "muster: 0 in the way of a run, 0 to look at," in done.stderr


def test_what_fails_has_its_fix_and_ends_with_one(muster: Muster, account: Account) -> None:
    account.network.change("securityLists", account.rules["id"], ingressSecurityRules=[])
    account.denied.add("DATA_SCIENCE_JOB_INSPECT")
    done = muster("doctor", asked(muster, account, "pytorch"), "--on", "oci", *PATIENT, check=1)
    assert "FAILS    jobs" in done.stdout
    assert "Allow group muster-users to manage data-science-jobs in compartment id" in done.stdout
    assert "Let all TCP in from 10.0.1.0/24" in done.stdout
    assert "gloo and NCCL take random ports" in done.stdout


def test_json_is_a_list_of_findings(muster: Muster, account: Account) -> None:
    account.artifacts.push("team/train", "1")
    done = muster("doctor", asked(muster, account), "--on", "oci", *PATIENT, "--json")
    found = json.loads(done.stdout)
    assert {tuple(each) for each in found} == {("check", "state", "what", "fix")}
    assert {each["state"] for each in found} == {"ok"}
    account.denied.add("SUBNET_READ")
    done = muster("doctor", asked(muster, account), "--on", "oci", *PATIENT, "--json", check=1)
    (told,) = [each for each in json.loads(done.stdout) if each["state"] == "fail"]
    assert told["check"] == "subnet"


def test_the_local_target(muster: Muster) -> None:
    done = muster("doctor", muster.job("print('hello')", "dask", workers=1))
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["python", "framework", "work-dir", "disk"]


def test_a_target_that_cannot_be_probed_says_so(muster: Muster) -> None:
    done = muster("doctor", muster.job("print('hello')", "dask", workers=1), "--probe", "--json")
    (told,) = [each for each in json.loads(done.stdout) if each["check"] == "probe"]
    assert told["state"] == "skipped"


def test_a_job_with_mistakes_is_not_examined(muster: Muster) -> None:
    done = muster("doctor", muster.job("print('hello')", "dask", workerz=1), check=2)
    assert "workerz" in done.stderr


def test_a_terminal_gets_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    from muster.access.findings import fail, ok
    from muster.cli.doctor import _table

    _table([ok("jobs", "you may"), fail("ports", "[red]closed", "Open them.")])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["ok", "jobs", "you", "may"], ["FAILS", "ports", "[red]closed"], ["→", "Open", "them."]]
