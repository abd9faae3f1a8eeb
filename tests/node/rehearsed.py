"""Nodes in one process around one store that counts and may be away: `python -m tests.node.rehearsed CASE FOLDER`.

Programs of their own, because a node takes over its process: its signals, and the children that end in it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.bucketlike import BucketLike
from benchmarks.simulated import Simulation, SlowLoop

from muster.errors import StoreBusy
from muster.node.life import Phase
from muster.node.mainside import MainSide
from muster.node.program import Node
from muster.node.settings import Settings
from muster.node.start import claimed
from muster.node.watching import Tail, watch
from muster.spec.job import Job, Workers
from muster.workdir.backlog import MEMORY_BYTES
from muster.workdir.document import JobDocument
from muster.workdir.loglines import LogLine, read_logs
from muster.workdir.memory import MemoryStore
from muster.workdir.records import End, MainConfig, Result
from muster.workdir.run import RunFolder
from muster.workdir.segments import SegmentWriter, read_segments

SETTLING, MINUTES = 8, 10
"""Minutes until an idle cluster has settled, and minutes in which its requests are counted then."""
LINES = 450_000
LINE = "x" * 60

SCRIPT = f"""
import pathlib, time, muster
print("begun", flush=True)
while not pathlib.Path("away").exists():
    time.sleep(0.02)
for number in range({LINES}):
    print(number, {LINE!r})
muster.report(loss=0.5)
pathlib.Path("outputs/made").write_text("made while the store was away")
pathlib.Path("trained").touch()
"""


# --- counting ------------------------------------------------------------------------------------------------


async def idle(folder: Path) -> dict[str, Any]:
    """Main, three workers with a channel and one without: their requests while nothing happens, and at a stop."""
    cluster = Simulation(5, folder, latency=0.0, apart=frozenset({"worker-4"}))
    for name in cluster.names:
        cluster.start(name)
    await cluster.until_ready()
    until_ready = cluster.requests()
    await asyncio.sleep(60 * SETTLING)
    for store in cluster.stores.values():
        store.reset()
    await asyncio.sleep(60 * MINUTES)
    counted = cluster.requests()
    for store in cluster.stores.values():
        store.reset()
    cluster.run.request_stop("enough", "somebody")
    while cluster.living["main"].life.verdict is None:
        await asyncio.sleep(0.5)
    stopping = cluster.requests()
    while any(node.life.phase is not Phase.ENDED for node in cluster.living.values()):
        await asyncio.sleep(0.5)
    ends = {node.record.node: node.life.verdict.end.value for node in cluster.living.values() if node.life.verdict}
    return {"ready": until_ready, "idle": counted, "looks": stopping["main"].get("list", 0), "ends": ends}


async def late_main(folder: Path) -> dict[str, Any]:
    """A worker that waits for main: its requests of the first minute, of the tenth, and from main's coming on."""
    cluster, counted = Simulation(2, folder, latency=0.0), []
    cluster.start("worker-1")
    for minutes in (1, 8, 1):
        cluster.stores["worker-1"].reset()
        await asyncio.sleep(60 * minutes)
        counted.append(cluster.requests()["worker-1"])
    cluster.start("main")
    await cluster.until_published()
    cluster.stores["worker-1"].reset()
    await cluster.until_ready()
    return {"first": counted[0], "tenth": counted[2], "met": cluster.requests()["worker-1"]}


async def orphans(folder: Path) -> dict[str, Any]:
    """Two nodes whose main is gone, one of which had no channel to it, see a stop file by themselves."""
    cluster = Simulation(3, folder, latency=0.0, apart=frozenset({"worker-2"}), main_grace=1e6)
    for name in cluster.names:
        cluster.start(name)
    await cluster.until_ready()
    await _kill(cluster, "main")
    cluster.run.request_stop("enough", "somebody")
    workers = [cluster.living[name] for name in ("worker-1", "worker-2")]
    while any(node.life.phase is not Phase.ENDED for node in workers):
        await asyncio.sleep(0.5)
    return {node.record.node: node.life.verdict.end.value for node in workers if node.life.verdict}


async def _kill(cluster: Simulation, name: str) -> None:
    """Nothing of the node goes on, and its connections break."""
    node = cluster.living[name]
    for task in [cluster.lives[name], *node._tasks]:
        task.cancel()
    assert isinstance(node.side, MainSide)
    await node.side._hub.close()


