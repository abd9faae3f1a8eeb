"""Which process is meant by a number: on which machine, in which of its name spaces, and since when.

A host's name and a process number are not enough: containers share names, and numbers come round again.
"""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    machine: str = ""
    pid: int = 0
    started: str = ""

    @classmethod
    def here(cls) -> Process:
        return cls(this_machine(), os.getpid(), _started(os.getpid()) or "")

    @property
    def dead(self) -> bool:
        """Known to be gone. False also where it cannot be known from here."""
        if not self.pid or self.machine != this_machine():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        now = _started(self.pid)
        return now is not None and now != self.started


def this_machine() -> str:
    """One word for this boot of this machine and the process numbers that are seen from here."""
    name = socket.gethostname()
    if not sys.platform.startswith("linux"):
        return name
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{name} {boot} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115
    except OSError:
        return name


def _started(pid: int) -> str | None:
    """When a process began, in the kernel's own ticks; empty if it has ended; None where the kernel does not say."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    # An ended process keeps its number until its parent has asked for it.
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
