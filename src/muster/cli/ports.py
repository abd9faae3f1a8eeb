"""`muster ports`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from ..access.rules import PortRule
    from ..spec.config import Target


@click.command(
    help="Show which ports JOB needs open between its nodes, and why: what comes in and what goes out. "
    "Nothing is asked of the cloud, unless with --ask."
)
@click.argument("job", type=click.Path(path_type=Path), default="job.yaml")
@click.option("--on", metavar="TARGET", help="A target of muster.toml; by default its default, else local.")
@click.option("--cidr", metavar="CIDR", help="The addresses of the nodes' subnet, such as 10.0.1.0/24.")
@click.option("--ask", is_flag=True, help="Ask the cloud for the addresses of the target's subnet.")
@click.option("--list", "security_list", metavar="OCID", default="", help="The security list that --cli is to change.")
@click.option("--json", "form", flag_value="json", help="For programs.")
@click.option("--terraform", "form", flag_value="terraform", help="As resources of Terraform.")
@click.option("--cli", "form", flag_value="cli", help="As a command of Oracle's own command line, oci.")
def command(job: Path, on: str | None, cidr: str | None, ask: bool, security_list: str, form: str | None) -> None:
    from ..access.ports import rules
    from ..access.rules import CIDR
    from ..launching import target_of

    read, target = target_of(job, on)
    needed = rules(read)
    place = _checked(cidr) or (_asked(target) if ask else "") or CIDR
    group = str((target.options.get("security_group_ids") or [""])[0])
    click.echo(_shown(needed, read.name, target, place, Place(group, security_list), form), nl=False)
    if form != "json":
        for note in _notes(needed, target, place, form, group):
            click.echo(f"muster: {note}", err=True)


class Place(NamedTuple):
    """Where rules are to be put: a security group, else a list."""

    group: str
    security_list: str


def _shown(needed: Sequence[PortRule], name: str, target: Target, cidr: str, place: Place, form: str | None) -> str:
    from ..access.rules import command, group_wire, terraform, wire

    if form == "json":
        told = {
            "rules": [rule.to_json() for rule in needed],
            "cidr": cidr,
            "ingressSecurityRules": wire(needed, "source", cidr),
            "egressSecurityRules": wire(needed, "destination", cidr),
            "securityGroupRules": group_wire(needed, cidr),
        }
        return json.dumps(told, indent=2, ensure_ascii=False) + "\n"
    if form == "terraform":
        return terraform(needed, name, cidr, place.group)
    if form == "cli":
        return command(needed, cidr, *place) + "\n" if needed else ""
    return _table(needed, cidr, target)


def _table(needed: Sequence[PortRule], cidr: str, target: Target) -> str:
    if not needed:
        return "One node: nothing has to be open.\n"
    between = "this machine" if target.kind == "local" else cidr
    lines = [f"{'PORTS':<13} {'LISTENS':<12} {'FOR':<22} WHY"]
    lines += [f"{rule.ports:<13} {rule.listens:<12} {rule.name:<22} {rule.reason}" for rule in needed]
    return "\n".join([*lines, "", f"All of it TCP: in from {between} and out to {between}.", ""])


def _notes(needed: Sequence[PortRule], target: Target, cidr: str, form: str | None, group: str) -> list[str]:
    from ..access.rules import CIDR

    if not needed:
        return []
    if target.kind == "local":
        return ["on local all nodes are on this machine: nothing has to be opened, and ports that are taken move"]
    notes = []
    if form != "terraform" and cidr == CIDR:
        notes.append(f"{CIDR} stands for the addresses of your subnet: say them with --cidr, or look with --ask")
    if form == "cli" and not group:
        notes.append("the command replaces all rules that the security list has: give these ports a list of their own")
    return notes


def _checked(cidr: str | None) -> str:
    from ipaddress import IPv4Network

    if cidr is None:
        return ""
    try:
        return str(IPv4Network(cidr))
    except ValueError as error:
        raise click.BadParameter(f"{error}. Write it such as 10.0.1.0/24.", param_hint="--cidr") from None


def _asked(target: Target) -> str:
    from ..clouds.oci import session
    from ..clouds.oci_services import Services
    from ..errors import ConfigError, Problem

    options = target.options
    if not options.get("subnet_id"):
        fix = "Say the addresses with --cidr, or write `subnet_id` into the target."
        raise ConfigError([Problem(f"target {target.name!r} names no subnet to ask for", fix)])
    services = Services(session(options.get("auth"), options.get("profile"), options.get("region")), patience=5)
    return str(services.call("network", "get_subnet", options["subnet_id"]).data["cidrBlock"])
