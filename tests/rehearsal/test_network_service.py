"""The rehearsed network, asked with the real SDK; and what its rules do to packets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.rehearsal.front import Server
from muster.rehearsal.identity import Identity, Principal
from muster.rehearsal.network_service import Network
from muster.rehearsal.network_traffic import EPHEMERAL
from muster.rehearsal.object_storage import ObjectStorage
from muster.rehearsal.oracle import OracleServer, controls
from muster.rehearsal.oracle_cloud import OracleCloud
from muster.rehearsal.permits import Wish
from muster.rehearsal.principals import COMPARTMENT
from muster.rehearsal.routing import Refusal
from muster.rehearsal.steering import Steering

HERE = {"compartmentId": COMPARTMENT}


class Policy:
    """Everybody may do what is not denied; what was asked for is remembered."""

    def __init__(self) -> None:
        self.denied: set[str] = set()
        self.asked: list[tuple[str, str]] = []

    def __call__(self, _principal: Principal, wish: Wish) -> bool:
        self.asked.append((wish.permission, wish.compartment))
        return wish.permission not in self.denied


@pytest.fixture(scope="module")
def policy() -> Policy:
    return Policy()


@pytest.fixture(scope="module")
def network(policy: Policy) -> Network:
    return Network(policy)


@pytest.fixture(scope="module")
def clients(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    import oci

    folder, identity = tmp_path_factory.mktemp("network"), Identity()
    steered = {**controls(identity, ObjectStorage(folder)), **network.controls()}
    with Server(OracleCloud(identity, network.routes(), steered)) as server:
        made = OracleServer(server.endpoint, 0, "rehearsal", Steering(server.endpoint)).make_user(Path(folder))
        client = oci.core.VirtualNetworkClient(
            oci.config.from_file(str(made.config_file)),
            service_endpoint=server.endpoint,
            retry_strategy=oci.retry.NoneRetryStrategy(),
        )
        client.steering = Steering(server.endpoint)
        yield client
        client.base_client.session.close()


@pytest.fixture
def client(clients: Any, policy: Policy) -> Iterator[Any]:
    policy.denied.clear()
    policy.asked.clear()
    yield clients
    policy.denied.clear()


def vcn_of(network: Network, block: str = "10.0.0.0/16") -> dict[str, Any]:
    return network.make("vcns", **HERE, cidrBlocks=[block])


def test_a_network_is_made_and_read_with_the_sdk(client: Any) -> None:
    models = __import__("oci").core.models
    vcn = client.create_vcn(
        models.CreateVcnDetails(compartment_id=COMPARTMENT, cidr_blocks=["10.1.0.0/16"], display_name="training")
    ).data
    assert (vcn.lifecycle_state, vcn.cidr_block, vcn.display_name) == ("AVAILABLE", "10.1.0.0/16", "training")
    inside = {"compartment_id": COMPARTMENT, "vcn_id": vcn.id}
    nat = client.create_nat_gateway(models.CreateNatGatewayDetails(**inside)).data
    (whole, _storage) = client.list_services().data
    gateway = client.create_service_gateway(
        models.CreateServiceGatewayDetails(**inside, services=[models.ServiceIdRequestDetails(service_id=whole.id)])
    ).data
    rules = [
        models.RouteRule(destination="0.0.0.0/0", network_entity_id=nat.id),
        models.RouteRule(
            destination=whole.cidr_block, destination_type="SERVICE_CIDR_BLOCK", network_entity_id=gateway.id
        ),
    ]
    table = client.create_route_table(models.CreateRouteTableDetails(**inside, route_rules=rules)).data
    ingress = models.IngressSecurityRule(protocol="6", source="10.1.1.0/24")
    egress = models.EgressSecurityRule(protocol="all", destination="0.0.0.0/0")
    walls = client.create_security_list(
        models.CreateSecurityListDetails(**inside, ingress_security_rules=[ingress], egress_security_rules=[egress])
    ).data
    subnet = client.create_subnet(
        models.CreateSubnetDetails(
            **inside,
            cidr_block="10.1.1.0/24",
            prohibit_public_ip_on_vnic=True,
            route_table_id=table.id,
            security_list_ids=[walls.id],
        )
    ).data
    assert client.get_subnet(subnet.id).data.prohibit_public_ip_on_vnic is True
    assert client.get_security_list(walls.id).data.ingress_security_rules[0].source == "10.1.1.0/24"
    assert client.get_route_table(table.id).data.route_rules[0].network_entity_id == nat.id
    assert client.get_nat_gateway(nat.id).data.block_traffic is False
    assert client.get_service_gateway(gateway.id).data.services[0].service_name == whole.name
    assert [each.id for each in client.list_subnets(COMPARTMENT, vcn_id=vcn.id).data] == [subnet.id]
    assert len(client.list_security_lists(COMPARTMENT, vcn_id=vcn.id).data) == 2
    changed = client.update_security_list(walls.id, models.UpdateSecurityListDetails(ingress_security_rules=[])).data
    assert changed.ingress_security_rules == []


def test_a_vcn_comes_with_a_list_that_lets_ssh_in_and_a_table_that_leads_nowhere(client: Any, network: Network) -> None:
    vcn = client.get_vcn(vcn_of(network, "10.2.0.0/16")["id"]).data
    rules = client.get_security_list(vcn.default_security_list_id).data
    assert [
        rule.tcp_options.destination_port_range.min for rule in rules.ingress_security_rules if rule.tcp_options
    ] == [22]
    assert client.get_route_table(vcn.default_route_table_id).data.route_rules == []


def test_another_process_makes_and_asks_through_the_control(client: Any) -> None:
    """A rehearsal has things under the very names that a target gives them."""
    ask = client.steering.ask
    vcn = ask("POST", "network", {"kind": "vcns", "details": {**HERE, "cidrBlocks": ["10.8.0.0/16"]}})
    details = {**HERE, "vcnId": vcn["id"], "cidrBlock": "10.8.1.0/24", "id": "ocid1.subnet.oc1.iad.team"}
    ask("POST", "network", {"kind": "subnets", "details": details})
    assert client.get_subnet("ocid1.subnet.oc1.iad.team").data.cidr_block == "10.8.1.0/24"
    wish = {"source": "10.8.1.2", "destination": "10.8.1.3", "protocol": "tcp"}
    assert [ask("POST", "reachable", {**wish, "port": port}) for port in (22, 8786)] == [True, False]
    change = {"kind": "subnets", "id": "ocid1.subnet.oc1.iad.team", "details": {"prohibitPublicIpOnVnic": True}}
    ask("PUT", "network_changes", change)
    assert client.get_subnet("ocid1.subnet.oc1.iad.team").data.prohibit_public_ip_on_vnic is True


def test_security_groups_have_rules_and_members(client: Any, network: Network) -> None:
    models = __import__("oci").core.models
    vcn = vcn_of(network, "10.3.0.0/16")
    subnet = network.make("subnets", **HERE, vcnId=vcn["id"], cidrBlock="10.3.1.0/24")
    group = client.create_network_security_group(
        models.CreateNetworkSecurityGroupDetails(compartment_id=COMPARTMENT, vcn_id=vcn["id"])
    ).data
    rule = models.AddSecurityRuleDetails(
        direction="INGRESS", protocol="6", source=group.id, source_type="NETWORK_SECURITY_GROUP"
    )
    details = models.AddNetworkSecurityGroupSecurityRulesDetails(security_rules=[rule])
    made = client.add_network_security_group_security_rules(group.id, details).data.security_rules
    listed = client.list_network_security_group_security_rules(group.id, direction="INGRESS").data
    assert [each.id for each in listed] == [made[0].id]
    assert client.list_network_security_group_security_rules(group.id, direction="EGRESS").data == []
    card = network.attach(subnet["id"], groups=(group.id,))
    assert [each.vnic_id for each in client.list_network_security_group_vnics(group.id).data] == [card["id"]]
    gone = models.RemoveNetworkSecurityGroupSecurityRulesDetails(security_rule_ids=[made[0].id])
    client.remove_network_security_group_security_rules(group.id, gone)
    assert client.list_network_security_group_security_rules(group.id).data == []


def test_a_create_with_the_same_token_makes_one(client: Any) -> None:
    models = __import__("oci").core.models
    details = models.CreateVcnDetails(compartment_id=COMPARTMENT, cidr_blocks=["10.4.0.0/16"])
    first, second = (client.create_vcn(details, opc_retry_token="once").data.id for _ in range(2))
    assert first == second


def test_addresses_are_given_in_order_listed_by_pages_and_run_out(client: Any, network: Network) -> None:
    from oci.pagination import list_call_get_all_results

    subnet = network.make("subnets", **HERE, vcnId=vcn_of(network, "10.5.0.0/16")["id"], cidrBlock="10.5.0.0/29")
    cards = [network.attach(subnet["id"]) for _ in range(5)]
    assert [card["privateIp"] for card in cards] == [f"10.5.0.{last}" for last in range(2, 7)]
    with pytest.raises(Refusal, match="no free address"):
        network.attach(subnet["id"])
    found = list_call_get_all_results(client.list_private_ips, subnet_id=subnet["id"], limit=2).data
    assert [each.ip_address for each in found] == [card["privateIp"] for card in cards]
    network.detach(cards[0]["id"])
    assert network.attach(subnet["id"])["privateIp"] == "10.5.0.2"


@pytest.mark.parametrize(
    ("details", "status", "told"),
    [
        ({"cidrBlock": "10.9.0.0/24"}, 400, "not within the VCN"),
        ({"cidrBlock": "10.6.1.128/25"}, 400, "overlaps"),
        ({}, 400, "Missing parameter cidrBlock"),
        ({"cidrBlock": "10.6.2.0/24", "vcnId": "ocid1.vcn.oc1.iad.nowhere"}, 404, "not found"),
    ],
)
def test_a_subnet_must_fit(network: Network, details: dict[str, Any], status: int, told: str) -> None:
    vcn = next((each for each in network._things["vcns"].values() if each["cidrBlock"] == "10.6.0.0/16"), None)
    if vcn is None:
        vcn = vcn_of(network, "10.6.0.0/16")
        network.make("subnets", **HERE, vcnId=vcn["id"], cidrBlock="10.6.1.0/24")
    with pytest.raises(Refusal, match=told) as refused:
        network.make("subnets", **{**HERE, "vcnId": vcn["id"], **details})
    assert refused.value.status == status


CALLS = {
    "get_subnet": "SUBNET_READ",
    "get_vcn": "VCN_READ",
    "get_security_list": "SECURITY_LIST_READ",
    "get_route_table": "ROUTE_TABLE_READ",
    "get_nat_gateway": "NAT_GATEWAY_READ",
    "get_service_gateway": "SERVICE_GATEWAY_READ",
    "get_internet_gateway": "INTERNET_GATEWAY_READ",
    "get_network_security_group": "NETWORK_SECURITY_GROUP_READ",
    "list_network_security_group_security_rules": "NETWORK_SECURITY_GROUP_LIST_SECURITY_RULES",
    "list_network_security_group_vnics": "NETWORK_SECURITY_GROUP_LIST_MEMBERS",
}
PATHS = {
    "security_list": "securityLists",
    "route_table": "routeTables",
    "nat_gateway": "natGateways",
    "service_gateway": "serviceGateways",
    "internet_gateway": "internetGateways",
    "network_security_group": "networkSecurityGroups",
    "subnet": "subnets",
    "vcn": "vcns",
}


@pytest.mark.parametrize(("operation", "permission"), CALLS.items())
def test_who_may_not_is_told_that_there_is_nothing(
    client: Any, network: Network, policy: Policy, operation: str, permission: str
) -> None:
    from oci.exceptions import ServiceError

    path = next(path for name, path in PATHS.items() if f"_{name}" in operation)
    vcn = vcn_of(network)
    details = {"routeRules": [], "services": [], "isEnabled": True, "cidrBlock": "10.0.1.0/24", "vcnId": vcn["id"]}
    thing = vcn if path == "vcns" else network.make(path, **HERE, **details)
    getattr(client, operation)(thing["id"])
    assert policy.asked == [(permission, COMPARTMENT)]
    policy.denied.add(permission)
    with pytest.raises(ServiceError) as refused:
        getattr(client, operation)(thing["id"])
    assert (refused.value.status, refused.value.code) == (404, "NotAuthorizedOrNotFound")


# --- packets ---------------------------------------------------------------------------------------------------


class Two:
    """Two nodes in one subnet, with these rules."""

    def __init__(self, ingress: list[dict[str, Any]], egress: list[dict[str, Any]]) -> None:
        self.network = Network()
        vcn = vcn_of(self.network)
        inside = {**HERE, "vcnId": vcn["id"]}
        rules = self.network.make("securityLists", **inside, ingressSecurityRules=ingress, egressSecurityRules=egress)
        place = {"cidrBlock": "10.0.1.0/24", "securityListIds": [rules["id"]]}
        self.subnet = self.network.make("subnets", **inside, **place)
        self.group = self.network.make("networkSecurityGroups", **inside)
        cards = [self.network.attach(self.subnet["id"], groups=(self.group["id"],)) for _ in range(2)]
        self.addresses = [card["privateIp"] for card in cards]

    def reach(self, port: int, protocol: str = "tcp", source_port: int = EPHEMERAL) -> bool:
        near, far = self.addresses
        return self.network.reachable(near, far, protocol, port, source_port)


def tcp(side: str, first: int = 0, last: int = 0, place: str = "10.0.1.0/24", **more: Any) -> dict[str, Any]:
    ports = {"tcpOptions": {"destinationPortRange": {"min": first, "max": last or first}}} if first else {}
    return {"protocol": "6", side: place, **ports, **more}


OUT = [tcp("destination", place="0.0.0.0/0")]


@pytest.mark.unit
def test_a_port_is_open_where_both_ends_let_it_through() -> None:
    two = Two([tcp("source", 8700, 8800)], OUT)
    assert [two.reach(port) for port in (8699, 8700, 8786, 8800, 8801)] == [False, True, True, True, False]
    assert not two.reach(8786, "udp")
    assert not Two([tcp("source", 8700, 8800)], []).reach(8786)


@pytest.mark.unit
def test_all_protocols_and_udp() -> None:
    whole = Two([{"protocol": "all", "source": "0.0.0.0/0"}], [{"protocol": "all", "destination": "0.0.0.0/0"}])
    assert whole.reach(1)
    assert whole.reach(53, "udp")
    assert whole.reach(0, "icmp")


@pytest.mark.unit
def test_sources_count() -> None:
    assert not Two([tcp("source", 22, place="10.0.2.0/24")], OUT).reach(22)
    narrow = tcp("source")
    narrow["tcpOptions"] = {"sourcePortRange": {"min": 1000, "max": 1001}}
    assert [Two([narrow], OUT).reach(22, source_port=port) for port in (1000, 1002)] == [True, False]


@pytest.mark.unit
def test_a_stateless_rule_needs_one_for_the_answer() -> None:
    loose = [tcp("source", 8786, isStateless=True)]
    assert Two(loose, OUT).reach(8786)
    assert not Two(loose, [tcp("destination", 8786)]).reach(8786)
    # It counts before a stateful rule that matches too.
    assert not Two([*loose, tcp("source", 8786)], [tcp("destination", 8786)]).reach(8786)
    assert Two([tcp("source", 8786)], [tcp("destination", 8786)]).reach(8786)


@pytest.mark.unit
def test_groups_are_sources_too_and_their_rules_are_added_to_the_lists() -> None:
    two = Two([], OUT)
    assert not two.reach(8786)
    among: Any = {"sourceType": "NETWORK_SECURITY_GROUP", "direction": "INGRESS"}
    two.network.add_rules(two.group["id"], [tcp("source", 8786, place=two.group["id"], **among)])
    assert two.reach(8786)
    stranger = two.network.attach(two.subnet["id"])
    assert not two.network.reachable(stranger["privateIp"], two.addresses[0], "tcp", 8786)


@pytest.mark.unit
def test_other_networks_are_out_of_reach_and_the_world_is_not() -> None:
    two = Two([{"protocol": "all", "source": "0.0.0.0/0"}], OUT)
    other = vcn_of(two.network, "10.7.0.0/16")
    rules = two.network.make(
        "securityLists", **HERE, vcnId=other["id"], ingressSecurityRules=[{"protocol": "all", "source": "0.0.0.0/0"}]
    )
    place = {"cidrBlock": "10.7.1.0/24", "securityListIds": [rules["id"]]}
    subnet = two.network.make("subnets", **HERE, vcnId=other["id"], **place)
    far = two.network.attach(subnet["id"])["privateIp"]
    assert not two.network.reachable(two.addresses[0], far, "tcp", 22)
    assert two.network.reachable(two.addresses[0], "140.91.10.1", "tcp", 443)
    assert not two.network.reachable(far, "140.91.10.1", "tcp", 443)
