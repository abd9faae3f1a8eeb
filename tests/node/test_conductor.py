"""The channel of a framework's own launcher, over real sockets: who may have processes started, and how they end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from muster.node.conductor import Conductor, blamed
from muster.node.messages import Dismiss, Hire, HireEnded
from muster.workdir.records import Failure
from tests.node.loop import in_loop, soon

OWN = Failure("main", "horovod", 1, at=0.0)
CAUSE = Failure("worker-1", "rank 1", 3, at=2.0, rank=1, tail=("ValueError: the true cause",))
COMPLAINT = Failure("worker-2", "rank 2", 1, at=1.0, rank=2, complaint=True)


@dataclass
class Main:
    """A conductor that listens on loopback, and all that it sent to nodes."""

    conductor: Conductor = field(init=False)
    sent: list[tuple[str, Hire | Dismiss]] = field(default_factory=list)
    unreachable: set[str] = field(default_factory=set)
    env: dict[str, str] = field(default_factory=dict)
    launchers: list[Launcher] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.conductor = Conductor(2, self.send)

    def send(self, node: str, message: Hire | Dismiss) -> bool:
        if node not in self.unreachable:
            self.sent.append((node, message))
        return node not in self.unreachable

    async def stranger(self) -> Launcher:
        host, _, port = self.env["MUSTER_CONDUCTOR"].partition(":")
        self.launchers.append(Launcher(*await asyncio.open_connection(host, int(port))))
        return self.launchers[-1]

    async def launcher(self, token: str | None = None) -> Launcher:
        launcher = await self.stranger()
        launcher.say({"token": self.env["MUSTER_CONDUCTOR_TOKEN"] if token is None else token})
        return launcher

    async def heard(self, count: int) -> list[tuple[str, Hire | Dismiss]]:
        """What was sent to nodes, once it is so much."""
        await soon(lambda: len(self.sent) >= count)
        return self.sent


@dataclass
class Launcher:
    """The other end of the connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def say(self, *values: Any) -> None:
        self.write(b"".join(json.dumps(value).encode() + b"\n" for value in values))

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    def hire(self, name: str, node: str, **order: Any) -> None:
        self.say({"hire": name, "node": node, "order": order})

    async def told(self) -> Any:
        return json.loads(await self.reader.readline())

    async def hung_up(self) -> bool:
        try:
            return await self.reader.read() == b""
        except ConnectionResetError:
            return True  # it did not read all that was said


@asynccontextmanager
async def listening() -> AsyncIterator[Main]:
    main = Main()
    main.env = await main.conductor.open()
    try:
        yield main
    finally:
        main.conductor.close()
        for launcher in main.launchers:
            launcher.writer.close()
        # The connections' own tasks end a moment later.
        await asyncio.sleep(0.05)


@in_loop
async def test_a_launcher_hires_on_a_node_and_hears_of_the_end() -> None:
    async with listening() as main:
        launcher = await main.launcher()
        launcher.hire("a", "worker-1", rank=3)
        assert await main.heard(1) == [("worker-1", Hire(2, "2.1", {"rank": 3}))]
        main.conductor.ended(HireEnded("worker-1", 2, "2.1", 0))
        assert await launcher.told() == {"ended": "a", "code": 0, "complaint": False}


@in_loop
async def test_what_a_failure_was_comes_with_it_and_the_cause_is_not_the_first_complaint() -> None:
    async with listening() as main:
        launcher = await main.launcher()
        launcher.hire("a", "worker-1")
        launcher.hire("b", "worker-2")
        await main.heard(2)
        main.conductor.ended(HireEnded("worker-2", 2, "2.2", 1, COMPLAINT))
        main.conductor.ended(HireEnded("worker-1", 2, "2.1", 3, CAUSE))
        assert await launcher.told() == {"ended": "b", "code": 1, "complaint": True}
        assert await launcher.told() == {"ended": "a", "code": 3, "complaint": False}
        assert blamed(main.conductor, OWN) == OWN
        launcher.say({"cause": ["b", "a", "never hired"]})
        assert await launcher.told() == {"noted": True}
        assert blamed(main.conductor, OWN) == CAUSE
    assert blamed(None, OWN) == OWN


