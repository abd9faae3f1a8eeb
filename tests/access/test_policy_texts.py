"""A policy as Terraform and as commands: what an administrator runs says just what the policy says."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.access.policies import policy
from muster.access.policy_needs import Needs
from muster.access.policy_texts import as_commands, as_terraform, as_text
from muster.access.terraform import Block, Reference, identifier, quoted, resource
from muster.errors import MusterError

MADE = policy(
    Needs(
        "ocid1.compartment.oc1..here",
        "work",
        users="Default/team",
        runs="runs.of-us",
        launcher="notebook",
        subnet=True,
        secrets=("ocid1.vaultsecret.oc1.iad.a", "ocid1.vaultsecret.oc1.iad.b"),
    )
)
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def strings(text: str) -> Iterator[str]:
    """The texts of a piece of Terraform, as Terraform reads them."""
    for literal in STRING.findall(text):
        assert not re.search(r"(?<!\$)\$\{|(?<!%)%\{", literal), f"an expression in {literal}"
        yield json.loads(literal.replace("$${", "${").replace("%%{", "%{"))


def balanced(text: str) -> bool:
    """Whether brackets and braces outside of texts open and close in turn."""
    opened = []
    for mark in re.findall(r"[\[\]{}]", STRING.sub("", text)):
        if mark in "[{":
            opened.append(mark)
        elif not opened or opened.pop() + mark not in ("[]", "{}"):
            return False
    return not opened


@pytest.mark.unit
def test_terraform_has_the_groups_and_all_statements() -> None:
    text = as_terraform(MADE)
    assert balanced(text)
    found = list(strings(text))
    assert [each for each in found if each.startswith("Allow ")] == [each.text for each in MADE.statements]
    assert {each.rule for each in MADE.dynamic_groups} <= set(found)
    assert 'resource "oci_identity_dynamic_group" "runs_of_us" {' in text
    assert 'resource "oci_identity_dynamic_group" "default_team" {' in text
    assert 'name           = "team"' in text
    assert text.count("= var.tenancy_ocid\n") == 3
    assert "    oci_identity_dynamic_group.default_team,\n" in text


@pytest.mark.unit
@given(st.text(max_size=30))
def test_terraform_reads_a_text_as_it_was(text: str) -> None:
    made = resource("a", "b", {"c": text, "d": [text, text], "e": {text: text}, "f": Block({"g": text})})
    assert balanced(made)
    assert list(strings(made)) == ["a", "b", *[text] * 6]
    assert "\n" not in quoted(text)


@pytest.mark.unit
def test_terraform_of_values_blocks_and_names() -> None:
    rules = [Block({"protocol": "6", "tcp_options": Block({"min": 1, "max": 2})}), Block({"stateless": True})]
    made = resource("oci_core_security_list", "nodes", {"vcn_id": Reference("var.vcn"), "rule": rules, "n": 0.5})
    assert made == (
        'resource "oci_core_security_list" "nodes" {\n'
        "  vcn_id = var.vcn\n"
        '  rule {\n    protocol = "6"\n    tcp_options {\n      min = 1\n      max = 2\n    }\n  }\n'
        "  rule {\n    stateless = true\n  }\n"
        "  n      = 0.5\n"
        "}\n"
    )
    assert identifier("Default/9 a-b") == "default_9_a_b"
    assert identifier("9") == "_9"
    for wrong in ('a" "b', "a\nb", ""):
        with pytest.raises(MusterError, match="is no name in Terraform's language"):
            resource("a", wrong, {})


def test_a_shell_hands_the_commands_on_as_they_are_meant(tmp_path: Path) -> None:
    """Run for real, with a command in the place of `oci` that writes down its words."""
    notes = tmp_path / "notes"
    (tmp_path / "oci").write_text(f'#!/bin/sh\nprintf "%s\\0" "$@" >>{notes}\nprintf "\\0" >>{notes}\n')
    (tmp_path / "oci").chmod(0o755)
    env = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    told = subprocess.run(["bash", "-euc", as_commands(MADE)], env=env, capture_output=True, text=True)
    assert told.returncode != 0
    assert "the OCID of your tenancy" in told.stderr
    assert not notes.exists()
    subprocess.run(["bash", "-euc", as_commands(MADE)], env={**env, "TENANCY": "ocid1.tenancy.oc1..t"}, check=True)
    typed = [line.split("\0") for line in notes.read_text().split("\0\0")[:-1]]
    assert [words[:3] for words in typed] == [["iam", "dynamic-group", "create"]] * 2 + [["iam", "policy", "create"]]
    options = [dict(zip(words[3::2], words[4::2], strict=True)) for words in typed]
    assert all(each["--compartment-id"] == "ocid1.tenancy.oc1..t" for each in options)
    assert [each["--matching-rule"] for each in options[:2]] == [group.rule for group in MADE.dynamic_groups]
    assert [each["--name"] for each in options] == ["runs.of-us", "team", "muster"]
    assert json.loads(options[2]["--statements"]) == [each.text for each in MADE.statements]


@pytest.mark.unit
def test_the_text_has_a_reason_above_each_line() -> None:
    lines = as_text(MADE).splitlines()
    for statement in MADE.statements:
        assert lines[lines.index(statement.text) - 1] == f"# {statement.who}: {statement.why}"
    plain = [line for line in lines if line and not line.startswith("#")]
    assert plain == [*(each.rule for each in MADE.dynamic_groups), *(each.text for each in MADE.statements)]
