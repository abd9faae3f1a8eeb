"""Which ports a job needs open, in all forms; and a subnet's rules against one packet at a time."""

from __future__ import annotations

import json
import shlex
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from muster.access.network import Walls
from muster.access.ports import CONTROL_PORT, rules
from muster.access.rules import CIDR, PortRule, command, group_wire, least, terraform, wire
from muster.rehearsal.network_traffic import Card, Packet, connects
from muster.spec.job import Job, Role, Workers

pytestmark = pytest.mark.unit


def job(framework: str, **fields: Any) -> Job:
    return Job(**{"name": "train", "framework": framework, "workers": Workers(2, 2), **fields})


def opened(made: Job) -> dict[str, str]:
    return {rule.name: f"{rule.ports} on {rule.listens}" for rule in rules(made)}


CONTROL = {"control": f"{CONTROL_PORT} on main"}


def test_dask_has_a_port_for_each_of_its_services() -> None:
    assert opened(job("dask")) == {
        "scheduler": "8786 on main",
        "dashboard": "8787 on main",
        "workers": "8700-8800 on worker",
        "nannies": "3000-3100 on worker",
        **CONTROL,
    }


def test_what_the_user_sets_is_followed() -> None:
    roles = {"worker": Role(options={"start_args": ("--worker-port", "9000:9010", "--nanny-port=9100:9110")})}
    made = opened(job("dask", options={"port": 9786, "dashboard_port": 9787}, roles=roles))
    assert [made[name].split()[0] for name in ("scheduler", "dashboard", "workers", "nannies")] == [
        "9786",
        "9787",
        "9000-9010",
        "9100-9110",
    ]
    assert opened(job("tensorflow", options={"port": 2222}))["server"] == "2222 on every node"
    assert opened(job("horovod", options={"port": 2223}))["rendezvous"] == "2223 on main"
    assert opened(job("dask", env={"MUSTER_CONTROL_PORT": "7000"}))["control"] == "7000 on main"


def test_a_range_that_was_taken_away_means_all_ports() -> None:
    made = job("dask", roles={"worker": Role(options={"start_args": ("--worker-port", "0")})})
    (workers,) = [rule for rule in rules(made) if rule.name == "workers"]
    assert workers.ports == "all"
    assert "no range" in workers.reason


@pytest.mark.parametrize(("framework", "port"), [("pytorch", "29400"), ("horovod", "12345")])
def test_collectives_take_random_ports_and_the_reason_says_so(framework: str, port: str) -> None:
    (whole,) = [rule for rule in rules(job(framework)) if rule.ports == "all"]
    assert whole.listens == "every node"
    assert "gloo and NCCL take random ports" in whole.reason
    assert f"with {port} alone" in whole.reason
    assert "hang" in whole.reason


def test_tensorflow_needs_its_servers_port_on_parameter_servers_too() -> None:
    assert opened(job("tensorflow", ps=1))["server"] == "12345 on every node"
    own = job("tensorflow", ps=1, roles={"ps": Role(options={"port": 2300})})
    assert {(rule.ports, rule.listens) for rule in rules(own)} == {
        ("12345", "main, worker"),
        ("2300", "ps"),
        (str(CONTROL_PORT), "main"),
    }


def test_one_node_needs_nothing() -> None:
    assert rules(job("pytorch", workers=Workers(0, 0))) == ()


def test_every_rule_has_a_reason() -> None:
    for framework in ("dask", "pytorch", "horovod", "tensorflow"):
        assert all(rule.reason for rule in rules(job(framework)))


def test_no_rule_is_written_that_another_covers() -> None:
    assert [rule.ports for rule in least(rules(job("pytorch")))] == ["all"]
    assert [rule.ports for rule in least(rules(job("dask")))] == ["3000-3100", "8700-8800", str(CONTROL_PORT)]


# --- forms ---------------------------------------------------------------------------------------------------


def test_a_security_list_has_each_rule_both_ways() -> None:
    needed = rules(job("tensorflow"))
    assert wire(needed, "source", "10.0.1.0/24")[0] == {
        "protocol": "6",
        "source": "10.0.1.0/24",
        "sourceType": "CIDR_BLOCK",
        "isStateless": False,
        "description": "muster: server",
        "tcpOptions": {"destinationPortRange": {"min": 12345, "max": 12345}},
    }
    assert {rule["direction"] for rule in group_wire(needed, "10.0.1.0/24")} == {"INGRESS", "EGRESS"}