@in_loop
async def test_hosts_are_told_to_whoever_watches_and_only_when_they_change() -> None:
    async with listening() as main:
        main.conductor.hosts({"main": 1})
        watcher, other = await main.launcher(), await main.launcher()
        watcher.say({"watch": True})
        assert await watcher.told() == {"hosts": {"main": 1}}
        other.hire("a", "main")
        await main.heard(1)
        main.conductor.hosts({"main": 1})
        main.conductor.hosts({"main": 1, "worker-1": 2})
        main.conductor.hosts({"main": 1})
        assert await watcher.told() == {"hosts": {"main": 1, "worker-1": 2}}
        assert await watcher.told() == {"hosts": {"main": 1}}
        main.conductor.ended(HireEnded("main", 2, "2.1", 0))
        assert "ended" in await other.told(), "it did not ask for the hosts"


@in_loop
async def test_a_launcher_dismisses_its_own_alone() -> None:
    async with listening() as main:
        first, second = await main.launcher(), await main.launcher()
        first.hire("a", "worker-1")
        await main.heard(1)
        second.hire("a", "worker-2")
        await main.heard(2)
        second.say({"dismiss": "a"}, {"dismiss": "unknown"})
        assert (await main.heard(3))[2:] == [("worker-2", Dismiss(2, "2.2"))]


@in_loop
async def test_what_was_hired_ends_with_the_connection() -> None:
    async with listening() as main:
        launcher, other = await main.launcher(), await main.launcher()
        other.hire("c", "worker-3")
        await main.heard(1)
        launcher.hire("a", "worker-1")
        launcher.hire("b", "worker-2")
        await main.heard(3)
        launcher.writer.transport.abort()
        assert (await main.heard(5))[3:] == [("worker-1", Dismiss(2, "2.2")), ("worker-2", Dismiss(2, "2.3"))]
        # They do so when nobody listens any more.
        main.conductor.ended(HireEnded("worker-1", 2, "2.2", 143))
        assert await main.conductor.emptied(["worker-1"], within=0)


@in_loop
async def test_a_lost_node_ends_what_it_ran() -> None:
    async with listening() as main:
        launcher = await main.launcher()
        launcher.hire("a", "worker-1")
        launcher.hire("b", "worker-2")
        await main.heard(2)
        main.conductor.lost("worker-1")
        assert await launcher.told() == {"ended": "a", "code": 124, "complaint": False}
        launcher.say({"cause": ["a"]})
        assert await launcher.told() == {"noted": True}
        found = blamed(main.conductor, OWN)
        assert (found.node, found.process, found.tail) == ("worker-1", "node", ("worker-1 was lost",))


@in_loop
async def test_a_node_whose_connection_broke_is_told_again_what_it_may_not_have_heard() -> None:
    async with listening() as main:
        launcher = await main.launcher()
        launcher.hire("a", "worker-1", rank=1)
        launcher.hire("b", "worker-1", rank=2)
        launcher.hire("c", "worker-2")
        launcher.say({"dismiss": "b"})
        await main.heard(4)
        first, second = Hire(2, "2.1", {"rank": 1}), Hire(2, "2.2", {"rank": 2})
        assert main.conductor.standing("worker-1") == [first, second, Dismiss(2, "2.2")]
        main.conductor.ended(HireEnded("worker-1", 2, "2.2", 143))
        assert main.conductor.standing("worker-1") == [first]
        # What it ran when it was given up is nobody's any more.
        main.conductor.lost("worker-1")
        assert main.conductor.standing("worker-1") == [Dismiss(2, "2.1")]


