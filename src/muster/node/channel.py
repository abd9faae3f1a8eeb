"""The control channel's wire: length-prefixed JSON frames, authenticated with the run's key.

Both sides prove the key by tagging every frame: an HMAC over the frame, its direction and its number, under a key
made of both sides' nonces. So a stranger on the network can neither join, nor replay, nor change a frame. Frames
are not encrypted: no secret travels here.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
from typing import Any

from ..errors import ChannelError
from ..workdir.records import PROTOCOL

BEAT = 5.0
"""Seconds between signs of life on a connection."""
SILENCE = 20.0
"""Seconds without any after which the other side counts as gone."""
WATCHER = "watch:"
"""How the names of those begin who connect to watch, and are no nodes."""
_TAG = 16
_GREETING_LIMIT = 4096
_FRAME_LIMIT = 64 << 20
_GREETING_SECONDS = 10.0
_CLOSING_SECONDS = 2.0
_BACKLOG = 16 << 20


class Channel:
    """One authenticated connection. `receive` returns None when the other side has closed it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, send_key: bytes, receive_key: bytes):
        self._reader, self._writer = reader, writer
        self._send_key, self._receive_key = send_key, receive_key
        self._sent = self._received = 0

    def send(self, message: dict[str, Any]) -> None:
        """Queues a frame; never waits. `drain` waits for a peer that reads slowly."""
        self.send_body(frame_body(message))

    def send_body(self, body: bytes) -> None:
        """The same for what goes to many, and is made into bytes once."""
        if self._writer.is_closing():
            return
        self._writer.write(len(body).to_bytes(4, "big") + _tag(self._send_key, self._sent, body) + body)
        self._sent += 1

    async def drain(self) -> None:
        try:
            await self._writer.drain()
        except ConnectionError:
            pass  # the reading side sees the end and tells

    async def receive(self, limit: int = _FRAME_LIMIT) -> dict[str, Any] | None:
        try:
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            if size > limit:
                raise ChannelError(f"a control frame of {size} bytes is larger than {limit}")
            tag = await self._reader.readexactly(_TAG)
            body = await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            return None
        if not hmac.compare_digest(tag, _tag(self._receive_key, self._received, body)):
            raise ChannelError("a control frame was not signed with this run's key")
        self._received += 1
        value: dict[str, Any] = json.loads(body.decode("utf-8", "surrogateescape"))
        return value

    @property
    def clogged(self) -> bool:
        """The other side reads so slowly that what is not vital should not be sent to it."""
        return self._writer.transport.get_write_buffer_size() > _BACKLOG

    async def close(self) -> None:
        """Hangs up. A peer that no longer reads is not waited for."""
        self._writer.close()
        try:
            await asyncio.wait_for(self._writer.wait_closed(), _CLOSING_SECONDS)
        except asyncio.TimeoutError:
            self._writer.transport.abort()
        except OSError:
            pass  # it is closed either way


def frame_body(message: dict[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogateescape")


async def connect(address: str, port: int, key: bytes, name: str, timeout: float) -> Channel:
    """A channel to main, as the node or watcher called `name`. Raises `OSError` where nobody answers in time."""
    reader, writer = await asyncio.wait_for(asyncio.open_connection(address, port), timeout)
    try:
        nonce = secrets.token_hex(16)
        writer.write(json.dumps({"protocol": PROTOCOL, "name": name, "nonce": nonce}).encode() + b"\n")
        answer = await _greeting(reader)
        channel = Channel(reader, writer, *_keys(key, nonce, str(answer.get("nonce"))))
        channel.send({"kind": "join"})
        welcome = await asyncio.wait_for(channel.receive(), timeout)
        if welcome is None:
            raise ChannelError(f"main at {address}:{port} refused the connection: it has another key or another run")
        return channel
    except BaseException:
        writer.close()
        raise


async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: bytes) -> tuple[str, Channel]:
    """The other end of `connect`: who it is, and the channel to them. Hangs up on whoever does not prove the key."""
    try:
        return await _accept(reader, writer, key)
    except BaseException:
        writer.close()
        raise


async def _accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: bytes) -> tuple[str, Channel]:
    greeting = await _greeting(reader)
    if greeting.get("protocol") != PROTOCOL:
        raise ChannelError(f"a peer speaks protocol {greeting.get('protocol')}, this node {PROTOCOL}")
    nonce = secrets.token_hex(16)
    writer.write(json.dumps({"protocol": PROTOCOL, "nonce": nonce}).encode() + b"\n")
    receive_key, send_key = _keys(key, str(greeting.get("nonce")), nonce)
    channel = Channel(reader, writer, send_key, receive_key)
    # The first frame proves the key; until it is here nothing is told to the peer, and little is read from it.
    if await asyncio.wait_for(channel.receive(_GREETING_LIMIT), _GREETING_SECONDS) is None:
        raise ChannelError("a peer left before it had proved the run's key")
    channel.send({"kind": "welcome"})
    return str(greeting.get("name")), channel


async def _greeting(reader: asyncio.StreamReader) -> dict[str, Any]:
    try:
        line = await asyncio.wait_for(reader.readuntil(b"\n"), _GREETING_SECONDS)
        value = json.loads(line) if len(line) <= _GREETING_LIMIT else None
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, RecursionError) as error:
        raise ChannelError("a peer did not greet as a node of Muster does") from error
    if not isinstance(value, dict) or not str(value.get("nonce")).isascii():
        raise ChannelError("a peer did not greet as a node of Muster does")
    return value


def _keys(key: bytes, client_nonce: str, server_nonce: str) -> tuple[bytes, bytes]:
    """The keys of both directions: from the client, from the server."""
    both = f"{client_nonce}:{server_nonce}".encode()
    return tuple(hmac.digest(key, side + both, "sha256") for side in (b"client:", b"server:"))  # type: ignore[return-value]


def _tag(key: bytes, number: int, body: bytes) -> bytes:
    return hmac.new(key, number.to_bytes(8, "big") + body, hashlib.sha256).digest()[:_TAG]
