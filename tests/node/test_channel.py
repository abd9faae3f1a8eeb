"""The control channel over real sockets: who may speak, who is not held up, and who comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from muster.errors import ChannelError
from muster.node.channel import Channel, connect
from muster.node.hub import Hub
from muster.node.link import Link
from muster.node.messages import Go, Hello, Left, Started, ToMain, ToNode, to_wire
from muster.workdir.records import EXIT_CODES, End, MainConfig, Verdict
from tests.node.loop import in_loop, soon

KEY, OTHER = b"k" * 32, b"o" * 32
HELLO = Hello("worker-1", "worker", 1, "127.0.0.1")


@dataclass
class Main:
    """A hub that listens on loopback, and all that it was told."""

    port: int = 0
    heard: list[ToMain] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    stops: list[str] = field(default_factory=list)
    greeting: list[ToNode] = field(default_factory=list)


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[Main, Hub]]:
    main = Main()
    hub = Hub(
        KEY,
        main.heard.append,
        main.lost.append,
        lambda _node: main.greeting,
        lambda: {"kind": "state"},
        main.stops.append,
    )
    main.port = await hub.open("127.0.0.1", 0)
    try:
        yield main, hub
    finally:
        await hub.close()


async def connected(port: int, key: bytes = KEY, name: str = "worker-1") -> Channel:
    return await connect("127.0.0.1", port, key, name, timeout=30)


@in_loop
async def test_a_node_with_the_runs_key_is_heard_and_greeted() -> None:
    async with listening() as (main, _):
        main.greeting.append(Go(1))
        channel = await connected(main.port)
        channel.send(to_wire(HELLO))
        assert await channel.receive() == to_wire(Go(1))
        assert await soon(lambda: main.heard) == [HELLO]
        await channel.close()


@in_loop
async def test_another_key_is_refused() -> None:
    async with listening() as (main, hub):
        with pytest.raises(ChannelError, match="refused the connection"):
            await connected(main.port, OTHER)
        assert (hub.refused, hub.nodes, main.heard) == (1, {}, [])


@in_loop
async def test_a_peer_refuses_a_main_that_has_another_key() -> None:
    async def pretend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b'{"protocol": 1, "nonce": "00"}\n' + (2).to_bytes(4, "big") + b"t" * 16 + b"{}")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(pretend, "127.0.0.1", 0)
    with pytest.raises(ChannelError, match="not signed with this run's key"):
        await connected(server.sockets[0].getsockname()[1])
    server.close()


@in_loop
async def test_another_protocol_is_refused() -> None:
    async with listening() as (main, hub):
        reader, writer = await asyncio.open_connection("127.0.0.1", main.port)
        writer.write(b'{"protocol": 99, "name": "worker-1", "nonce": "00"}\n')
        assert await reader.read() == b""
        assert hub.refused == 1
        writer.close()


class Between:
    """A stranger on the wire: passes on what it gets, changed by `tamper`, and can cut every connection."""

    def __init__(self, port: int) -> None:
        self._to = port
        self.port = 0
        self.tamper: Callable[[bytes], bytes] = lambda data: data
        self.seen = b""
        self._writers: list[asyncio.StreamWriter] = []

    async def open(self) -> Between:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def close(self) -> None:
        self._server.close()
        self.cut()

    def cut(self) -> None:
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers += [writer, outer]
        await asyncio.gather(self._pass_on(reader, outer, True), self._pass_on(inner, writer, False))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, to_main: bool) -> None:
        try:
            while data := await reader.read(1 << 16):
                self.seen += data if to_main else b""
                writer.write(self.tamper(data) if to_main else data)
        except ConnectionError:
            pass  # cut
        writer.close()


@asynccontextmanager
async def between(port: int) -> AsyncIterator[Between]:
    stranger = await Between(port).open()
    try:
        yield stranger
    finally:
        stranger.close()


@in_loop
async def test_a_changed_frame_is_refused() -> None:
    async with listening() as (main, hub), between(main.port) as stranger:
        stranger.tamper = lambda data: data.replace(b"worker", b"warder") if b"Hello" in data else data
        channel = await connected(stranger.port)
        channel.send(to_wire(HELLO))
        assert await channel.receive() is None
        assert (hub.refused, main.heard) == (1, [])
        assert await soon(lambda: not hub.nodes)
        await channel.close()


@in_loop
async def test_a_frame_that_is_sent_twice_counts_once() -> None:
    async with listening() as (main, hub), between(main.port) as stranger:
        stranger.tamper = lambda data: data + data if b"Started" in data else data
        channel = await connected(stranger.port)
        channel.send(to_wire(Started("worker-1", 1)))
        assert await channel.receive() is None
        assert (hub.refused, main.heard) == (1, [Started("worker-1", 1)])
        await channel.close()


@in_loop
async def test_a_whole_connection_cannot_be_replayed() -> None:
    async with listening() as (main, hub), between(main.port) as stranger:
        channel = await connected(stranger.port)
        channel.send(to_wire(HELLO))
        await soon(lambda: main.heard)
        await channel.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", main.port)
        writer.write(stranger.seen)
        greeting = await reader.readline()
        assert b"nonce" in greeting
        assert await reader.read() == b""
        assert (hub.refused, main.heard) == (1, [HELLO])
        writer.close()


@in_loop
async def test_an_oversize_frame_is_refused_before_it_is_read() -> None:
    async with listening() as (main, hub), between(main.port) as stranger:
        huge = (1 << 31).to_bytes(4, "big") + b"x" * 100
        stranger.tamper = lambda data: huge if b"Hello" in data else data
        channel = await connected(stranger.port)
        channel.send(to_wire(HELLO))
        assert await channel.receive() is None
        assert (hub.refused, main.heard) == (1, [])
        await channel.close()


@in_loop
async def test_a_stranger_cannot_make_main_wait_for_a_large_first_frame() -> None:
    async with listening() as (main, hub):
        reader, writer = await asyncio.open_connection("127.0.0.1", main.port)
        writer.write(b'{"protocol": 1, "name": "worker-1", "nonce": "00"}\n' + (1 << 20).to_bytes(4, "big"))
        await reader.readline()
        assert await reader.read() == b""
        assert hub.refused == 1
        writer.close()


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: main\r\n\r\n",
        b"\n",
        b"[]\n",
        b"\xff\xfe\x00\n",
        b"[" * 4000 + b"\n",
        b'{"protocol": 1, "nonce": "\\ud800"}\n',
        b'{"protocol": 1}\n' + b"\xff" * 200,
        b"x" * (2 << 20),
    ],
    ids=["http", "empty", "list", "bytes", "deep", "surrogate", "no-nonce", "endless"],
)
@in_loop
async def test_garbage_is_refused(garbage: bytes) -> None:
    async with listening() as (main, hub):
        reader, writer = await asyncio.open_connection("127.0.0.1", main.port)
        try:
            writer.write(garbage)
            writer.write_eof()
            await reader.read()
        except ConnectionError:
            pass  # refused before all of it was sent
        assert await soon(lambda: hub.refused) == 1
        assert main.heard == []
        writer.close()


@in_loop
async def test_a_silent_client_holds_nobody_up() -> None:
    async with listening() as (main, hub):
        silent = [await asyncio.open_connection("127.0.0.1", main.port) for _ in range(20)]
        silent[0][1].write(b'{"protocol": 1,')
        silent[1][1].write(b'{"protocol": 1, "name": "worker-2", "nonce": "00"}\n')
        channel = await connected(main.port)
        channel.send(to_wire(HELLO))
        assert await soon(lambda: main.heard) == [HELLO]
        assert hub.refused == 0
        for _, writer in silent:
            writer.close()
        await channel.close()


# --- a worker's link --------------------------------------------------------------------------------------


@dataclass
class Worker:
    heard: list[ToNode] = field(default_factory=list)
    times: list[str] = field(default_factory=list)
    """gone, back, unreachable, in their order"""

    def link(self, key: bytes = KEY) -> Link:
        return Link(
            "worker-1",
            key,
            hear=self.heard.append,
            gone=lambda: self.times.append("gone"),
            back=lambda: self.times.append("back"),
            unreachable=lambda _detail: self.times.append("unreachable"),
            watched=lambda _on: None,
        )


def at(port: int) -> MainConfig:
    return MainConfig("main", "127.0.0.1", port, 1)


@in_loop
async def test_a_link_that_was_cut_comes_back_and_says_again_what_still_holds() -> None:
    async with listening() as (main, _), between(main.port) as stranger:
        worker = Worker()
        link = worker.link()
        link.aim(at(stranger.port))
        link.tell(HELLO)
        link.tell(Started("worker-1", 1))
        await soon(lambda: len(main.heard) == 2)
        stranger.cut()
        await soon(lambda: len(main.heard) == 4)
        assert main.heard[2:] == [HELLO, Started("worker-1", 1)]
        assert worker.times == ["back", "gone", "back"]
        assert main.lost == []
        main.greeting.append(Go(1))
        stranger.cut()
        assert await soon(lambda: worker.heard) == [Go(1)]
        await link.close()


@in_loop
async def test_a_link_survives_a_stranger_who_changes_a_frame() -> None:
    async with listening() as (main, hub), between(main.port) as stranger:
        worker = Worker()
        link = worker.link()
        link.aim(at(stranger.port))
        await soon(lambda: worker.times)
        stranger.tamper = lambda data: data.replace(b"worker", b"warder") if b"Hello" in data else data
        link.tell(HELLO)
        await soon(lambda: hub.refused)
        stranger.tamper = lambda data: data
        assert await soon(lambda: main.heard) == [HELLO]
        assert main.lost == []
        await link.close()


@in_loop
async def test_a_link_says_once_that_main_cannot_be_reached_and_goes_on_trying() -> None:
    closed = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    port = closed.sockets[0].getsockname()[1]
    worker = Worker()
    link = worker.link()
    link.aim(at(port))
    await soon(lambda: worker.times)
    await asyncio.sleep(0.3)
    assert worker.times == ["unreachable"]
    closed.close()
    await closed.wait_closed()
    main = Main()
    hub = Hub(KEY, main.heard.append, main.lost.append, lambda _node: [], dict, main.stops.append)
    assert await hub.open("127.0.0.1", port) == port
    assert await soon(lambda: "back" in worker.times)
    await link.close()
    await hub.close()


@in_loop
async def test_a_node_that_does_not_come_back_is_lost_and_one_that_left_is_not() -> None:
    async with listening() as (main, hub):
        lost, left = await connected(main.port, name="worker-1"), await connected(main.port, name="worker-2")
        left.send(to_wire(Left("worker-2", Verdict(End.STOP_REQUESTED, EXIT_CODES[End.STOP_REQUESTED]))))
        await left.drain()
        await left.close()
        await lost.close()
        await soon(lambda: main.lost)
        assert main.lost == ["worker-1"]
        assert hub.nodes == {}


@in_loop
async def test_a_watcher_sees_the_state_and_may_ask_for_a_stop_but_is_no_node() -> None:
    async with listening() as (main, hub):
        asked: list[Any] = []
        hub.on_watched = asked.append  # type: ignore[method-assign, assignment]
        channel = await connected(main.port, name="watch:1")
        assert await channel.receive() == {"kind": "state"}
        assert (hub.nodes, hub.watched(), asked) == ({}, True, [True])
        channel.send({"kind": "stop", "why": "enough"})
        assert await soon(lambda: main.stops) == ["enough"]
        await channel.close()
        await soon(lambda: not hub.watched())
        assert asked == [True, False]
