"""What a node asks psutil, read from the kernel where that is not installed, as in the images of users. Linux alone."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

_SIOCGIFCONF = 0x8912
_REQUEST = 40 if struct.calcsize("P") == 8 else 32
"""Bytes of one `struct ifreq`."""


class Use(NamedTuple):
    """What one process has used: seconds of a processor, and bytes of memory now."""

    seconds: float
    memory: int


def descendants(root: int) -> dict[int, Use]:
    """What each process below this one uses. Those that end meanwhile are not among them."""
    stats = dict(_stats())
    children: dict[int, list[int]] = {}
    for pid, fields in stats.items():
        children.setdefault(int(fields[1]), []).append(pid)
    found: dict[int, Use] = {}
    queue = [root]
    while queue:
        for pid in children.get(queue.pop(), ()):
            if pid not in found:
                found[pid] = _use(stats[pid])
                queue.append(pid)
    return found


def _stats() -> Iterator[tuple[int, list[bytes]]]:
    """The fields of each process's `stat`, from its state on: its name, which may hold anything, is before them."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                with open(f"/proc/{entry.name}/stat", "rb") as file:  # noqa: PTH123 - done for every process there is
                    stat = file.read()
            except OSError:
                continue
            yield int(entry.name), stat[stat.rindex(b")") + 2 :].split()


def _use(fields: list[bytes]) -> Use:
    ticks = int(fields[11]) + int(fields[12])
    return Use(ticks / os.sysconf("SC_CLK_TCK"), int(fields[21]) * os.sysconf("SC_PAGE_SIZE"))


def traffic() -> tuple[float, float]:
    """Bytes sent and received by all interfaces."""
    sent = received = 0
    with open("/proc/net/dev", encoding="ascii", errors="replace") as file:  # noqa: PTH123 - not a path of the user's
        for line in file:
            _, colon, numbers = line.rpartition(":")
            if colon:
                fields = numbers.split()
                received, sent = received + int(fields[0]), sent + int(fields[8])
    return float(sent), float(received)


class Address(NamedTuple):
    """One address of an interface."""

    interface: str
    family: int
    address: str


def addresses() -> list[Address]:
    """What this machine's interfaces are called by, IPv4 first."""
    return [*_version4(), *_version6()]


def _version4() -> Iterator[Address]:
    import array
    import fcntl

    room = 64 * _REQUEST
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        while True:
            space = array.array("B", bytes(room))
            told = fcntl.ioctl(asker, _SIOCGIFCONF, struct.pack("iP", room, space.buffer_info()[0]))
            (used,) = struct.unpack_from("i", told)
            if used < room:
                break
            room *= 2  # it was full, and there may be more
    data = space.tobytes()
    for start in range(0, used, _REQUEST):
        name = data[start : start + 16].split(b"\0", 1)[0].decode(errors="replace")
        # Of an alias, `eth0:1`, the interface is the part before the colon.
        yield Address(name.partition(":")[0], socket.AF_INET, socket.inet_ntoa(data[start + 20 : start + 24]))


def _version6() -> Iterator[Address]:
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as file:  # noqa: PTH123 - not a path of the user's
            lines = file.read().splitlines()
    except OSError:
        return  # the kernel has no IPv6
    for line in lines:
        number, *_, name = line.split()
        yield Address(name, socket.AF_INET6, socket.inet_ntop(socket.AF_INET6, bytes.fromhex(number)))
