"""A worker's way to main: one connection while it can be had; where it cannot, the work dir alone, and that is said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ..errors import ChannelError
from ..workdir.records import MainConfig
from .channel import BEAT, SILENCE, Channel, connect
from .messages import TO_NODE, Hello, ToMain, ToNode, from_wire, to_wire
from .waiting import delays

_CONNECT = 5.0
"""Seconds for one attempt. A closed port often answers nothing at all."""


class Link:
    """Keeps one connection to the newest main, and says again after each reconnect what still holds."""

    def __init__(
        self,
        node: str,
        key: bytes,
        hear: Callable[[ToNode], None],
        gone: Callable[[], None],
        back: Callable[[], None],
        unreachable: Callable[[str], None],
        watched: Callable[[bool], None],
    ) -> None:
        self._node, self.key = node, key
        self._hear, self._gone, self._back, self._unreachable, self._watched = (
            hear,
            gone,
            back,
            unreachable,
            watched,
        )
        self._channel: Channel | None = None
        self._task: asyncio.Task[None] | None = None
        self._main: MainConfig | None = None
        self.tried = False
        """The newest main has answered, or has not; until then nobody can tell."""
        self._standing: list[ToMain] = []
        """What main must know of this generation, however often the connection breaks."""

    @property
    def connected(self) -> bool:
        return self._channel is not None

    def aim(self, config: MainConfig) -> None:
        """Connects to this main from now on, and to no older one."""
        if self._task:
            self._task.cancel()
        self._main, self.tried = config, False
        self._task = asyncio.ensure_future(self._keep(config))

    def tell(self, message: ToMain) -> None:
        if isinstance(message, Hello):
            self._standing.clear()
        self._standing.append(message)
        if self._channel:
            self._channel.send(to_wire(message))

    def send(self, value: dict[str, Any]) -> None:
        """Something that is not said again, such as log lines."""
        if self._channel and not self._channel.clogged:
            self._channel.send(value)

    async def close(self) -> None:
        self._main = None
        if self._channel:
            await self._channel.drain()
            await self._channel.close()
        if self._task:
            self._task.cancel()

    async def _keep(self, config: MainConfig) -> None:
        ever = False
        for delay in delays(slowest=2.0, first=0.05):
            if self._main is not config:
                return  # a wait that ended as it was cancelled does not tell
            try:
                self._channel = await connect(config.address, config.control_port, self.key, self._node, _CONNECT)
            except (OSError, asyncio.TimeoutError, ChannelError) as error:
                self.tried = True
                if not ever:
                    # A main that was never reached is no loss: it may be there behind a closed port.
                    self._unreachable(f"{config.address}:{config.control_port} ({error or 'no answer'})")
                    ever = True
                await asyncio.sleep(delay)
                continue
            ever = self.tried = True
            self._back()
            for message in self._standing:
                self._channel.send(to_wire(message))
            try:
                await self._listen(self._channel)
            finally:
                self._channel = None
            self._gone()

    async def _listen(self, channel: Channel) -> None:
        beating = asyncio.ensure_future(_beat(channel))
        try:
            while True:
                value = await asyncio.wait_for(channel.receive(), SILENCE)
                if value is None:
                    return
                if value.get("kind") == "watch":
                    self._watched(bool(value.get("on")))
                    continue
                message = from_wire(value)
                if isinstance(message, TO_NODE):
                    self._hear(message)
        except (asyncio.TimeoutError, ChannelError):
            return
        finally:
            beating.cancel()
            await channel.close()


async def _beat(channel: Channel) -> None:
    while True:
        await asyncio.sleep(BEAT)
        channel.send({"kind": "beat"})