async def follower(_folder: Path) -> dict[str, Any]:
    """One who reaches nothing of a run but its work dir: its requests while nothing comes, and what it saw."""
    kept, shown = RunFolder(MemoryStore.named("followed"), "run"), list[LogLine]()
    kept.publish_main(MainConfig("main", "127.0.0.1", 1, 1))
    kept.make_key()
    writer, store = SegmentWriter(kept.store, kept.at("logs", "worker-1")), BucketLike(kept.store)
    run = RunFolder(store, "run")
    following = asyncio.ensure_future(watch(run, Tail(run, shown.extend), lambda _state: None))
    for number in range(1, 4):
        writer.add(LogLine(number, 0.0, "worker-1", "script", "out", "text").encode())
        writer.flush()
        await _until(lambda number=number: len(shown) == number)  # type: ignore[misc]
    await asyncio.sleep(60 * SETTLING)
    store.reset()
    await asyncio.sleep(60 * MINUTES)
    counted = store.counts
    kept.write_result(Result("run", "succeeded", End.SCRIPT_ENDED, 0))
    await following
    return {"requests": counted, "shown": [line.n for line in shown]}


# --- a store that is away ------------------------------------------------------------------------------------


class Away:
    """A store that fails, or that does not answer at all, while it is away."""

    def __init__(self, hangs: bool) -> None:
        self._hangs, self._back = hangs, threading.Event()
        self._back.set()
        self.refused = 0

    def __call__(self, _kind: str) -> None:
        if self._back.is_set():
            return
        self.refused += 1
        if not self._hangs:
            raise StoreBusy("the store is away")
        self._back.wait()

    def leave(self) -> None:
        self._back.clear()

    def come_back(self) -> None:
        self._back.set()


async def outage(folder: Path, hangs: bool) -> dict[str, Any]:
    """The store goes away while a script runs, and comes back only after it has ended."""
    away, store, node = Away(hangs), BucketLike(MemoryStore.named("away")), _lone_node(folder)
    store.trouble = away
    living = asyncio.ensure_future(node(store).live(os.pipe()[0]))
    run, code = RunFolder(MemoryStore.named("away"), "run"), folder / "code"
    await _until(lambda: "begun" in [line.text for line in read_logs(run)])
    away.leave()
    (code / "away").touch()
    await _until((code / "trained").exists)
    spilled = folder / "node" / "log.waiting"
    waiting, held = spilled.exists(), alive[0].logs._writer._lines._in_memory
    # Whatever else needs a thread of the loop gets one, and the loop itself goes on.
    threads = await asyncio.gather(*(asyncio.to_thread(threading.get_ident) for _ in range(8)))
    await _until(lambda: alive[0].life.phase is Phase.ENDING and alive[0].life.shipping)
    refused = away.refused
    await _until(lambda: hangs or away.refused > refused + 3)
    away.come_back()
    code_of_exit = await living
    texts = [line.text for line in read_logs(run) if line.stream == "out"]
    result, record = run.result(), run.node("main")
    reports = [json.loads(line) for line in read_segments(run.store, run.at("metrics", "main"))]
    return {
        "exit": code_of_exit,
        "result": result and result.end.value,
        "record": record and record.state,
        "lines": len(texts),
        "whole": texts == ["begun", *(f"{number} {LINE}" for number in range(LINES))],
        "spilled": waiting,
        "bounded": held <= MEMORY_BYTES,
        "threads": len(threads),
        "refused": away.refused > 0,
        "outputs": run.store.get(run.at("outputs", "main", "made")).decode(),
        "reported": [report["values"] for report in reports if "values" in report],
    }


alive: list[Node] = []


def _lone_node(folder: Path) -> Callable[[BucketLike], Node]:
    code = folder / "code"
    (code / "outputs").mkdir(parents=True)
    (code / "script.py").write_text(SCRIPT)
    job = Job(name="away", framework="plain", code=None, entry="script.py", workers=Workers(0, 0))
    launcher = RunFolder(MemoryStore.named("away"), "run")
    launcher.make_key()
    launcher.write_job(JobDocument(run="run", job=job, by="launcher", created_at=0.0))
    settings = Settings(
        work_dir="memory://away",
        run="run",
        role="main",
        node="main",
        job=None,
        folder=folder / "node",
        code_dir=str(code),
        free_ports=True,
        address="127.0.0.1",
        mark=f"run/main/{os.getpid()}",
    )

    def make(store: BucketLike) -> Node:
        alive.append(claimed(settings, RunFolder(store, "run")))
        return alive[0]

    return make


async def _until(look: Callable[[], bool]) -> None:
    while not look():
        await asyncio.sleep(0.05)


CASES: dict[str, tuple[float, Callable[[Path], Any]]] = {
    "idle": (1 / 30, idle),
    "late_main": (1 / 60, late_main),
    "orphans": (1 / 30, orphans),
    "follower": (1 / 60, follower),
    "fails": (1.0, lambda folder: outage(folder, hangs=False)),
    "hangs": (1.0, lambda folder: outage(folder, hangs=True)),
}
"""How slow the clock of each is, and what it does."""


if __name__ == "__main__":
    slowness, case = CASES[sys.argv[1]]
    print(json.dumps(SlowLoop(slowness).run_until_complete(case(Path(sys.argv[2])))), flush=True)
    os._exit(0)
