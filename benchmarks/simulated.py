"""A cluster of simulated nodes in one process: the real node program, the real control channel, no machine.

`python -m benchmarks.simulated NODES` starts main and its workers, each with a counter of its own around one work dir,
waits until the cluster is ready, and prints how often each had asked the work dir by then. The nodes start no
processes, because a job without a script has none; everything else of them is what runs on a real machine. The last
worker comes late: main looks into the work dir meanwhile, and that must not cost it a request per node each time.

`python -m benchmarks.simulated NODES LATENCY` has them meet through one bucket that takes so many seconds for each
request. The workers begin when main is up, all at once, and what is timed begins there.

It is a program of its own, so that whatever it holds open ends with it.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import selectors
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil  # noqa: F401 - each node needs it, and on a machine of its own has it before the others meet

from muster.node import mainside, workerside  # noqa: F401 - likewise
from muster.node.asking import ask
from muster.node.program import Node
from muster.node.settings import Settings
from muster.node.start import claimed
from muster.spec.job import Job, Workers
from muster.workdir.document import JobDocument
from muster.workdir.folder import FolderStore
from muster.workdir.home import remove_node_folder
from muster.workdir.memory import MemoryStore
from muster.workdir.run import RunFolder

from .bucketlike import BUCKET, BucketLike

LATE = 3.0
"""Seconds by which the last worker comes later than the others, while main looks around."""
_RUN = "simulated"


class _PatientSelector(selectors.DefaultSelector):
    def __init__(self, slowness: float) -> None:
        super().__init__()
        self._slowness = slowness

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(None if timeout is None else timeout * self._slowness)


class SlowLoop(asyncio.SelectorEventLoop):
    """A loop on whose clock one second takes `slowness` real ones; fewer than one make it a quick loop.

    A thousand nodes that share a processor are slower than on machines of their own. What they do every so often must
    not be counted more often for that.
    """

    def __init__(self, slowness: float) -> None:
        super().__init__(_PatientSelector(slowness))
        self._slowness = slowness

    def time(self) -> float:
        return super().time() / self._slowness


@dataclass
class Simulation:
    """Nodes around one store, each with a counter of its own. To be used in a running loop."""

    nodes: int
    folder: Path
    latency: float | None = None
    """None for a folder, which answers at once and costs nothing; else a bucket's."""
    apart: frozenset[str] = frozenset()
    """Nodes without a control channel."""
    main_grace: float = 60.0
    stores: dict[str, BucketLike] = field(default_factory=dict)
    living: dict[str, Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._work = FolderStore(self.folder / "work") if self.latency is None else MemoryStore.named("simulated")
        self.lives: dict[str, asyncio.Task[int]] = {}
        self._watch, self._held = os.pipe()
        self.names = ["main", *(f"worker-{number}" for number in range(1, self.nodes))]
        job = Job(name=_RUN, framework="pytorch", code=None, workers=Workers(self.nodes - 1, self.nodes - 1))
        self.run = RunFolder(self._work, _RUN)
        self.run.make_key()
        self.run.write_job(JobDocument(run=_RUN, job=job, by="launcher", created_at=time.time()))
        for name in self.names:
            able = self._work.capabilities if self.latency is None else BUCKET
            self.stores[name] = BucketLike(self._work, self.latency or 0.0, able)

    def start(self, name: str, after: float = 0.0) -> None:
        self.lives[name] = asyncio.ensure_future(self._live(name, after))

    async def until_published(self) -> None:
        """Waits for main to be up."""
        while self.run.main_of(1) is None:
            await self._soon()

    async def until_ready(self) -> None:
        while not (main := self.living.get("main")) or not hasattr(main.side, "cluster") or not main.side.ready:
            await self._soon()

    def requests(self) -> dict[str, dict[str, int]]:
        return {name: dict(sorted(store.counts.items())) for name, store in self.stores.items()}

    def clear(self) -> None:
        # The nodes are not ended but left: this process ends right after. They would take their folders away.
        for name in self.names:
            remove_node_folder(self._settings(name).folder)

    async def _live(self, name: str, after: float) -> int:
        await asyncio.sleep(after)
        node = await ask(claimed, self._settings(name), RunFolder(self.stores[name], _RUN))
        self.living[name] = node
        return await node.live(self._watch)

    async def _soon(self) -> None:
        await asyncio.sleep(0.01)
        for ended in (life for life in self.lives.values() if life.done()):
            raise RuntimeError(f"a node ended before the cluster was ready: {ended}")

    def _settings(self, name: str) -> Settings:
        return Settings(
            work_dir=str(self.folder / "work"),
            run=_RUN,
            role=name.partition("-")[0],
            node=name,
            job=None,
            folder=self.folder / "nodes" / name,
            code_dir=str(self.folder),
            free_ports=True,
            address="127.0.0.1",
            channel=name not in self.apart,
            main_grace=self.main_grace,
        )


def simulate(nodes: int, folder: Path) -> dict[str, Any]:
    """The requests of each node until a cluster of so many, main among them, was ready."""
    _raise_open_files()
    loop = SlowLoop(max(1.0, nodes / 100))
    loop.set_default_executor(ThreadPoolExecutor(16))
    return loop.run_until_complete(_counted(nodes, folder))


async def _counted(nodes: int, folder: Path) -> dict[str, Any]:
    simulation, began, clock = Simulation(nodes, folder), time.perf_counter(), asyncio.get_running_loop().time()
    for name in simulation.names:
        simulation.start(name, after=LATE if name == simulation.names[-1] != "main" else 0.0)
    await simulation.until_ready()
    counted = {
        "nodes": nodes,
        "seconds": time.perf_counter() - began,
        "clock": asyncio.get_running_loop().time() - clock,
        "requests": simulation.requests(),
    }
    simulation.clear()
    return counted


def meet(nodes: int, folder: Path, latency: float) -> dict[str, Any]:
    """How long the workers need, once main is up, until the cluster is ready; and the requests of all by then.

    In seconds of a clock that is so slow that each of them has a processor for long enough.
    """
    _raise_open_files()
    slowness = max(1.0, nodes / 5)
    loop = SlowLoop(slowness)
    loop.set_default_executor(ThreadPoolExecutor(16))
    return {**loop.run_until_complete(_met(nodes, folder, latency * slowness)), "slowness": slowness}


async def _met(nodes: int, folder: Path, latency: float) -> dict[str, Any]:
    simulation, clock = Simulation(nodes, folder, latency), asyncio.get_running_loop().time
    simulation.start("main")
    await simulation.until_published()
    began = clock()
    for name in simulation.names[1:]:
        simulation.start(name)
    await simulation.until_ready()
    counted = {"nodes": nodes, "seconds": clock() - began, "requests": simulation.requests()}
    simulation.clear()
    return counted


def _raise_open_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def totals(requests: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """All requests of each node."""
    return {name: sum(counts.values()) for name, counts in requests.items()}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as place:
        number, *latencies = sys.argv[1:]
        result = (
            meet(int(number), Path(place), float(latencies[0])) if latencies else simulate(int(number), Path(place))
        )
        print(json.dumps(result), flush=True)
    os._exit(0)
