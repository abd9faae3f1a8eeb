"""What there is in a rehearsed network: each kind of thing with its path, its permissions and what it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .routing import Refusal

INGRESS = {
    "ssh": {"protocol": "6", "source": "0.0.0.0/0", "tcpOptions": {"destinationPortRange": {"min": 22, "max": 22}}},
    "fragmentation": {"protocol": "1", "source": "0.0.0.0/0", "icmpOptions": {"type": 3, "code": 4}},
}
EGRESS = [{"protocol": "all", "destination": "0.0.0.0/0", "destinationType": "CIDR_BLOCK", "isStateless": False}]


@dataclass(frozen=True)
class Kind:
    """One kind of thing: where it is asked for, what it is called in an OCID and in the policy reference."""

    path: str
    word: str
    stem: str
    """Of its permissions: `SUBNET` gives SUBNET_READ, SUBNET_CREATE, SUBNET_UPDATE, SUBNET_DELETE."""
    needs: tuple[str, ...]
    listed: str = "READ"
    """The permission that a list takes; of most kinds of the network it is the one that a get takes too."""

    def permission(self, verb: str) -> str:
        return f"{self.stem}_{verb}"


KINDS = (
    Kind("vcns", "vcn", "VCN", ("compartmentId",)),
    Kind("subnets", "subnet", "SUBNET", ("compartmentId", "vcnId", "cidrBlock")),
    Kind("securityLists", "securitylist", "SECURITY_LIST", ("compartmentId", "vcnId")),
    Kind("routeTables", "routetable", "ROUTE_TABLE", ("compartmentId", "vcnId", "routeRules")),
    Kind("natGateways", "natgateway", "NAT_GATEWAY", ("compartmentId", "vcnId")),
    Kind("serviceGateways", "servicegateway", "SERVICE_GATEWAY", ("compartmentId", "vcnId", "services")),
    Kind("internetGateways", "internetgateway", "INTERNET_GATEWAY", ("compartmentId", "vcnId", "isEnabled")),
    Kind(
        "networkSecurityGroups",
        "networksecuritygroup",
        "NETWORK_SECURITY_GROUP",
        ("compartmentId", "vcnId"),
        listed="INSPECT",
    ),
)


def check_details(kind: Kind, said: Mapping[str, Any]) -> None:
    """What must be said to make such a thing."""
    given = {name for name, value in said.items() if value is not None}
    if kind.word == "vcn" and not {"cidrBlock", "cidrBlocks"} & given:
        raise Refusal(400, "InvalidParameter", "cidrBlocks must not be empty")
    if missing := [name for name in kind.needs if name not in given]:
        raise Refusal(400, "MissingParameter", f"Missing parameter {', '.join(missing)}")
    for side, name in (("source", "ingressSecurityRules"), ("destination", "egressSecurityRules")):
        for rule in said.get(name) or ():
            if "protocol" not in rule or side not in rule:
                raise Refusal(400, "InvalidParameter", f"a rule of {name} needs protocol and {side}")


def defaults(kind: Kind, said: Mapping[str, Any]) -> dict[str, Any]:
    """What the service adds to what was said."""
    if kind.word == "vcn":
        blocks = said.get("cidrBlocks") or [said["cidrBlock"]]
        return {"cidrBlock": blocks[0], "cidrBlocks": blocks}
    if kind.word == "subnet":
        return {"prohibitPublicIpOnVnic": False, "availabilityDomain": None, "dnsLabel": None}
    if kind.word in ("natgateway", "servicegateway"):
        return {"blockTraffic": False}
    if kind.word == "securitylist":
        return {"ingressSecurityRules": [], "egressSecurityRules": []}
    return {}