def test_a_wide_rule_names_no_ports() -> None:
    assert "tcpOptions" not in wire(rules(job("pytorch")), "source", "10.0.1.0/24")[0]


def test_the_rules_of_every_framework_open_all_that_it_needs_and_nothing_less_does() -> None:
    for framework in ("dask", "pytorch", "horovod", "tensorflow"):
        needed = rules(job(framework))
        into, out = wire(needed, "source", "10.0.1.0/24"), wire(needed, "destination", "10.0.1.0/24")
        assert closed(into, out, needed) == []
        for absent in range(len(into)):
            assert closed(into[:absent] + into[absent + 1 :], out, needed)
            assert closed(into, out[:absent] + out[absent + 1 :], needed)


def closed(into: list[Any], out: list[Any], needed: tuple[PortRule, ...]) -> list[str]:
    lists = [{"ingressSecurityRules": into, "egressSecurityRules": out}]
    walls = Walls.of({"cidrBlock": "10.0.1.0/24"}, lists, {})
    return [rule.name for rule in needed if walls.closed(rule)]


def test_the_command_is_one_line_of_quoted_words() -> None:
    words = shlex.split(command(rules(job("dask")), "10.0.1.0/24"))
    assert words[:4] == ["oci", "network", "security-list", "update"]
    assert json.loads(words[words.index("--ingress-security-rules") + 1])[0]["source"] == "10.0.1.0/24"
    assert json.loads(words[words.index("--egress-security-rules") + 1])[0]["destination"] == "10.0.1.0/24"
    words = shlex.split(command(rules(job("dask")), "10.0.1.0/24", "ocid1.networksecuritygroup.oc1..a"))
    assert words[:7] == ["oci", "network", "nsg", "rules", "add", "--nsg-id", "ocid1.networksecuritygroup.oc1..a"]


def test_terraform_asks_for_what_is_not_known() -> None:
    text = terraform(rules(job("dask")), "my job", CIDR)
    assert 'resource "oci_core_security_list" "muster_my_job"' in text
    assert 'variable "subnet_cidr"' in text
    assert text.count("ingress_security_rules {") == text.count("egress_security_rules {") == 3
    assert 'variable "subnet_cidr"' not in terraform(rules(job("dask")), "a", "10.0.1.0/24")
    group = terraform(rules(job("pytorch")), "a", "10.0.1.0/24", "ocid1.networksecuritygroup.oc1..a")
    assert group.count('resource "oci_core_network_security_group_security_rule"') == 2


# --- a subnet's rules ----------------------------------------------------------------------------------------


NODES = ("10.0.1.2", "10.0.1.200")
GROUP = "ocid1.networksecuritygroup.oc1..nodes"


def one_rule(side: str) -> Any:
    ports = some.sampled_from([(1, 65535), (100, 110), (105, 105), (1, 104), (106, 65535), (200, 300)])
    bounds = some.one_of(some.none(), ports.map(lambda pair: {"min": pair[0], "max": pair[1]}))
    places = some.sampled_from(
        ["0.0.0.0/0", "10.0.0.0/16", "10.0.1.0/24", "10.0.1.0/25", "10.0.1.128/25", "10.9.0.0/16"]
    )
    sources = some.sampled_from([None, None, {"min": 40000, "max": 50000}, {"min": 100, "max": 110}])
    made = some.fixed_dictionaries(
        {
            "protocol": some.sampled_from(["6", "6", "6", "all", "17"]),
            "isStateless": some.booleans(),
            "tcpOptions": some.fixed_dictionaries({"destinationPortRange": bounds, "sourcePortRange": sources}),
        }
    )
    there = some.one_of(
        places.map(lambda place: {side: place, f"{side}Type": "CIDR_BLOCK"}),
        some.just({side: GROUP, f"{side}Type": "NETWORK_SECURITY_GROUP"}),
    )
    return some.builds(lambda rule, place: {**rule, **place}, made, there)


