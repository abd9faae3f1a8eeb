"""`muster ports`: what must be open, as a table and in the forms of others."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from muster.access.ports import CONTROL_PORT
from tests.access.account import opened
from tests.harness import Muster

TARGET = """
[targets.oci]
kind = "oci"
work_dir = "oci://training@rehearsal/team"
compartment_id = "ocid1.compartment.oc1..rehearsal"
subnet_id = "{subnet}"
"""


def asked(
    muster: Muster, *words: str, framework: str = "dask", subnet: str = "ocid1.subnet.oc1.iad.a"
) -> tuple[str, str]:
    job = muster.job("print('hello')", framework, workers=2)
    (job.parent / "muster.toml").write_text(TARGET.format(subnet=subnet))
    done = muster("ports", job, *words)
    return done.stdout, done.stderr


def test_a_table_with_reasons(muster: Muster) -> None:
    told, notes = asked(muster, "--on", "oci")
    rows = {line.split()[0]: line for line in told.splitlines() if line[:1].isdigit()}
    assert list(rows) == ["8786", "8787", "8700-8800", "3000-3100", str(CONTROL_PORT)]
    assert "the workers and the script find the scheduler here" in rows["8786"]
    assert "in from SUBNET_CIDR and out to SUBNET_CIDR" in told
    assert "say them with --cidr" in notes


def test_pytorch_says_why_its_port_is_not_enough(muster: Muster) -> None:
    told, _ = asked(muster, "--on", "oci", "--cidr", "10.0.1.0/24", framework="pytorch")
    (row,) = [line for line in told.splitlines() if line.startswith("all ")]
    assert "gloo and NCCL take random ports" in row
    assert "with 29400 alone" in row


def test_json_has_what_a_security_list_takes(muster: Muster) -> None:
    told, notes = asked(muster, "--on", "oci", "--json", "--cidr", "10.0.1.0/24")
    found = json.loads(told)
    assert [rule["name"] for rule in found["rules"]] == ["scheduler", "dashboard", "workers", "nannies", "control"]
    assert {rule["source"] for rule in found["ingressSecurityRules"]} == {"10.0.1.0/24"}
    assert {rule["destination"] for rule in found["egressSecurityRules"]} == {"10.0.1.0/24"}
    assert notes == ""


def test_the_command_is_ready_to_be_run(muster: Muster) -> None:
    told, notes = asked(
        muster, "--on", "oci", "--cli", "--cidr", "10.0.1.0/24", "--list", "ocid1.securitylist.oc1.iad.a"
    )
    words = shlex.split(told)
    assert words[:4] == ["oci", "network", "security-list", "update"]
    assert words[words.index("--security-list-id") + 1] == "ocid1.securitylist.oc1.iad.a"
    assert len(json.loads(words[words.index("--ingress-security-rules") + 1])) == 3
    assert "replaces all rules" in notes


def test_terraform(muster: Muster) -> None:
    told, _ = asked(muster, "--on", "oci", "--terraform")
    assert told.count("ingress_security_rules {") == 3
    assert 'variable "subnet_cidr"' in told


def test_on_this_machine_nothing_has_to_be_opened(muster: Muster) -> None:
    told, notes = asked(muster)
    assert "in from this machine" in told
    assert "nothing has to be opened" in notes


def test_one_node_needs_nothing(muster: Muster) -> None:
    done = muster("ports", muster.job("print('hello')", "dask", workers=0))
    assert done.stdout == "One node: nothing has to be open.\n"


def test_addresses_that_are_none(muster: Muster) -> None:
    job = muster.job("print('hello')", "dask", workers=2)
    done = muster("ports", job, "--cidr", "10.0.1.5/24", check=2)
    assert "10.0.1.0/24" in done.stderr


def test_the_cloud_is_asked_for_the_subnet(muster: Muster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cloud").mkdir()
    with opened(tmp_path / "cloud", monkeypatch) as (account, _, user):
        muster.env |= {"MUSTER_OCI_ENDPOINT": account.endpoint, "OCI_CONFIG_FILE": str(user.config_file)}
        told, notes = asked(muster, "--on", "oci", "--ask", subnet=account.subnet["id"])
    assert "in from 10.0.1.0/24" in told
    assert notes == ""
    done = muster("ports", muster.job("", "dask", workers=1), "--ask", check=2)
    assert "names no subnet" in done.stderr
