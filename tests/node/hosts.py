"""Several hosts on one machine: network namespaces with addresses of their own, behind one switch."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Host:
    """A network of its own. Files and processes are this machine's."""

    name: str
    address: str

    def argv(self, *words: str) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{self.name}", *words]

    def block(self, port: int) -> None:
        """Drops what comes in for a port, as a security list does: no answer at all."""
        _call(*self.argv("iptables", "-A", "INPUT", "-p", "tcp", "--dport", str(port), "-j", "DROP"))


@contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    """So many hosts on one subnet, 10.77.0.0/24, which nothing else can reach. Root only."""
    tag = f"mu{os.getpid()}"
    switch = f"{tag}s"
    made = [Host(f"{tag}h{number}", f"10.77.0.{number + 1}") for number in range(count)]
    try:
        _call("ip", "netns", "add", switch)
        _call("ip", "-n", switch, "link", "add", "switch", "type", "bridge")
        _call("ip", "-n", switch, "link", "set", "switch", "up")
        for number, host in enumerate(made):
            _call("ip", "netns", "add", host.name)
            port = f"port{number}"
            _call("ip", "-n", switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", host.name)
            _call("ip", "-n", switch, "link", "set", port, "master", "switch", "up")
            _call("ip", "-n", host.name, "addr", "add", f"{host.address}/24", "dev", "eth0")
            _call("ip", "-n", host.name, "link", "set", "eth0", "up")
            _call("ip", "-n", host.name, "link", "set", "lo", "up")
        yield made
    finally:
        for name in (*(host.name for host in made), switch):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def _call(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"