@in_loop
async def test_a_node_that_cannot_be_reached_is_a_failure_and_not_a_wait() -> None:
    async with listening() as main:
        main.unreachable.add("worker-1")
        launcher = await main.launcher()
        launcher.hire("a", "worker-1")
        assert await launcher.told() == {"ended": "a", "code": 124, "complaint": False}
        launcher.say({"cause": ["a"]})
        assert await launcher.told() == {"noted": True}
        assert "worker-1 cannot be told to start a process" in blamed(main.conductor, OWN).tail[0]


@in_loop
async def test_an_end_of_another_generation_is_no_news() -> None:
    async with listening() as main:
        launcher = await main.launcher()
        launcher.say({"watch": True})
        assert await launcher.told() == {"hosts": {}}
        launcher.hire("a", "worker-1")
        await main.heard(1)
        main.conductor.ended(HireEnded("worker-1", 1, "1.1", 0))
        main.conductor.hosts({"main": 1})
        assert await launcher.told() == {"hosts": {"main": 1}}


@in_loop
async def test_emptied_waits_for_what_runs_on_these_nodes() -> None:
    async with listening() as main:
        launcher = await main.launcher()
        launcher.hire("a", "worker-1")
        launcher.hire("b", "worker-2")
        await main.heard(2)
        assert await main.conductor.emptied(["worker-3"], within=0)
        assert not await main.conductor.emptied(["worker-1"], within=0.05)
        waiting = asyncio.ensure_future(main.conductor.emptied(["worker-1"], within=30))
        await asyncio.sleep(0)
        main.conductor.ended(HireEnded("worker-1", 2, "2.1", 0))
        assert await waiting


@pytest.mark.parametrize("token", ["", "wrong", "ungültig", "\ud800", "None"])
@in_loop
async def test_without_the_token_nothing_is_done(token: str) -> None:
    async with listening() as main:
        launcher = await main.launcher(token)
        launcher.hire("a", "worker-1")
        assert await launcher.hung_up()
        assert main.sent == []


@pytest.mark.parametrize(
    "junk",
    [
        b"\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xfe\n",
        b"[]\n",
        b"null\n",
        b"{}\n",
        b'{"hire": "a", "node": "worker-1"}\n',
        b'{"hire": "a", "node": "worker-1", "order": [1]}\n',
        b'{"cause": 3}\n',
        b"[" * 200_000 + b"\n",
        b'{"hire": "' + b"a" * (2 << 20) + b'"}\n',
    ],
    ids=lambda junk: repr(junk[:30]),
)
@pytest.mark.parametrize("known", [True, False])
@in_loop
async def test_junk_is_hung_up_on_and_nobody_else_minds(junk: bytes, known: bool) -> None:
    async with listening() as main:
        other = await main.launcher()
        if known:
            launcher = await main.launcher()
            launcher.hire("a", "worker-1")
            await main.heard(1)
        else:
            launcher = await main.stranger()
        launcher.write(junk)
        assert await launcher.hung_up()
        if known:
            assert await main.heard(2) == [("worker-1", Hire(2, "2.1", {})), ("worker-1", Dismiss(2, "2.1"))]
        other.say({"watch": True})
        assert await other.told() == {"hosts": {}}


@in_loop
async def test_a_long_order_arrives() -> None:
    async with listening() as main:
        launcher = await main.launcher()
        long = "x" * 500_000
        launcher.hire("a", "worker-1", env={"LONG": long})
        assert await main.heard(1) == [("worker-1", Hire(2, "2.1", {"env": {"LONG": long}}))]


@in_loop
async def test_when_it_is_closed_launchers_are_hung_up_on_and_nobody_new_is_heard() -> None:
    async with listening() as main:
        launcher = await main.launcher()
        launcher.say({"watch": True})
        await launcher.told()
        main.conductor.close()
        assert await launcher.hung_up()
        with pytest.raises(OSError, match="Connect call failed"):
            await main.launcher()
