"""What a node brings home while it runs and at its end: outputs, checkpoints, metrics and reports."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import StoreError
from ..workdir.segments import SegmentWriter
from ..workdir.sync import CheckpointShipper, Shipper
from .metrics import Reports, Usage, numbers
from .surroundings import sync_folder

if TYPE_CHECKING:
    from .program import Node

_LOOK = 2.0
"""Seconds between two looks at usage and reports."""
_SHIP = 5.0
"""Seconds between two looks at outputs and checkpoints."""

_TOLD = 10
"""How many paths are named that could not be brought home."""


class Homebound:
    """Looks at what the node's processes make, and ships what is new."""

    def __init__(self, node: Node) -> None:
        assert node.ground is not None  # noqa: S101 - made right after the ground is
        self._node = node
        run, name, code = node.run, node.record.node, node.ground.code
        self._began = time.monotonic()
        self._usage: Usage | None = None
        self._reports = Reports(node.settings.folder / "reports.jsonl")
        self._metrics = SegmentWriter(run.store, f"{run.run}/metrics/{name}")
        self._shippers: list[Shipper | CheckpointShipper] = []
        if outputs := sync_folder(node.job, code):
            self._shippers.append(Shipper(run.store, f"{run.run}/outputs/{name}", outputs))
        self._checkpoints = None
        if node.job.checkpoints:
            prefix = f"{run.run}/checkpoints/{name}"
            self._checkpoints = CheckpointShipper(run.store, prefix, code / node.job.checkpoints)
            self._shippers.append(self._checkpoints)
        # The last look must not begin while one in another thread is under way.
        self._shipping = asyncio.Lock()
        self._over = False

    async def ship(self) -> None:
        """Looks and ships until cancelled. Nothing that goes wrong here may end the training."""
        shipped_at = time.monotonic()
        while True:
            await asyncio.sleep(_LOOK)
            try:
                await self._look()
                if time.monotonic() - shipped_at >= _SHIP:
                    shipped_at = time.monotonic()
                    async with self._shipping:
                        if self._over:
                            return  # the folder may be gone by now, and what is gone would be taken away at home too
                        await asyncio.to_thread(self._ship)
            except (StoreError, OSError) as error:
                self._node.say(f"outputs and metrics are late: {error}")

    async def finish(self) -> None:
        """The last look; afterwards all that the script left is home."""
        self._read_reports()
        async with self._shipping:
            self._over = True
            for path in await asyncio.to_thread(self._finish):
                self._node.say(f"not brought home: {path}")

    async def _look(self) -> None:
        self._usage = self._usage or Usage(self._began)
        sample = await asyncio.to_thread(self._usage.look)
        self._metrics.add(json.dumps({"time": time.time(), **sample}).encode())
        self._node.record = replace(self._node.record, metrics=sample)
        self._read_reports()
        record = self._node.record
        told = {"node": record.node, "usage": record.metrics, "reported": record.reported}
        self._node.side.show({"kind": "metrics", **told})

    def _read_reports(self) -> None:
        for record in self._reports.new():
            if path := record.get("checkpoint"):
                if self._checkpoints:
                    self._checkpoints.complete(Path(str(path)))
                continue
            self._metrics.add(json.dumps(record).encode())
            reported = {**self._node.record.reported, str(record.get("process")): numbers(record.get("values"))}
            self._node.record = replace(self._node.record, reported=reported)

    def _ship(self) -> None:
        self._metrics.flush()
        for shipper in self._shippers:
            shipper.ship()

    def _finish(self) -> list[str]:
        """Ships what is left; says what cannot be."""
        self._metrics.flush()
        left_out = [str(path) for shipper in self._shippers for path in shipper.finish().left_out]
        more = len(left_out) - _TOLD
        return [*left_out[:_TOLD], f"and {more} more"] if more > 0 else left_out
