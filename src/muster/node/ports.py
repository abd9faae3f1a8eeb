"""Ports of a node: the framework's own where it may have them, free ones where the machine is shared."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable

from ..errors import NodeError
from ..frameworks.base import Port

_FREE = range(20000, 32000)
"""Below the range from which kernels take ports for outgoing connections, so that none of those takes ours."""


class Reserved:
    """Ports held for services that will listen on them soon.

    A held port is bound but not listening, with the flag that lets a server that sets it too (Dask's, torch's and
    ours do) bind and listen all the same, while anybody who looks for a free port sees that it is taken.
    """

    def __init__(self) -> None:
        self._held: dict[int, socket.socket] = {}

    def take(self, wishes: Iterable[Port], fixed: bool) -> dict[str, int]:
        """A number for each wish by name. Ranges are left to the service that picks from them."""
        return {wish.name: self._one(wish, fixed) for wish in wishes if not wish.last}

    def _one(self, wish: Port, fixed: bool) -> int:
        if self._hold(wish.number):
            return wish.number
        if fixed:
            raise NodeError(
                f"port {wish.number} ({wish.name}) is taken on this machine",
                "Stop what listens there, or give the framework another port in the job's options.",
            )
        for number in random.sample(_FREE, len(_FREE)):
            if self._hold(number):
                return number
        raise NodeError("no free port is left on this machine")

    def _hold(self, number: int) -> bool:
        if number in self._held:
            return False
        probe = socket.socket()
        try:
            probe.bind(("", number))
            probe.close()
            holder = socket.socket()
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind(("", number))
        except OSError:
            return False
        self._held[number] = holder
        return True

    def release(self) -> None:
        for holder in self._held.values():
            holder.close()
        self._held.clear()


def own_address(cidr: str | None, main: str | None) -> str:
    """The address that the other nodes reach this one by: inside the subnet, else the one that routes to main."""
    if cidr:
        return _inside(cidr)
    if main:
        return _route(main)
    try:
        # A route is looked up and nothing is sent: a datagram socket connects without a packet.
        return _route("192.0.2.1")
    except OSError:
        return "127.0.0.1"


def _route(towards: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((towards, 9))
        return str(probe.getsockname()[0])


def _inside(cidr: str) -> str:
    import ipaddress

    import psutil

    network = ipaddress.ip_network(cidr, strict=False)
    addresses = [
        address.address
        for interface in psutil.net_if_addrs().values()
        for address in interface
        if address.family in (socket.AF_INET, socket.AF_INET6)
    ]
    for address in addresses:
        if ipaddress.ip_address(address.partition("%")[0]) in network:
            return address
    raise NodeError(
        f"no interface of this machine has an address inside {cidr} (it has {', '.join(addresses)})",
        "Give the subnet's CIDR that the nodes are really in, or this node's address in MUSTER_ADDRESS.",
    )
