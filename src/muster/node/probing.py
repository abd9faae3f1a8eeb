"""What the two nodes of `muster doctor --probe` run: each listens on every port in question, and dials the other's.

It needs nothing but a Python, and is run by itself in that of the image. What it finds it prints, a line for each
port: `muster-probe {"port": 8786, "from": "main", "to": "worker-1", "why": ""}`, with a reason where it is not open.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import sys

MARK = "muster-probe "
TAKEN = "taken"
"""The reason of a port that something else on the node listens on."""
_DONE = b"done\n"
_ATTEMPT, _PAUSE = 3.0, 0.3


def main() -> None:
    asyncio.run(probe(_asked()))


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("node", "address", "peer", "peer_address"):
        parser.add_argument(name)
    parser.add_argument("ports", type=int, nargs="+")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--served", type=int, help="this node's program listens there itself")
    return parser.parse_args()


async def probe(asked: argparse.Namespace) -> None:
    until = asyncio.get_running_loop().time() + asked.seconds
    peer_is_done = asyncio.Event()
    servers = [await _listen(asked, port, peer_is_done) for port in asked.ports if port != asked.served]
    lines = await asyncio.gather(*(_dial(asked, port, until) for port in asked.ports))
    for line in filter(None, lines):
        line.write(_DONE)
    if any(servers):
        await _stay(peer_is_done, until)
    for server in filter(None, servers):
        server.close()


async def _stay(peer_is_done: asyncio.Event, until: float) -> None:
    """The other node may still be at it, and needs somebody who listens."""
    try:
        await asyncio.wait_for(peer_is_done.wait(), max(0.0, until - asyncio.get_running_loop().time()))
    except asyncio.TimeoutError:
        pass


async def _listen(
    asked: argparse.Namespace, port: int, peer_is_done: asyncio.Event
) -> asyncio.base_events.Server | None:
    try:
        return await asyncio.start_server(functools.partial(_hear, peer_is_done), asked.address, port)
    except OSError:
        _say(port, asked.peer, asked.node, TAKEN)
        return None


async def _hear(peer_is_done: asyncio.Event, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        if await reader.readline() == _DONE:
            peer_is_done.set()
    except (OSError, ValueError):
        pass
    finally:
        writer.close()


async def _dial(asked: argparse.Namespace, port: int, until: float) -> asyncio.StreamWriter | None:
    """Tries until it gets through or the time is up: the other node may have begun a little later."""
    clock, why = asyncio.get_running_loop().time, "not tried"
    while (left := until - clock()) > 0:
        try:
            opening = asyncio.open_connection(asked.peer_address, port)
            _, writer = await asyncio.wait_for(opening, min(left, _ATTEMPT))
        except asyncio.TimeoutError:
            why = "no answer"
        except OSError as error:
            why = "refused" if isinstance(error, ConnectionRefusedError) else error.strerror or str(error)
        else:
            _say(port, asked.node, asked.peer, "")
            return writer
        await asyncio.sleep(_PAUSE)
    _say(port, asked.node, asked.peer, why)
    return None


def _say(port: int, origin: str, to: str, why: str) -> None:
    sys.stdout.write(MARK + json.dumps({"port": port, "from": origin, "to": to, "why": why}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
