"""A subnet as the nodes of a run will meet it: its rules, its routes, its addresses; and what of a job's ports it lets
through."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, collapse_addresses, ip_network
from itertools import pairwise
from typing import Any

from .rules import LAST_PORT, PortRule

_ANYWHERE = ip_network("0.0.0.0/0")
_ALL_PORTS = (1, LAST_PORT)
Wire = Mapping[str, Any]
Range = tuple[int, int]


@dataclass(frozen=True)
class Allowed:
    """One rule of a security list or group, as far as TCP goes."""

    peers: IPv4Network | None
    """None: not an address range. Then it is the members of `group`, or one of Oracle's services."""
    group: str
    ports: Range
    source_ports: Range
    stateless: bool

    @classmethod
    def of(cls, rule: Wire, side: str) -> Allowed | None:
        """None where the rule says nothing of TCP."""
        if rule["protocol"] not in ("all", "6"):
            return None
        options = (rule.get("tcpOptions") or {}) if rule["protocol"] == "6" else {}
        kind, place = rule.get(f"{side}Type") or "CIDR_BLOCK", str(rule[side])
        block = _network(place) if kind == "CIDR_BLOCK" else None
        return cls(
            block,
            place if block is None else "",
            _bounds(options.get("destinationPortRange")),
            _bounds(options.get("sourcePortRange")),
            bool(rule.get("isStateless")),
        )


def _network(text: str) -> IPv4Network | None:
    found = ip_network(text, strict=False)
    return found if isinstance(found, IPv4Network) else None


def _bounds(said: Mapping[str, int] | None) -> Range:
    return (said["min"], said["max"]) if said else _ALL_PORTS


@dataclass(frozen=True)
class Walls:
    """All rules that hold for nodes of one subnet: those of its security lists and of the nodes' groups together."""

    cidr: IPv4Network
    ingress: tuple[Allowed, ...]
    egress: tuple[Allowed, ...]
    groups: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(cls, subnet: Wire, lists: Iterable[Wire], groups: Mapping[str, Sequence[Wire]]) -> Walls:
        """From what the service says: a subnet, its security lists, and rules by their security group."""
        lists, own = list(lists), [rule for rules in groups.values() for rule in rules]
        into = [rule for each in lists for rule in each["ingressSecurityRules"]]
        out = [rule for each in lists for rule in each["egressSecurityRules"]]
        into += [rule for rule in own if rule["direction"] == "INGRESS"]
        out += [rule for rule in own if rule["direction"] == "EGRESS"]
        return cls(
            IPv4Network(subnet["cidrBlock"]), _read(into, "source"), _read(out, "destination"), frozenset(groups)
        )

    def closed(self, rule: PortRule) -> list[str]:
        """Why a port of this range cannot be reached between two nodes; empty where all of them can."""
        wanted = (rule.first, rule.last)
        into, out = self._between(self.ingress), self._between(self.egress)
        missing = {"ingress": self._shut(into, wanted), "egress": self._shut(out, wanted)}
        told = [f"{way} of {_some(wanted, ranges)}" for way, ranges in missing.items() if ranges]
        return told or self._answers(into, out, wanted)

    def _shut(self, rules: list[Allowed], wanted: Range) -> list[Range]:
        # Who dials does so from any port: a rule for some source ports alone opens nothing.
        fitting = [(rule.ports, rule) for rule in rules if rule.source_ports == _ALL_PORTS]
        return _uncovered(self.cidr, fitting, wanted)

    def _answers(self, into: list[Allowed], out: list[Allowed], wanted: Range) -> list[str]:
        """What a stateless rule lets in or out is not followed up: the answer needs a rule of its own."""
        told = []
        for name, first, back in (("egress", into, out), ("ingress", out, into)):
            loose = [rule for rule in first if rule.stateless and _overlap(rule.ports, wanted) and self._near(rule)]
            if any(not self._answered(rule, back, wanted) for rule in loose):
                told.append(f"{name} of the answers (a stateless rule needs one for each way)")
        return told

    def _near(self, rule: Allowed) -> bool:
        return rule.peers is None or rule.peers.overlaps(self.cidr)

    def _answered(self, rule: Allowed, back: list[Allowed], wanted: Range) -> bool:
        """An answer comes from the port that was dialled, and goes to the one that it was dialled from."""
        least, most = rule.source_ports
        fitting = [(each.source_ports, each) for each in back if each.ports[0] <= least and most <= each.ports[1]]
        part = (max(rule.ports[0], wanted[0]), min(rule.ports[1], wanted[1]))
        peers = rule.peers if rule.peers is not None and rule.peers.subnet_of(self.cidr) else self.cidr
        return not _uncovered(peers, fitting, part)

    def _between(self, rules: Iterable[Allowed]) -> list[Allowed]:
        return [rule for rule in rules if rule.peers is not None or rule.group in self.groups]

    def reaches_services(self) -> bool:
        """Whether nodes may dial Oracle's services, which are at port 443."""
        return any(
            rule.ports[0] <= 443 <= rule.ports[1]
            and (rule.peers == _ANYWHERE or (rule.peers is None and rule.group not in self.groups))
            for rule in self.egress
        )


def _read(rules: Iterable[Wire], side: str) -> tuple[Allowed, ...]:
    return tuple(read for rule in rules if (read := Allowed.of(rule, side)))


def _uncovered(cidr: IPv4Network, fitting: list[tuple[Range, Allowed]], wanted: Range) -> list[Range]:
    """The parts of a range of ports that the rules, each with the ports it is for, do not open to all addresses."""
    edges = {wanted[0], wanted[1] + 1}
    edges |= {edge for (first, last), _ in fitting for edge in (first, last + 1) if wanted[0] < edge <= wanted[1]}
    marks = sorted(edges)
    parts = [(first, following - 1) for first, following in pairwise(marks)]
    return [part for part in parts if not _covered(cidr, [rule for ports, rule in fitting if _overlap(ports, part)])]


def _covered(cidr: IPv4Network, rules: Iterable[Allowed]) -> bool:
    """Whether these rules together let in every address of the subnet."""
    rules = list(rules)
    if any(rule.peers is None for rule in rules):
        return True  # nodes are members of the group
    blocks = collapse_addresses(rule.peers for rule in rules if rule.peers is not None)
    return any(cidr.subnet_of(block) for block in blocks)


def _overlap(one: Range, other: Range) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _some(wanted: Range, missing: list[Range]) -> str:
    """The ports that are missing, in a few words."""
    if missing == [wanted]:
        return "all of it" if wanted[0] != wanted[1] else "it"
    told = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in missing[:4])
    return f"{told} and {len(missing) - 4} more ranges" if len(missing) > 4 else told
