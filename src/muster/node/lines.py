"""A node's log on its way out: into the run's folder in segments, and to whoever watches at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ..errors import StoreError
from ..workdir.loglines import LogLine
from ..workdir.segments import SegmentWriter
from .waiting import delays

_FRAME_LINES = 1000
_SLOWEST = 10.0
"""Seconds between two attempts while the work dir cannot be written."""


class LogOut:
    """Lines go to the store when a segment is due and, while somebody watches, to `live` in batches."""

    def __init__(self, writer: SegmentWriter, live: Callable[[dict[str, Any]], None]) -> None:
        self._writer, self._live = writer, live
        self._watched = False
        self._batch: list[str] = []
        self._wake = asyncio.Event()

    def add(self, line: LogLine) -> None:
        encoded = line.encode()
        self._writer.add(encoded)
        self._wake.set()
        if self._watched:
            if not self._batch:
                asyncio.get_running_loop().call_soon(self._send)
            self._batch.append(encoded.decode("utf-8", "surrogateescape"))

    def watch(self, on: bool) -> None:
        """A new watcher reads the store for what is there; what is not there yet is sent to it first."""
        if on:
            self._send()
            for line in self._writer.pending():
                self._batch.append(line.decode("utf-8", "surrogateescape"))
                if len(self._batch) >= _FRAME_LINES:
                    self._send()
            self._send()
        self._watched = on

    def _send(self) -> None:
        if self._batch:
            batch, self._batch = self._batch, []
            self._live({"kind": "log", "lines": batch})

    async def ship(self) -> None:
        """Writes segments as they fall due, until cancelled."""
        pauses = delays(slowest=_SLOWEST, first=0.5)
        while True:
            await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(self._writer.wait())
            try:
                await asyncio.to_thread(self._writer.flush)
                pauses = delays(slowest=_SLOWEST, first=0.5)
            except StoreError:
                # The lines are kept; the next attempt takes them along.
                self._wake.set()
                await asyncio.sleep(next(pauses))

    async def finish(self) -> None:
        self._send()
        await asyncio.to_thread(self._writer.flush)
