"""The nodes' subnet: is it private, does it lead out, has it room, and do its rules let through what the job needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from typing import Any

from ..errors import CloudError
from ..spec.sources import code_source
from .doctor_facts import Facts
from .doctor_policies import refused, unseen
from .findings import Finding, State, fail, ok, skipped, warn
from .network import Walls
from .ports import rules

_RESERVED = 3
"""Addresses of each subnet that are Oracle's own: the first two and the last."""
Wire = Mapping[str, Any]


def network(facts: Facts) -> Iterator[Finding]:
    """All that is to be said of the subnet."""
    wanted = facts.option("subnet_id")
    if not wanted:
        yield _none(facts)
        return
    try:
        subnet = facts.ask("network", "get_subnet", wanted).data
    except CloudError as error:
        told = f"there is no subnet {wanted}, or none that you may use"
        yield refused(facts, "subnet", error, "SUBNET_READ", told, "Correct `subnet_id` of the target.")
        return
    yield from _subnet(subnet)
    yield from _names(facts, subnet)
    yield from _addresses(facts, subnet)


def _none(facts: Facts) -> Finding:
    count = sum(facts.nodes.values())
    if count > 1:
        told = f"the target names no subnet, and {count} nodes must reach each other"
        return fail(
            "subnet", told, "Write `subnet_id` into the target: a private subnet, as docs/oci-network.md makes."
        )
    return skipped("subnet", "none is named: the one node is in the service's own network")


def _subnet(subnet: Wire) -> Iterator[Finding]:
    name, cidr = subnet.get("displayName") or subnet["id"], subnet["cidrBlock"]
    if (state := subnet.get("lifecycleState", "AVAILABLE")) != "AVAILABLE":
        yield fail("subnet", f"{name} is {state}", "Name one that is available.")
    elif not subnet.get("prohibitPublicIpOnVnic"):
        fix = "Make a private one (`--prohibit-public-ip-on-vnic true`): nodes get no public address all the same."
        yield warn("subnet", f"{name} ({cidr}) is public", fix)
    else:
        yield ok("subnet", f"{name} ({cidr}) is private")
    if domain := subnet.get("availabilityDomain"):
        fix = "Make a regional subnet: leave --availability-domain out."
        yield warn("subnet", f"{name} is in {domain} alone, so the nodes are too", fix)


def _names(facts: Facts, subnet: Wire) -> Iterator[Finding]:
    """Nodes know each other by address; a name is needed only where the target's own settings have one."""
    mounts = [mount for mount in facts.options.get("storage_mount") or () if isinstance(mount, Mapping)]
    named = [str(mount["mount_target"]) for mount in mounts if mount.get("mount_target")]
    named = [name for name in named if not re.fullmatch(r"[\d.]+|ocid1\..*", name)]
    if named and not subnet.get("dnsLabel"):
        told = f"the subnet has no DNS label, and storage is mounted from {', '.join(named)}, which is a name"
        yield warn("dns", told, "Name the mount target by its address, or make the subnet with --dns-label.")


def _addresses(facts: Facts, subnet: Wire) -> Iterator[Finding]:
    count = sum(facts.nodes.values())
    free = ip_network(subnet["cidrBlock"]).num_addresses - _RESERVED
    note = ""
    try:
        free -= len(facts.items("network", "list_private_ips", subnet_id=subnet["id"], limit=1000))
    except CloudError:
        note = " at most (may not see which are taken)"
    if free < count:
        fix = "Use a larger subnet, or fewer workers; each node takes one address."
        yield fail("addresses", f"the subnet has {max(free, 0)} free addresses{note}, and {count} nodes want one", fix)
    else:
        yield ok("addresses", f"{free} free{note}, {count} wanted")


# --- the way out --------------------------------------------------------------------------------------------


def gateways(facts: Facts) -> Iterator[Finding]:
    """Whether the route table leads to Oracle's services, and to the world."""
    subnet = _seen(facts)
    if subnet is None:
        return
    try:
        table = facts.ask("network", "get_route_table", subnet["routeTableId"]).data
    except CloudError as error:
        yield unseen(facts, "gateway", error, "ROUTE_TABLE_READ", "may not see the subnet's route table")
        return
    ways = {_kind(rule): rule["networkEntityId"] for rule in table["routeRules"] if _kind(rule)}
    if not ways:
        told = "the subnet's route table leads neither to a NAT gateway nor to a service gateway"
        fix = "Add a route to one: without it no node reaches the work dir. docs/oci-network.md has the commands."
        yield fail("gateway", told, fix)
        return
    for kind, ocid in sorted(ways.items()):
        yield from _gateway(facts, kind, ocid)
    if "nat" not in ways:
        yield _only_services(facts)


