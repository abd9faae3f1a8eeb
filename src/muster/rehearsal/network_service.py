"""Oracle's network service: VCNs, subnets, security lists and groups, route tables, gateways, addresses.

>>> network = Network()
>>> subnet = network.make("subnets", compartmentId=…, vcnId=vcn["id"], cidrBlock="10.0.1.0/24")
>>> card = network.attach(subnet["id"])                      # an address for a machine
>>> network.reachable(card["privateIp"], other["privateIp"], "tcp", 8786)
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_address, ip_network
from typing import Any

from .buckets import moment
from .messages import Answer
from .network_kinds import EGRESS, INGRESS, KINDS, Kind, check_details, defaults
from .network_traffic import EPHEMERAL, NUMBERS, OUTSIDE, Card, Packet, connects
from .oracle_cloud import Control
from .permits import Permit, Wish, check, everybody
from .routing import Call, Refusal, Route, json_answer

BASE = "/20160918"
_BY_PATH = {kind.path: kind for kind in KINDS}
_RESERVED = 3
"""The first two addresses of a subnet and the last one are Oracle's."""

Thing = dict[str, Any]


class Homes(Mapping[str, str]):
    """The compartment of each subnet that there is now, whoever made it."""

    def __init__(self, subnets: Mapping[str, Thing]) -> None:
        self._subnets = subnets

    def __getitem__(self, subnet: str) -> str:
        return str(self._subnets[subnet]["compartmentId"])

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._subnets))

    def __len__(self) -> int:
        return len(self._subnets)


