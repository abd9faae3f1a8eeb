"""Watchers get every line of every node once and in order, however late, slow or interrupted they are."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.errors import StoreBusy
from muster.node.capture import BLOCK
from muster.node.hub import Hub
from muster.node.lines import LogOut
from muster.node.link import Link
from muster.node.settings import Settings
from muster.node.start import claimed
from muster.node.watching import Tail, ask_to_stop, watch
from muster.spec.job import Job
from muster.workdir.document import JobDocument
from muster.workdir.loglines import LogLine
from muster.workdir.memory import MemoryStore
from muster.workdir.opening import open_store
from muster.workdir.records import End, MainConfig, Result
from muster.workdir.run import RunFolder
from muster.workdir.segments import SegmentWriter
from muster.workdir.store import Entry, Store
from tests.node.loop import in_loop, soon


def line(n: int, node: str = "main", time: float | None = None) -> LogLine:
    return LogLine(n, float(n) if time is None else time, node, "script", "out", f"line {n}")


def texts(*lines: LogLine) -> list[str]:
    return [one.encode().decode() for one in lines]


class Screen(list[LogLine]):
    """What a watcher was shown."""

    def show(self, lines: list[LogLine]) -> None:
        self += lines

    def of(self, node: str) -> list[int]:
        return [one.n for one in self if one.node == node]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(open_store(str(tmp_path / "runs")), "run")


def keep(run: RunFolder, *lines: LogLine) -> None:
    """Puts lines into the folder as one segment of their node."""
    writer = SegmentWriter(run.store, run.at("logs", lines[0].node))
    for one in lines:
        writer.add(one.encode())
    writer.flush()


@in_loop
async def test_a_line_that_comes_by_both_ways_is_shown_once(run: RunFolder) -> None:
    screen = Screen()
    tail = Tail(run, screen.show)
    tail.live(texts(line(1), line(2)))
    keep(run, line(1), line(2), line(3))
    await tail.catch_up()
    tail.live(texts(line(2), line(3), line(4)))
    assert screen.of("main") == [1, 2, 3, 4]


@in_loop
async def test_lines_behind_a_gap_wait_until_the_folder_has_filled_it(run: RunFolder) -> None:
    screen = Screen()
    tail = Tail(run, screen.show)
    keep(run, line(1), line(2), line(3))
    tail.live(texts(line(4)))
    assert (screen, tail.gapped) == ([], True)
    await tail.catch_up()
    assert (screen.of("main"), tail.gapped) == ([1, 2, 3, 4], False)


@in_loop
async def test_lines_that_come_while_the_folder_is_read_wait_for_their_turn(run: RunFolder) -> None:
    screen = Screen()
    tail = Tail(run, screen.show)
    keep(run, line(1), line(2))
    catching = asyncio.ensure_future(tail.catch_up())
    tail.live(texts(line(3)))
    await catching
    assert screen.of("main") == [1, 2, 3]


@in_loop
async def test_the_first_line_of_a_node_that_was_started_anew_hides_none_of_its_former_life(run: RunFolder) -> None:
    screen = Screen()
    tail = Tail(run, screen.show)
    keep(run, line(1), line(2))
    catching = asyncio.ensure_future(tail.catch_up())
    tail.live(texts(line(BLOCK + 1)))
    await catching
    tail.live(texts(line(2 * BLOCK + 1)))
    assert screen.of("main") == [1, 2, BLOCK + 1, 2 * BLOCK + 1]


@in_loop
async def test_a_clock_that_was_set_back_loses_no_line(run: RunFolder) -> None:
    screen = Screen()
    keep(run, line(1, time=100.0), line(2, time=50.0), line(3, time=60.0))
    keep(run, line(1, "worker-1", time=55.0))
    await Tail(run, screen.show).catch_up()
    assert screen.of("main") == [1, 2, 3]
    assert screen.of("worker-1") == [1]


@in_loop
async def test_the_folder_is_read_from_its_end_only_as_far_as_needed(run: RunFolder) -> None:
    screen = Screen()
    for start in range(1, 100, 10):
        keep(run, *(line(n) for n in range(start, start + 10)))
    slow = Slow(run.store, 0.0)
    tail = Tail(RunFolder(slow, "run"), screen.show)
    await tail.catch_up()
    slow.gets.clear()
    keep(run, line(101), line(102))
    await tail.catch_up()
    assert screen.of("main") == list(range(1, 103))
    assert len(slow.gets) == 1


class Slow:
    """A work dir that takes its time, as a bucket does."""

    def __init__(self, store: Store, seconds: float) -> None:
        self._store, self._seconds = store, seconds
        self.gets: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, key: str) -> bytes:
        import time

        self.gets.append(key)
        time.sleep(self._seconds)
        return self._store.get(key)

    def list(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        import time

        found = list(self._store.list(prefix, after))
        time.sleep(self._seconds)
        return iter(found)


class Cluster:
    """Main and a worker as far as lines go: two logs, a hub and a link, all real."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self.key = run.make_key()
        self.stops: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.counts = {"main": 0, "worker-1": 0}

    async def open(self) -> None:
        ignore = lambda *_: None  # noqa: E731
        self.hub = Hub(self.key, ignore, ignore, lambda _node: [], lambda: {"kind": "state"}, self.stops.append)
        self.link = Link(
            "worker-1", self.key, ignore, ignore, ignore, ignore, lambda on: self.logs["worker-1"].watch(on)
        )
        self.logs = {
            node: LogOut(SegmentWriter(self.run.store, self.run.at("logs", node)), live)
            for node, live in (("main", self.hub.show), ("worker-1", self.link.send))
        }
        self.hub.on_watched = self.logs["main"].watch  # type: ignore[method-assign]
        config = MainConfig("main", "127.0.0.1", await self.hub.open("127.0.0.1", 0), 1)
        self.run.publish_main(config)
        self.link.aim(config)
        self.tasks = [asyncio.ensure_future(log.ship()) for log in self.logs.values()]
        await soon(lambda: self.hub.nodes)

    def print(self, node: str, count: int) -> None:
        for _ in range(count):
            self.counts[node] += 1
            self.logs[node].add(line(self.counts[node], node))

    async def work(self, rounds: int, chance: random.Random) -> None:
        for _ in range(rounds):
            self.print(chance.choice(["main", "worker-1"]), chance.randint(1, 50))
            await asyncio.sleep(chance.choice([0, 0, 0.005, 0.05]))

    async def close(self) -> None:
        for log in self.logs.values():
            await log.finish()
        self.run.write_result(Result("run", "succeeded", End.SCRIPT_ENDED, 0))
        self.hub.show({"kind": "end"})
        for task in self.tasks:
            task.cancel()
        await self.link.close()
        await self.hub.close()


