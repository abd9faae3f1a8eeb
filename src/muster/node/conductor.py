"""Processes that a framework's own launcher, which runs on main, has started on the nodes of its run.

Launchers like Horovod's or Open MPI's reach other machines by ssh. Here they ask main instead, over a loopback
connection that wants a token from their environment, in lines of JSON:

    {"token": …}                                first of all
    {"watch": true}                             from now on tell me the hosts:   {"hosts": {"worker-1": 2}}
    {"hire": "a", "node": …, "order": {…}}      start one; when it has ended:    {"ended": "a", "code": 0, …}
    {"dismiss": "a"}                            end it
    {"cause": ["a", …]}                         one of these is why I am about to fail:  {"noted": true}

Beside its code, an ended process has `complaint`: whether it only complains about a peer that was lost. What was hired
over a connection ends with that connection, and whoever says something else is hung up on.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..workdir.records import EXIT_CODES, End, Failure, first_cause
from .messages import Dismiss, Hire, HireEnded

_LONGEST = 1 << 20
_HELLO = 10.0
"""Seconds to say the token."""

Send = Callable[[str, Hire | Dismiss], bool]
"""To a node; false where it cannot be reached."""


@dataclass(eq=False)
class Launcher:
    """One connection."""

    writer: asyncio.StreamWriter
    watches: bool = False
    failures: dict[str, Failure] = field(default_factory=dict)
    """Of what it hired, by its own names."""

    def say(self, value: Mapping[str, Any]) -> None:
        if not self.writer.is_closing():
            self.writer.write(json.dumps(value).encode() + b"\n")


@dataclass
class Hired:
    """One process on a node, and who wants to know how it ends."""

    node: str
    name: str
    """What its launcher calls it."""
    launcher: Launcher
    order: Mapping[str, Any]
    dismissed: bool = False


class Conductor:
    """Main's ear for launchers of one generation."""

    def __init__(self, generation: int, send: Send) -> None:
        self._generation, self._send = generation, send
        self._token = secrets.token_hex(16)
        self._server: asyncio.Server | None = None
        self._launchers: set[Launcher] = set()
        self._hires: dict[str, Hired] = {}
        self._given_up: dict[str, str] = {}
        """Hires of nodes that were lost: should one come back, it ends them."""
        self._slots: Mapping[str, int] = {}
        self._changed = asyncio.Event()
        self._count = 0
        self.cause: Failure | None = None
        """What the launcher says is why it fails."""

    async def open(self) -> dict[str, str]:
        """Listens; returns what a launcher finds it by."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=_LONGEST)
        port = self._server.sockets[0].getsockname()[1]
        return {"MUSTER_CONDUCTOR": f"127.0.0.1:{port}", "MUSTER_CONDUCTOR_TOKEN": self._token}

    def close(self) -> None:
        if self._server:
            self._server.close()
        for launcher in self._launchers:
            launcher.writer.close()

    def hosts(self, slots: Mapping[str, int]) -> None:
        """These nodes can run so many processes each."""
        if dict(slots) == dict(self._slots):
            return
        self._slots = dict(slots)
        for launcher in self._launchers:
            if launcher.watches:
                launcher.say({"hosts": self._slots})

    def lost(self, node: str) -> None:
        """A node is gone, and with it what it ran."""
        for hire, hired in list(self._hires.items()):
            if hired.node == node:
                self._never(hire, f"{node} was lost")

    def standing(self, node: str) -> list[Hire | Dismiss]:
        """What a node must be told again whose connection broke, because it may not have heard it."""
        theirs = [(hire, hired) for hire, hired in self._hires.items() if hired.node == node]
        over = [hire for hire, hired in theirs if hired.dismissed]
        over += [hire for hire, owner in self._given_up.items() if owner == node]
        return [
            *(Hire(self._generation, hire, hired.order) for hire, hired in theirs),
            *(Dismiss(self._generation, hire) for hire in over),
        ]

    def ended(self, message: HireEnded) -> None:
        hired = self._hires.pop(message.hire, None)
        if hired is None or message.generation != self._generation:
            return
        if message.failure:
            hired.launcher.failures[hired.name] = message.failure
        complaint = bool(message.failure and message.failure.complaint)
        hired.launcher.say({"ended": hired.name, "code": message.exit_code, "complaint": complaint})
        self._changed.set()

    async def emptied(self, nodes: Iterable[str], within: float) -> bool:
        """Waits until nothing that was hired runs on these nodes; false if that took too long."""
        leaving, loop = set(nodes), asyncio.get_running_loop()
        until = loop.time() + within
        while any(hired.node in leaving for hired in self._hires.values()):
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), until - loop.time())
            except asyncio.TimeoutError:
                return False
        return True

    # --- launchers ---------------------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        launcher = Launcher(writer)
        try:
            first = await asyncio.wait_for(_line(reader), _HELLO)
            if first is None or not self._knows(str(first.get("token"))):
                return
            self._launchers.add(launcher)
            while (line := await _line(reader)) is not None and self._heard(line, launcher):
                pass
        except (OSError, asyncio.TimeoutError):
            return  # it hung up, or never said who it is
        finally:
            self._launchers.discard(launcher)
            for hire, hired in list(self._hires.items()):
                if hired.launcher is launcher:
                    self._dismiss(hire)
            writer.close()

    def _knows(self, token: str) -> bool:
        return secrets.compare_digest(token.encode("utf-8", "replace"), self._token.encode())

    def _heard(self, line: Mapping[str, Any], launcher: Launcher) -> bool:
        """False for what is no line of ours."""
        if line.get("watch") is True:
            launcher.watches = True
            launcher.say({"hosts": dict(self._slots)})
        elif isinstance(line.get("order"), dict):
            self._hire(str(line.get("hire")), str(line.get("node")), line["order"], launcher)
        elif "dismiss" in line:
            for hire, hired in self._hires.items():
                if hired.launcher is launcher and hired.name == line["dismiss"]:
                    self._dismiss(hire)
        elif isinstance(line.get("cause"), list):
            found = (launcher.failures.get(str(name)) for name in line["cause"])
            self.cause = first_cause(failure for failure in found if failure)
            launcher.say({"noted": True})
        else:
            return False
        return True

    def _hire(self, name: str, node: str, order: Mapping[str, Any], launcher: Launcher) -> None:
        self._count += 1
        hire = f"{self._generation}.{self._count}"
        self._hires[hire] = Hired(node, name, launcher, order)
        if not self._send(node, Hire(self._generation, hire, order)):
            self._never(hire, f"{node} cannot be told to start a process: it has no control channel to main")

    def _dismiss(self, hire: str) -> None:
        self._hires[hire].dismissed = True
        self._send(self._hires[hire].node, Dismiss(self._generation, hire))

    def _never(self, hire: str, why: str) -> None:
        """It has not ended, but nobody will hear of it any more."""
        self._given_up[hire] = self._hires[hire].node
        node, code = self._hires[hire].node, EXIT_CODES[End.MEMBER_FAILED]
        failure = Failure(node, "node", code, at=time.time(), tail=(why,))
        self.ended(HireEnded(node, self._generation, hire, code, failure))


async def _line(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next line; None at the end, and for what is no line of ours."""
    try:
        value = json.loads(await reader.readline() or b"null")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def blamed(conductor: Conductor | None, failure: Failure) -> Failure:
    """A launcher's failure as what it says is the cause of it."""
    return conductor.cause if conductor and conductor.cause else failure
