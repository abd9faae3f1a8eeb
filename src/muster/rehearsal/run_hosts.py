"""The machines of the rehearsal: process trees on this machine, each with a folder and an address of its own.

>>> machine = Machine(Boot(["python3", "train.py"], environment, home, mark), take_line, when_ended)
>>> machine.ask_to_end()                                   # SIGTERM to the main process
>>> machine.kill()                                         # all of the tree, at once

Whatever a machine runs ends with the process that holds the `Machine`, by a guard (`run_guard.py`) that watches a pipe.
"""

from __future__ import annotations

import ipaddress
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GUARD = Path(__file__).with_name("run_guard.py")
KILLED = 137


def _stay() -> None:
    """There is nothing to leave."""


@dataclass(frozen=True)
class Place:
    """Where a machine is in the network: what its processes are told of it, and what their command is put behind."""

    environment: Mapping[str, str] = field(default_factory=dict)
    prefix: Sequence[str] = ()
    leave: Callable[[], None] = _stay
    """Called when the machine has ended."""


Placing = Callable[[Mapping[str, Any]], Place]
"""A place for a node of this job run (in the names of the wire)."""


class Addresses:
    """Loopback addresses that belong to this process: the second byte comes from its id, the rest is counted."""

    def __init__(self, pid: int) -> None:
        self._first = int(ipaddress.IPv4Address("127.0.0.0")) + ((1 + pid % 254) << 16)
        self._next = (pid // 254 % 256) << 8
        self._taken: set[str] = set()
        self._lock = threading.Lock()

    def take(self) -> str:
        with self._lock:
            while True:
                self._next = (self._next + 1) % (1 << 16)
                address = str(ipaddress.IPv4Address(self._first + self._next))
                if self._next % 256 not in (0, 255) and address not in self._taken:
                    self._taken.add(address)
                    return address

    def give_back(self, address: str) -> None:
        with self._lock:
            self._taken.discard(address)


_OURS = Addresses(os.getpid())


def on_loopback(_run: Mapping[str, Any]) -> Place:
    """A place with a loopback address of its own, where the system has more than one (Linux).

    Ports are free ones: what listens on all addresses would meet the other nodes' there.
    """
    if not sys.platform.startswith("linux"):
        return Place({"MUSTER_ADDRESS": "127.0.0.1", "MUSTER_FREE_PORTS": "1"})
    address = _OURS.take()
    return Place({"MUSTER_ADDRESS": address, "MUSTER_FREE_PORTS": "1"}, leave=lambda: _OURS.give_back(address))


@dataclass(frozen=True)
class Boot:
    """What a machine starts with."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    home: Path
    mark: str
    """A `NAME=VALUE` of the environment that no other machine has."""


class Machine:
    """A machine that runs. `line` takes what it prints; `ended` is called with its exit code. Both in threads."""

    def __init__(self, boot: Boot, line: Callable[[str], None], ended: Callable[[int], None]) -> None:
        # Isolated on Linux from installed packages too, which it needs elsewhere to find processes.
        options = ["-I", "-S"] if sys.platform.startswith("linux") else ["-I"]
        self._process = subprocess.Popen(
            [sys.executable, *options, str(GUARD), *boot.argv],
            env=dict(boot.environment),
            cwd=boot.home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._mark = boot.mark
        self._line = line
        self._ended = ended
        threading.Thread(target=self._wait, daemon=True).start()

    @property
    def pid(self) -> int:
        """The guard's."""
        return self._process.pid

    def ask_to_end(self) -> None:
        self._say(b"T")

    def kill(self) -> None:
        self._say(b"K")

    def _say(self, word: bytes) -> None:
        try:
            if self._process.stdin is not None:
                self._process.stdin.write(word)
                self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass  # it has ended meanwhile

    def _wait(self) -> None:
        reading = threading.Thread(target=self._read, daemon=True)
        reading.start()
        code = self._process.wait()
        if code < 0:
            sweep(self._mark)
        reading.join()
        try:
            if self._process.stdin is not None:
                self._process.stdin.close()
        except BrokenPipeError:
            pass  # a word that it no longer heard
        self._ended(code if code >= 0 else KILLED)

    def _read(self) -> None:
        if self._process.stdout is not None:
            with self._process.stdout as output:
                for line in output:
                    self._line(line.decode("utf-8", "replace").rstrip("\r\n"))


def sweep(mark: str) -> None:
    """Kills what carries this `NAME=VALUE` in its environment: what a guard left that was itself killed."""
    needle = mark.encode() + b"\0"
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if needle in entry.read_bytes() + b"\0":
                os.kill(int(entry.parent.name), signal.SIGKILL)
        except (OSError, ValueError):
            continue  # it ended while we looked, or belongs to another user
