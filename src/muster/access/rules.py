"""What must be open between the nodes of a job, as a value, and in the words of Oracle's network: a security list's
JSON, the `oci` command, Terraform."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .terraform import Block, Reference, identifier, resource, variable

LAST_PORT = 65535
TCP = "6"
CIDR = "SUBNET_CIDR"
"""Stands for the addresses of the subnet where nobody has said them."""

LIST = "SECURITY_LIST_OCID"


@dataclass(frozen=True)
class PortRule:
    """A range of TCP ports that every node must reach on every other, and why."""

    name: str
    first: int
    last: int
    listens: str
    """Who listens there: `main`, `worker`, `ps`, or `every node`."""
    reason: str

    @property
    def ports(self) -> str:
        if (self.first, self.last) == (1, LAST_PORT):
            return "all"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    def covers(self, other: PortRule) -> bool:
        return self.first <= other.first and other.last <= self.last

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "protocol": "tcp"}


def least(rules: Iterable[PortRule]) -> list[PortRule]:
    """The fewest rules that open the same: none that another covers."""
    kept: list[PortRule] = []
    for rule in sorted(rules, key=lambda each: (each.first - each.last, each.first)):
        if not any(other.covers(rule) for other in kept):
            kept.append(rule)
    return sorted(kept, key=lambda each: each.first)


def wire(rules: Iterable[PortRule], side: str, cidr: str) -> list[dict[str, Any]]:
    """The rules of a security list; `side` is `source` for what comes in, `destination` for what goes out."""
    return [
        {
            "protocol": TCP,
            side: cidr,
            f"{side}Type": "CIDR_BLOCK",
            "isStateless": False,
            "description": f"muster: {rule.name}",
            **_options(rule),
        }
        for rule in least(rules)
    ]


def _options(rule: PortRule) -> dict[str, Any]:
    if rule.ports == "all":
        return {}
    return {"tcpOptions": {"destinationPortRange": {"min": rule.first, "max": rule.last}}}


def group_wire(rules: Sequence[PortRule], cidr: str) -> list[dict[str, Any]]:
    """The same for a network security group."""
    ways = (("INGRESS", "source"), ("EGRESS", "destination"))
    return [{"direction": way, **rule} for way, side in ways for rule in wire(rules, side, cidr)]


def command(rules: Sequence[PortRule], cidr: str, group: str = "", security_list: str = "") -> str:
    """The line that opens the ports with the `oci` command: in this security group, else in a security list."""
    if group:
        words = ["oci", "network", "nsg", "rules", "add", "--nsg-id", group]
        return shlex.join([*words, "--security-rules", json.dumps(group_wire(rules, cidr))])
    words = ["oci", "network", "security-list", "update", "--security-list-id", security_list or LIST, "--force"]
    words += ["--ingress-security-rules", json.dumps(wire(rules, "source", cidr))]
    return shlex.join([*words, "--egress-security-rules", json.dumps(wire(rules, "destination", cidr))])


def terraform(rules: Sequence[PortRule], name: str, cidr: str, group: str = "") -> str:
    """The resources that open the ports: rules of this security group, else a security list of their own."""
    label = identifier(f"muster_{name}")
    place: Any = Reference("var.subnet_cidr") if cidr == CIDR else cidr
    asked = [variable("subnet_cidr", "The addresses of the nodes' subnet.")] if cidr == CIDR else []
    if group:
        made = group_wire(rules, cidr)
        return "\n".join([*asked, *(_group_rule(f"{label}_{at}", rule, place, group) for at, rule in enumerate(made))])
    asked += [variable("compartment_id", "Where the list is made."), variable("vcn_id", "The network of the subnet.")]
    values = {
        "compartment_id": Reference("var.compartment_id"),
        "vcn_id": Reference("var.vcn_id"),
        "display_name": f"muster {name}",
        "ingress_security_rules": [_list_rule(rule, "source", place) for rule in wire(rules, "source", cidr)],
        "egress_security_rules": [_list_rule(rule, "destination", place) for rule in wire(rules, "destination", cidr)],
    }
    return "\n".join([*asked, resource("oci_core_security_list", label, values)])


def _list_rule(rule: Mapping[str, Any], side: str, place: Any) -> Block:
    bounds = _bounds(rule)
    options = {"tcp_options": Block(dict(bounds))} if bounds else {}
    return Block({"protocol": rule["protocol"], side: place, "description": rule["description"], **options})


def _group_rule(label: str, rule: Mapping[str, Any], place: Any, group: str) -> str:
    side = "source" if rule["direction"] == "INGRESS" else "destination"
    bounds = _bounds(rule)
    values = {
        "network_security_group_id": group,
        "direction": rule["direction"],
        "protocol": rule["protocol"],
        side: place,
        f"{side}_type": "CIDR_BLOCK",
        "description": rule["description"],
        **({"tcp_options": Block({"destination_port_range": Block(dict(bounds))})} if bounds else {}),
    }
    return resource("oci_core_network_security_group_security_rule", label, values)


def _bounds(rule: Mapping[str, Any]) -> Mapping[str, int]:
    found: Mapping[str, int] = rule.get("tcpOptions", {}).get("destinationPortRange", {})
    return found