@settings(max_examples=150, deadline=None)
@given(
    into=some.lists(one_rule("source"), max_size=4),
    out=some.lists(one_rule("destination"), max_size=4),
    wanted=some.sampled_from([(105, 105), (100, 110), (1, 65535)]),
)
def test_what_is_called_open_lets_every_packet_through(
    into: list[Any], out: list[Any], wanted: tuple[int, int]
) -> None:
    """The rules as a whole against the rules as a packet meets them: two programs, which must not contradict."""
    lists = [{"ingressSecurityRules": into, "egressSecurityRules": out}]
    walls = Walls.of({"cidrBlock": "10.0.1.0/24"}, lists, {GROUP: []})
    card = Card(into, out, frozenset({GROUP}))
    ports = [port for port in (1, 104, 105, 106, 100, 110, 200, 300, 65535) if wanted[0] <= port <= wanted[1]]
    packets = [
        Packet(near, source, far, port)
        for near, far in (NODES, NODES[::-1])
        for port, source in product(ports, (1, 105, 45000, 65535))
    ]
    passes = all(connects(card, card, packet) for packet in packets)
    is_open = not walls.closed(PortRule("any", *wanted, "every node", ""))
    assert passes or not is_open
    if not any(rule["isStateless"] for rule in (*into, *out)):
        assert is_open == passes


@pytest.mark.parametrize(
    ("into", "out", "told"),
    [
        ([], [{}], ["ingress of it"]),
        ([{}], [], ["egress of it"]),
        ([{"stateless": True}], [{}], []),
        ([{"stateless": True}], [{"ports": (8786, 8786)}], ["egress of the answers"]),
        ([{"ports": (8786, 8786)}], [{"stateless": True}], ["ingress of the answers"]),
        ([{"place": "10.0.1.0/25"}], [{}], ["ingress of it"]),
        ([{"place": "10.0.1.0/25"}, {"place": "10.0.1.128/25"}], [{}], []),
        ([{"protocol": "17"}], [{}], ["ingress of it"]),
        ([{"source_ports": (1000, 2000)}], [{}], ["ingress of it"]),
    ],
)
def test_why_a_port_is_closed(into: list[dict[str, Any]], out: list[dict[str, Any]], told: list[str]) -> None:
    lists = [
        {
            "ingressSecurityRules": [simple("source", **each) for each in into],
            "egressSecurityRules": [simple("destination", **each) for each in out],
        }
    ]
    walls = Walls.of({"cidrBlock": "10.0.1.0/24"}, lists, {})
    found = walls.closed(PortRule("scheduler", 8786, 8786, "main", ""))
    assert [each.partition(" (")[0] for each in found] == told


def simple(
    side: str,
    place: str = "10.0.1.0/24",
    protocol: str = "6",
    stateless: bool = False,
    ports: tuple[int, int] | None = None,
    source_ports: tuple[int, int] | None = None,
) -> dict[str, Any]:
    def bounds(pair: tuple[int, int] | None) -> dict[str, int] | None:
        return {"min": pair[0], "max": pair[1]} if pair else None

    options = {"destinationPortRange": bounds(ports), "sourcePortRange": bounds(source_ports)}
    return {"protocol": protocol, side: place, "isStateless": stateless, "tcpOptions": options}


def test_a_range_that_is_open_in_part_names_the_rest() -> None:
    into = [simple("source", ports=(8700, 8750)), simple("source", ports=(8760, 8800))]
    walls = Walls.of(
        {"cidrBlock": "10.0.1.0/24"},
        [{"ingressSecurityRules": into, "egressSecurityRules": [simple("destination")]}],
        {},
    )
    assert walls.closed(PortRule("workers", 8700, 8800, "worker", "")) == ["ingress of 8751-8759"]


def test_whether_services_can_be_dialled() -> None:
    def reaches(**rule: Any) -> bool:
        lists = [{"ingressSecurityRules": [], "egressSecurityRules": [{"protocol": "6", **rule}]}]
        return Walls.of({"cidrBlock": "10.0.1.0/24"}, lists, {}).reaches_services()

    assert reaches(destination="0.0.0.0/0")
    assert reaches(destination="all-iad-services-in-oracle-services-network", destinationType="SERVICE_CIDR_BLOCK")
    assert not reaches(destination="10.0.0.0/16")
    assert not reaches(destination="0.0.0.0/0", tcpOptions={"destinationPortRange": {"min": 22, "max": 22}})
