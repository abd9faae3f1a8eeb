"""What a node brings home while it runs and at its end: outputs, checkpoints, metrics and reports."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import StoreBusy, StoreError
from ..workdir.arriving import ArrivingStore
from ..workdir.checkpoint_shipper import WAITS
from ..workdir.segments import SegmentWriter
from ..workdir.store import Store
from ..workdir.sync import CheckpointShipper, Settling, Shipper, Units
from ..workdir.walking import Stamp
from .asking import ask
from .metrics import MetricsOut, Reports, Usage, numbers
from .outage import Outage
from .pace import Pace
from .renames import watch
from .rounds import Rounds, Troubles
from .surroundings import sync_folder
from .waiting import HOME, persist

if TYPE_CHECKING:
    from .program import Node

_HEAR = 0.25
"""Seconds between two looks at what scripts say."""
_LOOK = 2.0
"""Seconds between two looks at usage."""
_SHIP = 5.0
"""Seconds between two looks at outputs and checkpoints; one that is complete does not wait for it."""
_REST = 0.002
"""Seconds in which what happens in the checkpoint folder may gather: one who writes much is heard of much."""

_TOLD = 10
"""How many paths are named that could not be brought home."""


class Checkpoints:
    """The checkpoint folder of a node: listened to from now on, by a thread of its own."""

    def __init__(self, node: Node, store: Store) -> None:
        assert node.ground is not None and node.job.checkpoints  # noqa: S101, PT018 - made where both are
        self._node, settings, run = node, node.settings, node.run
        folder = node.ground.code / node.job.checkpoints
        self._watch = watch(folder)
        self.units = Units(folder, settings.folder / "checkpoints.jsonl", self._watch.take, own=bool(settings.code))
        self.shipper = CheckpointShipper(store, run.at("checkpoints", node.record.node), self.units)
        self.fresh = asyncio.Event()
        """Something became complete."""
        self.told: list[str] = []
        """What the user should know and has not been told."""
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._listen, args=(loop,), daemon=True).start()

    def name(self, record: Mapping[str, Any]) -> bool:
        """Takes the word of `muster.checkpoint`; false if it was of another place."""
        try:
            stamps = {str(path): Stamp(*stamp) for path, *stamp in record["files"]}
            at = float(record["time"])
        except (KeyError, TypeError, ValueError):
            stamps, at = None, time.time()  # written there by other means
        try:
            named = self.units.name(str(record["checkpoint"]), stamps, at)
        except ValueError:
            return False  # no path at all
        if named:
            self._has_fresh()
        return named

    def settle(self, generation: int) -> None:
        node = self._node
        unfinished = node.settings.folder / "unfinished"
        settling = Settling(node.run, node.record.node, self.units, self.shipper, unfinished)
        try:
            settling.settle(generation)
        finally:
            self.told += settling.told

    def close(self) -> None:
        self._watch.close()

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._watch.wait(3600) is not None:
            fresh = False
            with suppress(OSError):  # what is not noticed now is when it is shipped
                fresh = self.units.notice()
            if fresh:
                with suppress(RuntimeError):  # the program is over
                    loop.call_soon_threadsafe(self._has_fresh)
            time.sleep(_REST)

    def _has_fresh(self) -> None:
        for wait in (0.0, *WAITS):  # at once too, because then it begins to wait
            asyncio.get_running_loop().call_later(1.1 * wait, self.fresh.set)


class Homebound:
    """Looks at what the node's processes make, and ships what is new."""

    def __init__(self, node: Node) -> None:
        """Must be made before any process starts: from then on it hears what becomes of the checkpoint folder."""
        assert node.ground is not None  # noqa: S101 - made right after the ground is
        self._node = node
        run, name, code = node.run, node.record.node, node.ground.code
        self._began = time.monotonic()
        self._usage: Usage | None = None
        self._reports = Reports(node.settings.folder / "reports.jsonl")
        first = 1 if node.record.incarnation == 1 else None
        spill = node.settings.folder / "metrics.waiting"
        stream = SegmentWriter(run.store, run.at("metrics", name), first=first, spill=spill)
        self._metrics = MetricsOut(stream, Pace(run.store.capabilities), _now())
        self.arriving = ArrivingStore(run.store)
        """Whether outputs and checkpoints get on. Not metrics, of which there are always new ones."""
        outputs = sync_folder(node.job, code)
        self._outputs = Shipper(self.arriving, f"{run.run}/outputs/{name}", outputs) if outputs else None
        self._checkpoints = Checkpoints(node, self.arriving) if node.job.checkpoints else None
        self._elsewhere: set[str] = set()
        self._left_out: dict[str, tuple[str, ...]] = {}
        self._ends: dict[str, Exception | None] = {}
        fresh = self._checkpoints.fresh if self._checkpoints else None
        self._checkpoint_rounds = Rounds(self._ship_checkpoints, fresh)
        self._rounds = (self._checkpoint_rounds, Rounds(self._ship_metrics), Rounds(self._ship_outputs))
        self._troubles = Troubles(Outage(node.say, "outputs, checkpoints and metrics are late"))

    async def ship(self) -> None:
        """Looks and ships until cancelled. Nothing that goes wrong here may end the training."""
        rounds = (one.go_on(_SHIP, self._troubles) for one in self._rounds)
        await asyncio.gather(self._look_on(), *rounds)

    async def settle(self, generation: int) -> None:
        """Makes the checkpoint folder ready for processes of a generation, before they start.

        None of this node may still write there. `StoreError` if there is a checkpoint that cannot be had now.
        """
        if not self._checkpoints:
            return
        self._read_reports()
        async with self._checkpoint_rounds.pausing():
            try:
                await ask(self._checkpoints.settle, generation)
            finally:
                self._say_of_checkpoints()

    async def ship_complete(self) -> None:
        """Brings home what is complete, once our processes are gone and before the others are told so.

        Then all nodes choose from the same checkpoints when they settle.
        """
        if not self._checkpoints:
            return
        self._read_reports()
        async with self._checkpoint_rounds.pausing():
            await ask(self._checkpoints.shipper.ship_complete, True)

    async def finish(self) -> None:
        """The last look; afterwards all that the script left is home, or an error says why something is not."""
        self._read_reports()
        try:
            async with AsyncExitStack() as last:
                # Of outputs the last round may take long; checkpoints need not wait for it.
                for rounds in reversed(self._rounds):
                    await last.enter_async_context(rounds.ending())
                await persist(self._finish, self._late, lambda: self.arriving.arrived, HOME)
        finally:
            self._say_left_out()
            self._say_of_checkpoints()
            if self._checkpoints:
                self._checkpoints.close()

    def _late(self, error: StoreError) -> None:
        self._troubles.began(self, error)

    async def _look_on(self) -> None:
        looked_at = _now()
        while True:
            await asyncio.sleep(_HEAR)
            try:
                self._read_reports()
                if _now() - looked_at >= _LOOK:
                    looked_at = _now()
                    await self._look()
            except OSError as error:
                self._node.say(f"metrics are late: {error}")

    async def _ship_checkpoints(self, due: bool) -> None:
        if self._checkpoints:
            shipper = self._checkpoints.shipper
            await ask(shipper.ship if due else shipper.ship_complete)
            self._say_of_checkpoints()

    async def _ship_metrics(self, _due: bool) -> None:
        if self._metrics.due(_now()):
            await ask(self._metrics.flush, _now())

    async def _ship_outputs(self, _due: bool) -> None:
        if self._outputs:
            await ask(self._outputs.ship)

    async def _look(self) -> None:
        self._usage = self._usage or Usage(self._began)
        sample = await asyncio.to_thread(self._usage.look)
        self._metrics.add_usage({"time": time.time(), **sample})
        self._node.record = replace(self._node.record, metrics=sample)
        record = self._node.record
        told = {"node": record.node, "usage": record.metrics, "reported": record.reported}
        self._node.side.show({"kind": "metrics", **told})

    def _read_reports(self) -> None:
        for record in self._reports.new():
            if "checkpoint" in record:
                if self._checkpoints and not self._checkpoints.name(record):
                    self._say_elsewhere(str(record["checkpoint"]))
                continue
            self._metrics.add_report(record, _now())
            reported = {**self._node.record.reported, str(record.get("process")): numbers(record.get("values"))}
            self._node.record = replace(self._node.record, reported=reported)

    def _say_elsewhere(self, path: str) -> None:
        if path not in self._elsewhere and len(self._elsewhere) < _TOLD:
            self._elsewhere.add(path)
            self._node.say(
                f"muster.checkpoint({path!r}): there is nothing to keep. It must be a file or a folder in"
                f" {self._node.job.checkpoints!r}, and its name neither begin with a dot nor end in .tmp or .partial."
            )

    def _say_of_checkpoints(self) -> None:
        if not self._checkpoints:
            return
        told, self._checkpoints.told = self._checkpoints.told, []
        for text in told:
            self._node.say(text)
        for path in self._checkpoints.shipper.in_place():
            self._node.say(
                f"{self._node.job.checkpoints}/{path} was written in place: it is brought home, but after a failure"
                " nothing goes on from it, because it may be half-written. Write it under another name and rename it,"
                " or call muster.checkpoint(path) when it is complete."
            )

    def _finish(self) -> None:
        """Ships what is left, each kind until it is home or refused. What is refused keeps nothing else back."""
        busy: list[StoreBusy] = []
        for finish in (self._finish_checkpoints, self._flush_metrics, self._finish_outputs):
            if finish.__name__ in self._ends:
                continue  # what is put there once more would look like progress
            try:
                finish()
                self._ends[finish.__name__] = None
            except StoreBusy as error:
                busy.append(error)
            except (StoreError, OSError) as error:
                self._ends[finish.__name__] = error
        for problem in filter(None, (*busy, *self._ends.values())):
            raise problem

    def _flush_metrics(self) -> None:
        self._metrics.flush(0.0)

    def _finish_checkpoints(self) -> None:
        if self._checkpoints:
            self._left_out["checkpoints"] = self._checkpoints.shipper.finish().left_out

    def _finish_outputs(self) -> None:
        if self._outputs:
            self._left_out["outputs"] = self._outputs.finish().left_out

    def _say_left_out(self) -> None:
        left_out = [path for paths in self._left_out.values() for path in paths]
        more = len(left_out) - _TOLD
        for path in [*left_out[:_TOLD], f"and {more} more"] if more > 0 else left_out:
            self._node.say(f"not brought home: {path}")


def _now() -> float:
    """On the loop's own clock, by which all waits here go."""
    return asyncio.get_running_loop().time()
