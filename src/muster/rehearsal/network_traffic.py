"""What security rules do to one packet, and so to a connection: Oracle's rules, as lists and groups hold them.

A packet passes where any rule of the subnet's security lists, or of the security groups of its card, lets it. The
answer to a packet passes by itself unless a stateless rule matched: such a rule is not followed up, and counts before
any that is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any

NUMBERS = {"icmp": "1", "tcp": "6", "udp": "17", "all": "all"}
EPHEMERAL = 49152
"""A port that a system gives to who dials."""

Rule = Mapping[str, Any]


@dataclass(frozen=True)
class Packet:
    source: str
    source_port: int
    destination: str
    port: int
    protocol: str = "6"

    def answer(self) -> Packet:
        return Packet(self.destination, self.port, self.source, self.source_port, self.protocol)


@dataclass(frozen=True)
class Card:
    """One end of a connection: the rules that hold there, and the groups that it is a member of."""

    ingress: Sequence[Rule]
    egress: Sequence[Rule]
    groups: frozenset[str] = frozenset()


OUTSIDE = Card([{"protocol": "all", "source": "0.0.0.0/0"}], [{"protocol": "all", "destination": "0.0.0.0/0"}])
"""What is in no subnet has no rules that are known."""


def connects(near: Card, far: Card, packet: Packet) -> bool:
    """Whether a connection comes about: the first packet arrives, and the answer to it does."""
    out = _matching(near.egress, "destination", packet, packet.destination, far.groups)
    into = _matching(far.ingress, "source", packet, packet.source, near.groups)
    if not out or not into:
        return False
    back = packet.answer()
    leaves = _tracked(into) or _matching(far.egress, "destination", back, back.destination, near.groups)
    arrives = _tracked(out) or _matching(near.ingress, "source", back, back.source, far.groups)
    return bool(leaves) and bool(arrives)


def _tracked(rules: Iterable[Rule]) -> bool:
    return not any(rule.get("isStateless") for rule in rules)


def _matching(rules: Iterable[Rule], side: str, packet: Packet, peer: str, groups: frozenset[str]) -> list[Rule]:
    return [rule for rule in rules if _is_peer(rule, side, peer, groups) and _lets(rule, packet)]


def _is_peer(rule: Rule, side: str, peer: str, groups: frozenset[str]) -> bool:
    kind, place = rule.get(f"{side}Type") or "CIDR_BLOCK", rule[side]
    if kind == "NETWORK_SECURITY_GROUP":
        return place in groups
    return kind == "CIDR_BLOCK" and ip_address(peer) in ip_network(place, strict=False)


def _lets(rule: Rule, packet: Packet) -> bool:
    if rule["protocol"] not in ("all", packet.protocol):
        return False
    ports = rule.get({"6": "tcpOptions", "17": "udpOptions"}.get(packet.protocol, "")) or {}
    if rule["protocol"] == "all":
        ports = {}
    return _within(packet.port, ports.get("destinationPortRange")) and _within(
        packet.source_port, ports.get("sourcePortRange")
    )


def _within(port: int, bounds: Mapping[str, int] | None) -> bool:
    return bounds is None or bounds["min"] <= port <= bounds["max"]
