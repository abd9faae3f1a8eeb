"""Ports of a node: the framework's own where it may have them, free ones where the machine is shared."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable

from ..errors import NodeError
from ..frameworks.base import Port
from . import proc

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
        if fixed:
            return _unused(wish)
        if self._hold(wish.number):
            return wish.number
        for _ in _FREE:
            number = random.choice(_FREE)  # noqa: S311 - nothing here is a secret
            if self._hold(number):
                return number
        raise NodeError("no free port is left on this machine")

    def _hold(self, number: int) -> bool:
        if number in self._held:
            return False
        holder = socket.socket()
        try:
            # Bound without the flag, so that of two who want a port one gets it; with the flag from then on.
            holder.bind(("", number))
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        except OSError:
            holder.close()
            return False
        self._held[number] = holder
        return True

    def release(self) -> None:
        for holder in self._held.values():
            holder.close()
        self._held.clear()


def _unused(wish: Port) -> int:
    """The port itself, on a machine of our own: only somebody who listens there is in the way."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", wish.number))
        except OSError:
            raise NodeError(
                f"port {wish.number} ({wish.name}) is taken on this machine",
                "Stop what listens there, or give the framework another port in the job's options.",
            ) from None
    return wish.number


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
        # A private subnet may have no way out; then the first interface that is not the loopback.
        return next((address for address in _addresses() if not _loopback(address)), "127.0.0.1")


def _route(towards: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((towards, 9))
        return str(probe.getsockname()[0])


def _addresses() -> list[str]:
    """What this machine's interfaces are called by, IPv4 first."""
    found = _interfaces()
    families = (socket.AF_INET, socket.AF_INET6)
    return [one.address.partition("%")[0] for family in families for one in found if one.family == family]


def interface_of(address: str) -> str:
    """The name of the interface that has this address; empty if none has."""
    return next((one.interface for one in _interfaces() if one.address == address), "")


def _interfaces() -> list[proc.Address]:
    try:
        import psutil
    except ImportError:
        return proc.addresses()
    found = psutil.net_if_addrs().items()
    return [proc.Address(name, one.family, one.address) for name, owned in found for one in owned]


def _loopback(address: str) -> bool:
    import ipaddress

    return ipaddress.ip_address(address).is_loopback


def _inside(cidr: str) -> str:
    import ipaddress

    networks = [ipaddress.ip_network(one, strict=False) for one in cidr.replace(",", " ").split()]
    addresses = _addresses()
    for address in addresses:
        if any(ipaddress.ip_address(address) in network for network in networks):
            return address
    raise NodeError(
        f"no interface of this machine has an address inside {cidr} (it has {', '.join(addresses)})",
        "Give the subnet's CIDR that the nodes are really in, or this node's address in MUSTER_ADDRESS.",
    )