@pytest.mark.parametrize("seed", range(3))
@in_loop
async def test_late_and_slow_watchers_see_every_line_once_and_in_order(run: RunFolder, seed: int) -> None:
    chance = random.Random(seed)
    cluster = Cluster(run)
    await cluster.open()
    screens = [Screen() for _ in range(3)]
    watching = []
    for screen, slowness in zip(screens, (0.0, 0.05, 0.15), strict=True):
        await cluster.work(15, chance)
        slow = RunFolder(Slow(run.store, slowness), "run")
        watching.append(asyncio.ensure_future(watch(slow, Tail(slow, screen.show), lambda _state: None)))
    await cluster.work(25, chance)
    await cluster.close()
    for watcher in watching:
        result = await watcher
        assert result is not None
        assert result.exit_code == 0
    for screen in screens:
        for node, count in cluster.counts.items():
            assert screen.of(node) == list(range(1, count + 1))


@in_loop
async def test_a_line_reaches_a_watcher_before_it_is_in_the_folder(run: RunFolder) -> None:
    cluster = Cluster(run)
    await cluster.open()
    for task in cluster.tasks:
        task.cancel()
    screen = Screen()
    states: list[dict[str, Any]] = []
    watching = asyncio.ensure_future(watch(run, Tail(run, screen.show), states.append))
    await soon(lambda: states)
    cluster.print("worker-1", 1)
    cluster.print("main", 1)
    await soon(lambda: len(screen) == 2)
    assert list(run.store.list(run.at("logs/"))) == []
    await cluster.close()
    await watching


@in_loop
async def test_whoever_asks_main_to_stop_is_heard_at_once(run: RunFolder) -> None:
    cluster = Cluster(run)
    assert not await asyncio.to_thread(ask_to_stop, run, "nobody is there")
    await cluster.open()
    assert await asyncio.to_thread(ask_to_stop, run, "enough")
    assert await soon(lambda: cluster.stops) == ["enough"]
    await cluster.close()


class Away(MemoryStore):
    """A work dir that does not answer while it is told so."""

    away = False

    def get(self, key: str) -> bytes:
        self._check()
        return super().get(key)

    def list(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        self._check()
        return super().list(prefix, after)

    def list_names(self, prefix: str = "") -> Iterator[str]:
        self._check()
        return super().list_names(prefix)

    def create(self, key: str, data: bytes) -> None:
        self._check()
        super().create(key, data)

    def _check(self) -> None:
        if self.away:
            raise StoreBusy("no answer")


@in_loop
async def test_a_work_dir_that_is_away_ends_no_watching() -> None:
    store, screen = Away("watched"), Screen()
    run = RunFolder(store, "run")
    keep(run, line(1), line(2))
    watching = asyncio.ensure_future(watch(run, Tail(run, screen.show), lambda _state: None, alive=lambda: True))
    await soon(lambda: screen.of("main") == [1, 2])
    store.away = True
    await asyncio.sleep(0.3)
    assert not watching.done()
    store.away = False
    keep(run, line(3))
    result = Result("run", "succeeded", End.SCRIPT_ENDED, 0)
    run.write_result(result)
    assert await watching == result
    assert screen.of("main") == [1, 2, 3]


@in_loop
async def test_lines_that_come_while_the_folder_cannot_be_read_are_not_lost() -> None:
    store, screen = Away("held"), Screen()
    run = RunFolder(store, "run")
    keep(run, line(1), line(2))
    tail = Tail(run, screen.show)
    store.away = True
    catching = asyncio.ensure_future(tail.catch_up())
    tail.live(texts(line(3)))
    with pytest.raises(StoreBusy):
        await catching
    tail.live(texts(line(4)))
    assert (screen, tail.gapped) == ([], True)
    store.away = False
    await tail.catch_up()
    assert screen.of("main") == [1, 2, 3, 4]


def test_a_node_that_comes_while_the_work_dir_is_away_waits_for_it(tmp_path: Path) -> None:
    store = Away("early")
    run = RunFolder(store, "run")
    job = Job(name="early", framework="pytorch", code=None)
    run.make_key()
    run.write_job(JobDocument(run="run", job=job, by="launcher", created_at=0.0))
    store.away = True
    back = threading.Timer(1.0, lambda: setattr(store, "away", False))
    back.start()
    folder = tmp_path / "node"
    node = claimed(Settings(work_dir="", run="run", role="worker", node="worker-1", job=None, folder=folder), run)
    back.join()
    assert node.record.incarnation == 1
    found = run.node("worker-1")
    assert found is not None
    assert found.boot == node.record.boot
