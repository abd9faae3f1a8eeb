"""A node's log on its way out: into the run's folder in segments, and to whoever watches at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ..errors import StoreError
from ..workdir.loglines import LogLine
from ..workdir.segments import SegmentWriter
from .asking import ask
from .waiting import delays, happened, persist

_FRAME_LINES = 1000
_SLOWEST = 10.0
"""Seconds between two attempts while the work dir cannot be written."""


class LogOut:
    """Lines go to the store when a segment is due and, while somebody watches, to `live` in batches.

    The steps of the node's own life wait `patience` seconds for other lines to go with.
    """

    def __init__(self, writer: SegmentWriter, live: Callable[[dict[str, Any]], None], patience: float = 0.0) -> None:
        self._writer, self._live, self._patience = writer, live, patience
        self._watched = False
        self._batch: list[str] = []
        self._wake, self._full = asyncio.Event(), asyncio.Event()
        self._later: asyncio.TimerHandle | None = None

    def add(self, line: LogLine) -> None:
        encoded = line.encode()
        self._writer.add(encoded)
        if line.stream != "step" or not self._patience:
            self._wake.set()
        elif self._later is None:
            self._later = asyncio.get_running_loop().call_later(self._patience, self._wake.set)
        if self._writer.full:
            self._full.set()
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
            await happened(self._full, self._writer.wait())
            self._forget()
            try:
                await ask(self._writer.flush)
                pauses = delays(slowest=_SLOWEST, first=0.5)
            except StoreError:
                # The lines are kept; the next attempt takes them along.
                await asyncio.sleep(next(pauses))
                self._wake.set()

    def _forget(self) -> None:
        """All that has come so far goes with the next segments."""
        self._wake.clear()
        self._full.clear()
        if self._later:
            self._later.cancel()
            self._later = None

    async def finish(self, progress: Callable[[], int] = lambda: 0) -> None:
        """The last segments. `progress` grows with each that arrives."""
        self._send()
        await persist(self._writer.flush, progress=progress)