class Network:
    """The network of one tenancy in one region."""

    def __init__(self, permit: Permit = everybody, region: str = "iad", clock: Callable[[], float] = time.time) -> None:
        self._permit, self._region, self._clock = permit, region, clock
        self._lock = threading.RLock()
        self._things: dict[str, dict[str, Thing]] = {kind.path: {} for kind in KINDS}
        self._rules: dict[str, list[Thing]] = {}
        self._cards: dict[str, Thing] = {}
        self._tokens: dict[str, Thing] = {}
        self.homes = Homes(self._things["subnets"])

    def routes(self) -> list[Route]:
        groups = f"{BASE}/networkSecurityGroups/{{id}}"
        return [
            Route("GET", f"{groups}/securityRules", self.list_group_rules, "list_group_rules"),
            Route("GET", f"{groups}/vnics", self.list_group_cards),
            Route("POST", f"{groups}/actions/addSecurityRules", self.add_group_rules),
            Route("POST", f"{groups}/actions/removeSecurityRules", self.remove_group_rules),
            Route("GET", f"{BASE}/privateIps", self.list_addresses, "list_privateips"),
            Route("GET", f"{BASE}/services", self.list_services),
            *(route for kind in KINDS for route in self._routes_of(kind)),
        ]

    def _routes_of(self, kind: Kind) -> Iterator[Route]:
        def bound(handler: Callable[[Kind, Call], Answer]) -> Callable[[Call], Answer]:
            return lambda call: handler(kind, call)

        place = f"{BASE}/{kind.path}"
        yield Route("GET", place, bound(self.list_things), f"list_{kind.word}s")
        yield Route("POST", place, bound(self.create_thing), f"create_{kind.word}")
        yield Route("GET", f"{place}/{{id}}", bound(self.get_thing), f"get_{kind.word}")
        yield Route("PUT", f"{place}/{{id}}", bound(self.update_thing), f"update_{kind.word}")
        yield Route("DELETE", f"{place}/{{id}}", bound(self.delete_thing), f"delete_{kind.word}")

    def controls(self) -> dict[str, Control]:
        return {
            "network": lambda said: self.make(said["kind"], **said["details"]),
            "network_changes": lambda said: self.change(said["kind"], said["id"], **said["details"]),
            "reachable": lambda said: self.reachable(**said),
        }

    # What is there, for tests and for machines

    def make(self, path: str, /, **said: Any) -> Thing:
        """A thing by the details of its create, in the names of the wire; its `id` may be given too."""
        kind = _BY_PATH[path]
        check_details(kind, said)
        with self._lock:
            if kind.word == "subnet":
                said = self._placed(said)
            if kind.word == "servicegateway":
                said = {**said, "services": [self._named(each) for each in said["services"]]}
            thing = {
                "displayName": f"{kind.word}{len(self._things[path]) + 1}",
                **defaults(kind, said),
                **{name: value for name, value in said.items() if value is not None},
                "id": said.get("id") or self._ocid(kind.word),
                "lifecycleState": "AVAILABLE",
                "timeCreated": moment(self._clock()),
            }
            self._things[path][thing["id"]] = thing
            if kind.word == "vcn":
                thing |= self._defaults_of(thing)
            return thing

    def change(self, path: str, ocid: str, **said: Any) -> Thing:
        """Other values for some of a thing's details."""
        with self._lock:
            thing = self._things[path][ocid]
            thing |= said
            return thing

    def add_rules(self, group: str, rules: list[Thing]) -> list[Thing]:
        """Further rules of a security group; each has a `direction`."""
        with self._lock:
            made = [{**rule, "id": secrets.token_hex(3).upper(), "isValid": True} for rule in rules]
            self._rules.setdefault(group, []).extend(made)
            return made

    def attach(self, subnet: str, address: str = "", groups: tuple[str, ...] = ()) -> Thing:
        """A card for a machine: the next free address of a subnet, or the one that is wanted."""
        with self._lock:
            place = self._things["subnets"][subnet]
            taken = {card["privateIp"] for card in self._cards.values()}
            own = list(ip_network(place["cidrBlock"]))[_RESERVED - 1 : -1]
            free = (str(each) for each in own if str(each) not in taken)
            given = address or next(free, "")
            if not given or given in taken:
                raise Refusal(400, "LimitExceeded", f"the subnet {subnet} has no free address")
            card = {
                "id": self._ocid("vnic"),
                "subnetId": subnet,
                "compartmentId": place["compartmentId"],
                "privateIp": given,
                "nsgIds": list(groups),
            }
            self._cards[card["id"]] = card
            return card

    def detach(self, card: str) -> None:
        with self._lock:
            self._cards.pop(card, None)

    def reachable(self, source: str, destination: str, protocol: str, port: int, source_port: int = EPHEMERAL) -> bool:
        """Whether who is at the one address can connect to a port of the other, by the rules of both ends."""
        with self._lock:
            near, far = self._card(source), self._card(destination)
            if near is not OUTSIDE and far is not OUTSIDE and self._vcn(source) != self._vcn(destination):
                return False
            number = NUMBERS.get(protocol.lower(), protocol)
            return connects(near, far, Packet(source, source_port, destination, port, number))

    # Operations

    def get_thing(self, kind: Kind, call: Call) -> Answer:
        thing = self._found(kind, call, "READ")
        return json_answer(thing, headers={"etag": thing["id"][-8:]})

    def list_things(self, kind: Kind, call: Call) -> Answer:
        wanted = call.query.get("compartmentId", "")
        check(self._permit, call.principal, Wish(kind.permission(kind.listed), wanted))
        with self._lock:
            found = [thing for thing in self._things[kind.path].values() if _fits(thing, call.query)]
        return page(call, found)

    def create_thing(self, kind: Kind, call: Call) -> Answer:
        said = call.said()
        check(self._permit, call.principal, Wish(kind.permission("CREATE"), str(said.get("compartmentId", ""))))
        token = call.header("opc-retry-token")
        with self._lock:
            if token and token in self._tokens:
                return json_answer(self._tokens[token])
            made = self.make(kind.path, **{**said, "id": None})
            if token:
                self._tokens[token] = made
        return json_answer(made)

    def update_thing(self, kind: Kind, call: Call) -> Answer:
        thing = self._found(kind, call, "UPDATE")
        return json_answer(self.change(kind.path, thing["id"], **call.said()))

    def delete_thing(self, kind: Kind, call: Call) -> Answer:
        thing = self._found(kind, call, "DELETE")
        with self._lock:
            if kind.word == "subnet" and any(card["subnetId"] == thing["id"] for card in self._cards.values()):
                raise Refusal(409, "Conflict", f"The Subnet {thing['id']} references the VNIC of a machine")
            self._things[kind.path].pop(thing["id"], None)
        return Answer(204)

    def list_group_rules(self, call: Call) -> Answer:
        group = self._found(_BY_PATH["networkSecurityGroups"], call, "LIST_SECURITY_RULES")
        direction = call.query.get("direction")
        rules = self._rules.get(group["id"], [])
        return page(call, [rule for rule in rules if direction in (None, rule["direction"])])

    def add_group_rules(self, call: Call) -> Answer:
        group = self._found(_BY_PATH["networkSecurityGroups"], call, "UPDATE_SECURITY_RULES")
        return json_answer({"securityRules": self.add_rules(group["id"], call.said()["securityRules"])})

    def remove_group_rules(self, call: Call) -> Answer:
        group = self._found(_BY_PATH["networkSecurityGroups"], call, "UPDATE_SECURITY_RULES")
        gone = set(call.said()["securityRuleIds"])
        with self._lock:
            self._rules[group["id"]] = [rule for rule in self._rules.get(group["id"], []) if rule["id"] not in gone]
        return Answer(204)

    def list_group_cards(self, call: Call) -> Answer:
        group = self._found(_BY_PATH["networkSecurityGroups"], call, "LIST_MEMBERS")
        members = [card for card in self._cards.values() if group["id"] in card["nsgIds"]]
        return page(call, [{"vnicId": card["id"], "timeAssociated": moment(self._clock())} for card in members])

    def list_addresses(self, call: Call) -> Answer:
        subnet = self._things["subnets"].get(call.query.get("subnetId", ""))
        if subnet is None:
            raise _nothing()
        check(self._permit, call.principal, Wish("PRIVATE_IP_READ", subnet["compartmentId"]))
        own = [card for card in self._cards.values() if card["subnetId"] == subnet["id"]]
        rows = [{"id": card["id"].replace("vnic", "privateip"), "ipAddress": card["privateIp"]} for card in own]
        return page(call, [{**row, "subnetId": subnet["id"], "isPrimary": True} for row in rows])

    def list_services(self, call: Call) -> Answer:
        return page(call, self.services())

    def services(self) -> list[Thing]:
        """What a service gateway can lead to."""
        region, key = self._region, self._region.upper()
        names = {
            f"all-{region}-services-in-oracle-services-network": f"All {key} Services In Oracle Services Network",
            f"oci-{region}-objectstorage": f"OCI {key} Object Storage",
        }
        return [
            {"id": f"ocid1.service.oc1.{region}.{cidr}", "name": name, "cidrBlock": cidr, "description": name}
            for cidr, name in names.items()
        ]

    # Inside

    def _found(self, kind: Kind, call: Call, verb: str) -> Thing:
        thing = self._things[kind.path].get(call.parts["id"])
        if thing is None:
            raise _nothing()
        check(self._permit, call.principal, Wish(kind.permission(verb), thing["compartmentId"]))
        return thing

    def _placed(self, said: Mapping[str, Any]) -> Thing:
        """The details of a subnet that fits into its VCN, with what it takes over from there."""
        vcn = self._things["vcns"].get(said["vcnId"])
        if vcn is None:
            raise _nothing()
        block = ip_network(said["cidrBlock"])
        if not any(block.subnet_of(ip_network(each)) for each in vcn["cidrBlocks"]):  # type: ignore[arg-type]
            raise Refusal(400, "InvalidParameter", f"{block} is not within the VCN's {', '.join(vcn['cidrBlocks'])}")
        for other in self._things["subnets"].values():
            if other["vcnId"] == vcn["id"] and ip_network(other["cidrBlock"]).overlaps(block):
                raise Refusal(400, "InvalidParameter", f"{block} overlaps with the subnet {other['id']}")
        own = {"routeTableId": vcn["defaultRouteTableId"], "securityListIds": [vcn["defaultSecurityListId"]]}
        return {**own, **{name: value for name, value in said.items() if value is not None}}

    def _named(self, service: Thing) -> Thing:
        """A service is asked for by its id, and shown with its name."""
        found = next((each for each in self.services() if each["id"] == service.get("serviceId")), None)
        if found is None:
            raise _nothing()
        return {"serviceId": found["id"], "serviceName": found["name"]}

    def _defaults_of(self, vcn: Thing) -> Thing:
        """What comes with every VCN: a route table that leads nowhere, and a security list that lets ssh in."""
        inside = {"compartmentId": vcn["compartmentId"], "vcnId": vcn["id"]}
        table = self.make("routeTables", **inside, routeRules=[])
        rules = self.make(
            "securityLists", **inside, ingressSecurityRules=list(INGRESS.values()), egressSecurityRules=EGRESS
        )
        return {"defaultRouteTableId": table["id"], "defaultSecurityListId": rules["id"]}

    def _card(self, address: str) -> Card:
        subnet = self._subnet_of(address)
        if subnet is None:
            return OUTSIDE
        lists = [self._things["securityLists"][each] for each in subnet["securityListIds"]]
        groups: list[str] = next((card["nsgIds"] for card in self._cards.values() if card["privateIp"] == address), [])
        own = [rule for group in groups for rule in self._rules.get(group, [])]
        return Card(
            [*(rule for each in lists for rule in each["ingressSecurityRules"]), *_of("INGRESS", own)],
            [*(rule for each in lists for rule in each["egressSecurityRules"]), *_of("EGRESS", own)],
            frozenset(groups),
        )

    def _subnet_of(self, address: str) -> Thing | None:
        wanted = ip_address(address)
        subnets = self._things["subnets"].values()
        return next((each for each in subnets if wanted in ip_network(each["cidrBlock"])), None)

    def _vcn(self, address: str) -> str:
        subnet = self._subnet_of(address)
        return str(subnet["vcnId"]) if subnet else ""

    def _ocid(self, word: str) -> str:
        return f"ocid1.{word}.oc1.{self._region}.{secrets.token_hex(20)}"


def _of(direction: str, rules: list[Thing]) -> list[Thing]:
    return [rule for rule in rules if rule["direction"] == direction]


def _nothing() -> Refusal:
    return Refusal(404, "NotAuthorizedOrNotFound", "Authorization failed or requested resource not found.")


def _fits(thing: Thing, query: Mapping[str, str]) -> bool:
    asked = ("compartmentId", "vcnId", "displayName", "lifecycleState")
    return all(thing.get(name) == query[name] for name in asked if name in query)


def page(call: Call, items: list[Thing]) -> Answer:
    """The part of a list that was asked for: `limit` of it, from `page` on."""
    start, most = int(call.query.get("page", "0")), int(call.query.get("limit", "100"))
    following = {"opc-next-page": str(start + most)} if start + most < len(items) else {}
    return json_answer(items[start : start + most], headers=following)
