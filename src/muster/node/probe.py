"""Asking a framework's own service whether it is ready."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import urlsplit

from ..frameworks.base import HttpCount, PortsAnswer, Probe

_ANSWER = 2.0


async def passes(probe: Probe) -> bool:
    """Whether the framework's own service is there, for each of its nodes where it has one."""
    if isinstance(probe, PortsAnswer):
        return all(await asyncio.gather(*(_listens(*place) for place in probe.places.values())))
    return await _counts(probe)


async def _listens(address: str, port: int) -> bool:
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(address, port), _ANSWER)
    except (OSError, asyncio.TimeoutError):
        return False
    writer.close()
    return True


async def _counts(probe: HttpCount) -> bool:
    """One plain request to a service on a node of ours; whatever is not a good answer is a no."""
    parts = urlsplit(probe.url)
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_connection(parts.hostname, parts.port), _ANSWER)
    except (OSError, asyncio.TimeoutError):
        return False
    try:
        writer.write(f"GET {parts.path} HTTP/1.0\r\nHost: {parts.netloc}\r\n\r\n".encode())
        answer = await asyncio.wait_for(reader.read(1 << 20), _ANSWER)
    except (OSError, asyncio.TimeoutError):
        return False
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n", 1)[0]:
        return False
    try:
        value = json.loads(body)
    except ValueError:
        return False
    return int(value.get(probe.field, 0)) >= probe.least
