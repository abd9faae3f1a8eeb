"""A policy as an administrator takes it: text to paste, Terraform, or commands of Oracle's own command line."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

from .policies import DynamicGroup, Policy
from .terraform import Reference, identifier, resource, variable

_TENANCY = '"${TENANCY:?the OCID of your tenancy}"'


def as_text(policy: Policy) -> str:
    """Each rule and statement below a comment that says what it is for."""
    return "\n".join(_text_lines(policy)) + "\n"


def _text_lines(policy: Policy) -> Iterator[str]:
    for group in policy.dynamic_groups:
        yield from (f"# Dynamic group {group.name}: {group.why}", group.rule, "")
    yield f"# Policy {policy.name}, in the root compartment of the tenancy"
    for statement in policy.statements:
        yield from ("", f"# {statement.who}: {statement.why}", statement.text)


def as_terraform(policy: Policy) -> str:
    """Resources of the provider `oracle/oci`, which are made in the tenancy's home region."""
    groups = {identifier(group.name): group for group in policy.dynamic_groups}
    made = [variable("tenancy_ocid", "The OCID of the tenancy")]
    made += [resource("oci_identity_dynamic_group", name, _group(group)) for name, group in groups.items()]
    values = {
        "compartment_id": Reference("var.tenancy_ocid"),
        "name": policy.name,
        "description": policy.description,
        "statements": [statement.text for statement in policy.statements],
        "depends_on": [Reference(f"oci_identity_dynamic_group.{name}") for name in groups],
    }
    return "\n".join([*made, resource("oci_identity_policy", identifier(policy.name), values)])


def _group(group: DynamicGroup) -> dict[str, object]:
    return {
        "compartment_id": Reference("var.tenancy_ocid"),
        "name": _own(group.name),
        "description": group.why,
        "matching_rule": group.rule,
    }


def as_commands(policy: Policy) -> str:
    """Commands for a shell in which TENANCY is the tenancy's OCID."""
    return "\n".join(_commands(policy)) + "\n"


def _commands(policy: Policy) -> Iterator[str]:
    for group in policy.dynamic_groups:
        said = {"name": _own(group.name), "description": group.why, "matching-rule": group.rule}
        yield f"oci iam dynamic-group create --compartment-id {_TENANCY} {_options(said)}"
    statements = json.dumps([statement.text for statement in policy.statements], indent=2)
    said = {"name": policy.name, "description": policy.description, "statements": statements}
    yield f"oci iam policy create --compartment-id {_TENANCY} {_options(said)}"


def _options(said: dict[str, str]) -> str:
    return " ".join(f"--{name} {shlex.quote(value)}" for name, value in said.items())


def _own(name: str) -> str:
    """The name without its identity domain."""
    return name.rpartition("/")[2]