def _kind(rule: Wire) -> str:
    """Which gateway a route goes to, if it is of use to a node that has no public address."""
    word = str(rule.get("networkEntityId", "")).split(".")[1:2]
    everywhere = rule.get("destination", rule.get("cidrBlock")) == "0.0.0.0/0"
    if word == ["natgateway"] and everywhere:
        return "nat"
    return "service" if word == ["servicegateway"] else ""


def _gateway(facts: Facts, kind: str, ocid: str) -> Iterator[Finding]:
    name = {"nat": "NAT gateway", "service": "service gateway"}[kind]
    try:
        found = facts.ask("network", f"get_{kind}_gateway", ocid).data
    except CloudError as error:
        yield unseen(
            facts,
            "gateway",
            error,
            f"{kind.upper()}_GATEWAY_READ",
            f"there is a route to a {name}, which you may not see",
        )
        return
    if found.get("blockTraffic"):
        yield fail(
            "gateway", f"the {name} blocks all traffic", f"oci network {kind}-gateway update --block-traffic false"
        )
        return
    services = [str(each.get("serviceName", "")) for each in found.get("services") or ()]
    if kind == "service" and not any(each.startswith("All ") for each in services):
        told = f"the service gateway leads to {', '.join(services) or 'no service'} alone"
        fix = "Add `All … Services In Oracle Services Network`: nodes also ask Data Science, Logging and the registry."
        yield warn("gateway", told, fix)
    else:
        yield ok("gateway", f"routes lead to a {name}")


def _only_services(facts: Facts) -> Finding:
    """A service gateway alone reaches nothing but Oracle's own services."""
    told = "nodes reach Oracle's services and nothing else: not PyPI, not another registry, not GitHub"
    source = code_source(facts.job.code) if facts.job.code else None
    outside = facts.job.requirements or (source is not None and source.kind != "bucket")
    if not outside:
        return ok("internet", told)
    what = "requirements" if facts.job.requirements else "code"
    return warn(
        "internet", f"{told}; the job's {what} come from there", "Add a NAT gateway, or bake it into the image."
    )


def _seen(facts: Facts) -> Wire | None:
    """The subnet, where there is one that we may see; `network` tells of it otherwise."""
    if not (wanted := facts.option("subnet_id")):
        return None
    try:
        found: Wire = facts.ask("network", "get_subnet", wanted).data
    except CloudError:
        return None
    return found


# --- the ports ----------------------------------------------------------------------------------------------


def ports(facts: Facts) -> Iterator[Finding]:
    """Whether each port that the job needs is open between the nodes, both ways."""
    subnet, wanted = _seen(facts), rules(facts.job)
    if subnet is None:
        return
    try:
        walls = _walls(facts, subnet)
    except CloudError as error:
        yield refused(
            facts, "ports", error, "SECURITY_LIST_READ", "may not see the subnet's security lists, or its groups'"
        )
        return
    if not wanted:
        yield ok("ports", "one node needs no port")
    for rule in wanted:
        closed = walls.closed(rule)
        what = f"{rule.name} ({rule.ports} on {rule.listens})"
        if not closed:
            yield ok("ports", f"{what} is open between the nodes")
            continue
        state: State = "warn" if rule.name == "control" else "fail"
        told = f"{what} is closed between the nodes: no {'; no '.join(closed)}. Why it is needed: {rule.reason}"
        yield Finding("ports", state, told, _open(rule.ports, str(walls.cidr)))
    if not walls.reaches_services():
        fix = (
            "Add an egress rule for TCP 443 to 0.0.0.0/0, or to Oracle's services (`muster ports --cli` has its form)."
        )
        yield fail("egress", "no egress rule lets the nodes dial Oracle's services on port 443", fix)


def _walls(facts: Facts, subnet: Wire) -> Walls:
    lists = [facts.ask("network", "get_security_list", ocid).data for ocid in subnet["securityListIds"]]
    listed = "list_network_security_group_security_rules"
    groups = {
        ocid: facts.items("network", listed, ocid, limit=1000) for ocid in facts.options.get("security_group_ids") or ()
    }
    return Walls.of(subnet, lists, groups)


def _open(ports: str, cidr: str) -> str:
    what = "all TCP" if ports == "all" else f"TCP {ports}"
    return f"Let {what} in from {cidr} and out to it: `muster ports --cli --cidr {cidr}` has the command."
