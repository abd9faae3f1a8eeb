"""A cluster of simulated nodes in one process: the real node program, the real control channel, no machine.

`python -m benchmarks.simulated NODES` starts main and its workers, each with a counter of its own around one work dir,
waits until the cluster is ready, and prints how often each had asked the work dir by then. The nodes start no
processes, because a job without a script has none; everything else of them is what runs on a real machine. The last
worker comes late: main looks into the work dir meanwhile, and that must not cost it a request per node each time.

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
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from muster.node.settings import Settings
from muster.node.start import claimed
from muster.spec.job import Job, Workers
from muster.workdir.counting import CountingStore
from muster.workdir.document import JobDocument
from muster.workdir.folder import FolderStore
from muster.workdir.home import remove_node_folder
from muster.workdir.run import RunFolder
from muster.workdir.store import Entry

PAGE = 1000
"""Keys that a bucket lists per request."""
LATE = 3.0
"""Seconds by which the last worker comes later than the others, while main looks around."""
_RUN = "simulated"


class PagedStore(CountingStore):
    """Counts a listing as a bucket bills it: once per page of a thousand keys."""

    def list(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        found = list(super().list(prefix, after))
        for _ in range(PAGE, len(found), PAGE):
            self._count("list")
        return iter(found)


class _PatientSelector(selectors.DefaultSelector):
    def __init__(self, slowness: float) -> None:
        super().__init__()
        self._slowness = slowness

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(None if timeout is None else timeout * self._slowness)


class SlowLoop(asyncio.SelectorEventLoop):
    """A loop on whose clock one second takes `slowness` real ones.

    A thousand nodes that share a processor are slower than on machines of their own. What they do every so often must
    not be counted more often for that.
    """

    def __init__(self, slowness: float) -> None:
        super().__init__(_PatientSelector(slowness))
        self._slowness = slowness

    def time(self) -> float:
        return super().time() / self._slowness


def simulate(nodes: int, folder: Path) -> dict[str, Any]:
    """The requests of each node until a cluster of so many, main among them, was ready."""
    _raise_open_files()
    loop = SlowLoop(max(1.0, nodes / 100))
    loop.set_default_executor(ThreadPoolExecutor(16))
    # The nodes are not ended but left: this process ends right after. Their folders they would take away themselves.
    counted = loop.run_until_complete(_ready(nodes, folder))
    for name in counted["requests"]:
        remove_node_folder(_settings(name, folder).folder)
    return counted


async def _ready(nodes: int, folder: Path) -> dict[str, Any]:
    job = Job(name=_RUN, framework="pytorch", code=None, workers=Workers(nodes - 1, nodes - 1))
    launcher = RunFolder(FolderStore(folder / "work"), _RUN)
    launcher.make_key()
    launcher.write_job(JobDocument(run=_RUN, job=job, by="launcher", created_at=time.time()))
    watch, _held = os.pipe()
    names = ["main", *(f"worker-{number}" for number in range(1, nodes))]
    stores = {name: PagedStore(FolderStore(folder / "work")) for name in names}
    began, clock = time.perf_counter(), asyncio.get_running_loop().time()

    async def live(name: str) -> None:
        if name != "main" and name == names[-1]:
            await asyncio.sleep(LATE)
        settings = _settings(name, folder)
        node = await asyncio.to_thread(claimed, settings, RunFolder(stores[name], _RUN))
        if name == "main":
            ready.set_result(node)
        await node.live(watch)

    ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    lives = [asyncio.ensure_future(live(name)) for name in names]
    main = await ready
    while not (hasattr(main.side, "cluster") and main.side.ready):
        await asyncio.sleep(0.01)
        for ended in (life for life in lives if life.done()):
            raise RuntimeError(f"a node ended before the cluster was ready: {ended}")
    return {
        "nodes": nodes,
        "seconds": time.perf_counter() - began,
        "clock": asyncio.get_running_loop().time() - clock,
        "requests": {name: dict(sorted(store.counts.items())) for name, store in stores.items()},
    }


def _settings(name: str, folder: Path) -> Settings:
    return Settings(
        work_dir=str(folder / "work"),
        run=_RUN,
        role=name.partition("-")[0],
        node=name,
        job=None,
        folder=folder / "nodes" / name,
        code_dir=str(folder),
        free_ports=True,
        address="127.0.0.1",
    )


def _raise_open_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def totals(requests: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """All requests of each node."""
    return {name: sum(counts.values()) for name, counts in requests.items()}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as place:
        print(json.dumps(simulate(int(sys.argv[1]), Path(place))), flush=True)
    os._exit(0)
