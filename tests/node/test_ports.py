"""Ports of a node, held with real sockets; and the address that the others reach it by."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from muster.errors import NodeError
from muster.frameworks.base import Port
from muster.node import ports
from muster.node.ports import Reserved, own_address


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def reserved() -> Iterator[list[Reserved]]:
    made = [Reserved(), Reserved()]
    yield made
    for one in made:
        one.release()


def test_a_free_port_is_given_as_it_was_wished(reserved: list[Reserved]) -> None:
    number = free_port()
    assert reserved[0].take([Port("store", number)], fixed=False) == {"store": number}


def test_of_two_who_wish_the_same_one_is_moved(reserved: list[Reserved]) -> None:
    wish = Port("store", free_port())
    first, second = (one.take([wish], fixed=False)["store"] for one in reserved)
    assert first == wish.number
    assert second != first
    assert 20000 <= second < 32000


def test_a_node_never_gets_one_number_for_two_wishes(reserved: list[Reserved]) -> None:
    number = free_port()
    taken = reserved[0].take([Port("scheduler", number), Port("dashboard", number)], fixed=False)
    assert len(set(taken.values())) == 2


def test_a_range_is_left_to_the_service_that_picks_from_it(reserved: list[Reserved]) -> None:
    assert reserved[0].take([Port("workers", 8700, 8800)], fixed=False) == {}


def test_the_service_may_listen_on_the_port_that_is_held_for_it(reserved: list[Reserved]) -> None:
    number = reserved[0].take([Port("store", free_port())], fixed=False)["store"]
    with socket.create_server(("127.0.0.1", number)) as service, socket.create_connection(("127.0.0.1", number)):
        accepted, _ = service.accept()
        assert accepted.getsockname()[1] == number
        accepted.close()


def test_a_port_on_which_somebody_listens_is_not_given_away(reserved: list[Reserved]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as service:
        number = service.getsockname()[1]
        assert reserved[0].take([Port("store", number)], fixed=False)["store"] != number


def test_what_was_released_can_be_taken_again(reserved: list[Reserved]) -> None:
    wish = Port("store", free_port())
    reserved[0].take([wish], fixed=False)
    reserved[0].release()
    assert reserved[1].take([wish], fixed=False) == {"store": wish.number}


def test_where_ports_are_fixed_one_that_is_taken_is_an_error_with_its_name(reserved: list[Reserved]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as service:
        number = service.getsockname()[1]
        with pytest.raises(NodeError, match=rf"port {number} \(store\) is taken on this machine") as caught:
            reserved[0].take([Port("store", number)], fixed=True)
    assert "another port in the job's options" in caught.value.fix


def test_where_ports_are_fixed_a_free_one_is_given_as_it_is(reserved: list[Reserved]) -> None:
    number = free_port()
    assert reserved[0].take([Port("store", number)], fixed=True) == {"store": number}


def test_ports_run_out_with_an_error_and_not_for_ever(
    reserved: list[Reserved], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as service:
        number = service.getsockname()[1]
        monkeypatch.setattr(ports, "_FREE", range(number, number + 1))
        with pytest.raises(NodeError, match="no free port is left"):
            reserved[0].take([Port("store", number)], fixed=False)


def test_the_address_is_the_one_inside_the_subnet() -> None:
    assert own_address("127.0.0.0/8", None) == "127.0.0.1"


def test_a_subnet_that_no_interface_is_in_is_an_error_that_lists_those_there_are() -> None:
    with pytest.raises(NodeError, match=r"no interface .* inside 203\.0\.113\.0/24 \(it has .*127\.0\.0\.1"):
        own_address("203.0.113.0/24", None)


def test_without_a_subnet_it_is_the_one_that_routes_to_main() -> None:
    assert own_address(None, "127.0.0.1") == "127.0.0.1"


def test_main_itself_has_an_address_even_where_no_route_leads_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert socket.inet_aton(own_address(None, None))

    def no_route(_towards: str) -> str:
        raise OSError("Network is unreachable")

    monkeypatch.setattr(ports, "_route", no_route)
    monkeypatch.setattr(ports, "_addresses", lambda: ["127.0.0.1", "10.0.0.7"])
    assert own_address(None, None) == "10.0.0.7"
    monkeypatch.setattr(ports, "_addresses", lambda: ["127.0.0.1"])
    assert own_address(None, None) == "127.0.0.1"
