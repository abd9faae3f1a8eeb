"""Main's end of the control channel: the nodes that are connected, and those who watch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from ..errors import ChannelError
from .channel import BEAT, SILENCE, WATCHER, Channel, accept, frame_body
from .messages import TO_MAIN, Left, ToMain, ToNode, from_wire, to_wire

_AT_ONCE = 4096
"""Nodes that may knock in the same moment; the system has whoever is one too many wait for a second or more."""
_RETURN = 2.0
"""Seconds a node has to come back when its connection broke."""


class Hub:
    """Listens for nodes and watchers, and carries what they say to main and back."""

    def __init__(
        self,
        key: bytes,
        hear: Callable[[ToMain], None],
        lost: Callable[[str], None],
        greeting: Callable[[str], list[ToNode]],
        snapshot: Callable[[], dict[str, Any]],
        stop: Callable[[str], None],
        look: Callable[[], None] = lambda: None,
    ) -> None:
        self._key, self._hear, self._lost, self._stop, self._look = key, hear, lost, stop, look
        self._greeting, self._snapshot = greeting, snapshot
        self.nodes: dict[str, Channel] = {}
        self._watchers: set[Channel] = set()
        self._heard_at: dict[Channel, float] = {}
        self._server: asyncio.Server | None = None
        self._beating: asyncio.Task[None] | None = None
        self.refused = 0

    async def open(self, address: str, port: int) -> int:
        """Listens, and returns the port."""
        self._server = await asyncio.start_server(self._connected, address, port, limit=1 << 20, backlog=_AT_ONCE)
        self._beating = asyncio.ensure_future(self._beat())
        return int(self._server.sockets[0].getsockname()[1])

    def send(self, message: ToNode, node: str | None = None) -> None:
        # A list of a thousand members is large, and main would be busy for long if it wrote it out for each of them.
        body = frame_body(to_wire(message))
        for name, channel in self.nodes.items():
            if node in (None, name):
                channel.send_body(body)

    def watched(self) -> bool:
        return bool(self._watchers)

    def show(self, message: dict[str, Any]) -> None:
        """To all who watch. One who reads too slowly misses lines here, and finds them in the run's folder."""
        for watcher in self._watchers:
            if not watcher.clogged:
                watcher.send(message)

    async def close(self) -> None:
        if self._beating:
            self._beating.cancel()
        if self._server:
            self._server.close()
        for channel in [*self.nodes.values(), *self._watchers]:
            await channel.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            name, channel = await accept(reader, writer, self._key)
        except (ChannelError, OSError, asyncio.TimeoutError):
            self.refused += 1
            return
        try:
            if name.startswith(WATCHER):
                await self._watcher(channel)
            else:
                await self._node(name, channel)
        except ChannelError:
            self.refused += 1
        finally:
            self._heard_at.pop(channel, None)
            await channel.close()

    async def _node(self, name: str, channel: Channel) -> None:
        self.nodes[name] = channel
        if self._watchers:
            channel.send({"kind": "watch", "on": True})
        for greeting in self._greeting(name):
            channel.send(to_wire(greeting))
        left = False
        try:
            left = await self._hear_out(channel)
        finally:
            newest = self.nodes.get(name) is channel
            if newest:
                del self.nodes[name]
        if newest and not left:
            await asyncio.sleep(_RETURN)
            if name not in self.nodes:
                self._lost(name)

    async def _hear_out(self, channel: Channel) -> bool:
        """Passes on what a node says until its connection ends; true if its last word was that it leaves."""
        left = False
        try:
            while (value := await channel.receive()) is not None:
                self._heard_at[channel] = time.monotonic()
                if value.get("kind") in ("log", "metrics"):
                    self.show(value)
                    continue
                message = from_wire(value)
                left = left or isinstance(message, Left)
                if isinstance(message, TO_MAIN):
                    self._hear(message)
        except ChannelError:
            # Whoever changed a frame on its way has only cut the connection; the node may come back.
            self.refused += 1
            await channel.close()
        return left

    async def _watcher(self, channel: Channel) -> None:
        self._watchers.add(channel)
        self._tell_watched(True)
        channel.send(self._snapshot())
        try:
            while (value := await channel.receive()) is not None:
                self._heard_at[channel] = time.monotonic()
                if value.get("kind") == "stop":
                    self._stop(str(value.get("why", "")))
                elif value.get("kind") == "look":
                    self._look()
        finally:
            self._watchers.discard(channel)
            if not self._watchers:
                self._tell_watched(False)

    def _tell_watched(self, on: bool) -> None:
        for channel in self.nodes.values():
            channel.send({"kind": "watch", "on": on})
        self.on_watched(on)

    def on_watched(self, on: bool) -> None:
        """Main's own lines are wanted, or no longer."""

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT)
            now = time.monotonic()
            for channel in [*self.nodes.values(), *self._watchers]:
                channel.send({"kind": "beat"})
                if now - self._heard_at.setdefault(channel, now) > SILENCE:
                    await channel.close()
