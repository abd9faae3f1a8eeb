"""What a run takes up, whether it may go, and what is left when it went."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from muster.errors import RunNotFound, StoreBusy, StoreError
from muster.spec.job import Job
from muster.workdir.bundle import store_code
from muster.workdir.counting import CountingStore
from muster.workdir.document import CodeRef, JobDocument
from muster.workdir.folder import FolderStore
from muster.workdir.index import IndexEntry, entries, remember
from muster.workdir.machine import Process
from muster.workdir.memory import MemoryStore
from muster.workdir.pruning import GRACE, Pruner, Pruning, Rule
from muster.workdir.records import End, NodeRecord, Result, dump
from muster.workdir.retention import Gone, Holding, May, holding, remove
from muster.workdir.run import RunFolder
from muster.workdir.store import Store
from tests.workdir.lines import Line

pytestmark = pytest.mark.unit

NOW = 1_000_000_000.0
DAY = 86400.0


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def store() -> Line:
    return Line(MemoryStore("retention"), parallel=4)


def made(store: Store, run: str, created: float = NOW - 40 * DAY, code: str = "", job: str = "train") -> RunFolder:
    folder = RunFolder(store, run)
    reference = CodeRef(code, 1, 1) if code else None
    document = Job(name=job, framework="plain", entry="train.py")
    folder.write_job(JobDocument(run=run, job=document, by="launcher", created_at=created, code=reference))
    return folder


def ended(store: Store, run: str, days: float = 30, state: str = "succeeded", **more: str) -> RunFolder:
    """A run that has ended so long ago, with 5 objects."""
    folder = made(store, run, NOW - (days + 1) * DAY, **more)
    folder.write_node(node("main", state="ended"))
    store.put(folder.at("outputs/main/model.pt"), b"x" * 1000)
    store.put(folder.at("logs/main/00000001.jsonl"), b"\n")
    folder.write_result(Result(run, state, End.SCRIPT_ENDED, 0, ended_at=NOW - days * DAY))
    return folder


def node(name: str, state: str = "running", process: Process | None = None) -> NodeRecord:
    here = process or Process("another machine", 7, "1")
    made = NodeRecord(node=name, role=name.partition("-")[0], state=state, host="there", pid=here.pid)
    return replace(made, machine=here.machine, pid_started=here.started)


def keys(store: Store, run: str) -> list[str]:
    return [entry.key for entry in store.list(f"{run}/")]


@pytest.fixture
def ghost() -> Process:
    """A process of this machine that is no longer there."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return replace(Process.here(), pid=process.pid, started="1")


# --- may it go? ------------------------------------------------------------------------------------------


def test_a_run_that_has_ended_may_go_and_costs_three_requests_to_look_at(store: Line) -> None:
    ended(store, "old")
    store.reset()
    found = holding(store, "old", NOW)
    assert store.counts == {"get": 2, "list": 1}
    assert (found.state, found.since, found.may) == ("succeeded", NOW - 30 * DAY, May.GO)
    assert len(found.keys) == 5
    assert found.bytes == sum(entry.size for entry in store.list("old/"))


def test_a_run_that_runs_here_may_not_go_at_all(store: Line) -> None:
    made(store, "running").write_node(node("main", process=Process.here()))
    found = holding(store, "running", NOW)
    assert (found.may, found.why) == (May.NOT, "it is running: main")


def test_a_run_that_has_just_ended_may_not_go_while_a_node_is_leaving(store: Line) -> None:
    folder = ended(store, "ending", days=1 / 24 / 60)
    assert holding(store, "ending", NOW).may is May.GO
    folder.write_node(node("worker-1", "ending", Process.here()))
    assert holding(store, "ending", NOW).may is May.NOT
    folder.write_node(node("worker-1", "ending"))
    found = holding(store, "ending", NOW)
    assert (found.may, found.why) == (May.FORCED, "it ended 1m ago, as far as can be seen from here: worker-1")
    assert holding(store, "ending", NOW + 2 * 3600).may is May.GO


def test_a_run_that_cannot_be_judged_from_here_takes_force(store: Line) -> None:
    folder = made(store, "elsewhere")
    for number in range(5):
        folder.write_node(node(f"worker-{number}"))
    found = holding(store, "elsewhere", NOW)
    assert found.may is May.FORCED
    assert found.why.endswith("worker-0, worker-1, worker-2 and 2 more")


def test_a_run_that_was_lost_takes_force_because_it_can_be_taken_up_again(store: Line, ghost: Process) -> None:
    made(store, "lost").write_node(node("main", process=ghost))
    found = holding(store, "lost", NOW)
    assert (found.state, found.may) == ("lost", May.FORCED)
    assert "taken up again" in found.why


def test_a_run_that_is_being_launched_may_not_go(store: Line, ghost: Process) -> None:
    folder = made(store, "launched")
    assert holding(store, "launched", NOW).may is May.FORCED
    folder.claim_launch(1, ghost)
    assert holding(store, "launched", NOW).may is May.FORCED
    folder.claim_launch(2, Process.here())
    assert holding(store, "launched", NOW).may is May.NOT


def test_without_an_end_the_age_is_that_of_the_newest_object(store: Line) -> None:
    made(store, "lost")
    newest = max(entry.modified for entry in store.list("lost/"))
    assert holding(store, "lost", NOW).since == newest


def test_a_run_that_nobody_can_read_takes_force(store: Line) -> None:
    ended(store, "strange")
    store.put("strange/job.json", b"{}")
    assert holding(store, "strange", NOW).may is May.FORCED
    with store.away(), pytest.raises(StoreBusy):
        holding(store, "strange", NOW)
    ended(store, "cut-short")
    store.put("cut-short/result.json", b"{")
    found = holding(store, "cut-short", NOW)
    assert found.may is May.FORCED
    remove(store, found)
    assert keys(store, "cut-short") == []


def test_what_is_no_run_is_not_looked_at_any_further(store: Line) -> None:
    store.put("datasets/train.csv", b"precious")
    with pytest.raises(RunNotFound, match="is no run"):
        holding(store, "datasets", NOW)
    with pytest.raises(Gone):
        holding(store, "nothing", NOW)
    with pytest.raises(StoreError):
        holding(store, "../datasets", NOW)
    assert keys(store, "datasets") == ["datasets/train.csv"]


# --- how it goes -----------------------------------------------------------------------------------------


def test_all_of_it_goes_and_nothing_else(store: Line, home: Path) -> None:
    ended(store, "old")
    ended(store, "older")
    for run in ("old", "older"):
        remember(IndexEntry(run, store.url, "local", NOW))
    left = home / "nodes" / "old" / "main"
    left.mkdir(parents=True)
    (left / "reports.jsonl").write_text("")
    remove(store, holding(store, "old", NOW))
    assert list(store.list_names()) == ["older"]
    assert [entry.run for entry in entries()] == ["older"]
    assert list((home / "nodes").iterdir()) == []


def test_a_run_of_the_same_name_in_another_work_dir_stays_in_the_index(store: Line, tmp_path: Path) -> None:
    ended(store, "old")
    remember(IndexEntry("old", str(tmp_path / "elsewhere"), "local", NOW))
    remove(store, holding(store, "old", NOW))
    assert [entry.run for entry in entries()] == ["old"]


def test_the_number_of_requests_grows_by_one_for_each_thousand_objects() -> None:
    class Bucket(CountingStore):
        """Deletes and lists a thousand at a time, as buckets do."""

        def delete_all(self, keys: Iterable[str]) -> None:
            left = list(keys)
            for start in range(0, len(left), 1000):
                super().delete_all(left[start : start + 1000])

    for objects, deletions in ((10, 1), (999, 1), (2500, 3)):
        store = Bucket(MemoryStore("many"))
        folder = ended(store, "old")
        for number in range(objects - 5):
            store.put(folder.at(f"outputs/main/{number:05}"), b"")
        store.reset()
        remove(store, holding(store, "old", NOW))
        assert store.counts == {"get": 2, "list": 2, "delete_all": deletions, "delete": 2}
        assert list(store.list()) == []


def test_one_that_is_cut_off_is_found_again_and_ended(store: Line) -> None:
    class Cut(Line):
        """Is lost when so many keys were deleted."""

        left = 0

        def delete_all(self, keys: Iterable[str]) -> None:
            for key in keys:
                self.delete(key)

        def delete(self, key: str) -> None:
            if not self.left:
                raise StoreBusy("no connection")
            self.left -= 1
            super().delete(key)

    cut = Cut(store)
    for left in range(5):
        ended(store, "old")
        cut.left = left
        with pytest.raises(StoreBusy):
            remove(cut, holding(cut, "old", NOW))
        there = keys(store, "old")
        assert there[0] == "old/job.json" or "old/job.json" in there
        assert ("old/result.json" in there) == (left < 4)
        assert holding(store, "old", NOW).may is (May.GO if left < 4 else May.FORCED)
        remove(store, holding(store, "old", NOW))
        assert keys(store, "old") == []


def test_in_a_folder_nothing_is_left_behind(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "runs")
    ended(store, "old")
    ended(store, "older")
    remove(store, holding(store, "old", NOW))
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [".muster-tmp", "older"]


# --- pruning ---------------------------------------------------------------------------------------------


def prune(store: Store, days: float = 7, **more: object) -> tuple[Pruner, Pruning]:
    rule = Rule(days * DAY, int(more.get("keep_last", 0)), bool(more.get("force")))  # type: ignore[call-overload]
    runs = more.get("runs")
    pruner = Pruner(store, rule, NOW, runs if isinstance(runs, frozenset) else None)
    return pruner, pruner.look()


def names(found: Iterable[Holding]) -> list[str]:
    return [one.run for one in found]


@pytest.fixture
def several(store: Line) -> Iterator[Line]:
    for days in (1, 8, 20, 30):
        ended(store, f"run-{days}", days)
    made(store, "run-lost").write_node(node("main"))
    store.put("datasets/train.csv", b"precious")
    yield store
    assert store.get("datasets/train.csv") == b"precious"


def test_what_is_old_goes_the_oldest_first(several: Line) -> None:
    pruner, found = prune(several)
    assert names(found.goes) == ["run-30", "run-20", "run-8"]
    assert {(one.run, one.why, one.told) for one in found.stays} == {
        ("run-1", "succeeded since 1d", False),
        ("run-lost", "it is running, as far as can be seen from here: main", True),
    }
    pruner.carry_out(found)
    assert list(several.list_names()) == ["datasets", "run-1", "run-lost"]


def test_nothing_goes_before_it_was_agreed_to(several: Line) -> None:
    before = list(several.list())
    prune(several)
    assert list(several.list()) == before
    assert {"delete", "delete_all", "put"} & set(several.counts) <= {"put"}


def test_requests_are_two_for_each_run_and_a_listing_for_each_that_is_old(several: Line) -> None:
    several.reset()
    prune(several)
    # A get for what is no run; the run without an end is listed twice, with a get for its node; code and programs once.
    assert several.counts == {"list_names": 1, "get": 5 * 2 + 1 + 1, "list": 3 + 2 + 1 + 1}


def test_some_stay_of_each_job_whatever_their_age(several: Line) -> None:
    ended(several, "other-99", 99, job="other")
    _, found = prune(several, keep_last=1)
    assert names(found.goes) == ["run-30", "run-20", "run-8"]
    _, found = prune(several, keep_last=3)
    assert names(found.goes) == ["run-30"]
    assert "it is among the last 3 of its job" in {one.why for one in found.stays}


def test_only_the_runs_that_were_launched_from_here_if_so_wanted(several: Line) -> None:
    _, found = prune(several, runs=frozenset({"run-20", "run-1"}))
    assert names(found.goes) == ["run-20"]
    assert [one.run for one in found.stays] == ["run-1"]


def test_with_force_also_what_was_lost(several: Line) -> None:
    # Its newest object was written just now, long after the time that these tests take for now.
    _, found = prune(several, days=-20_000, force=True)
    assert "run-lost" in names(found.goes)


# --- code ------------------------------------------------------------------------------------------------


@pytest.fixture
def bundles(store: Line, tmp_path: Path) -> list[str]:
    """Two that were stored long before, as far as the pruner's clock can tell."""
    found = []
    for number in range(2):
        folder = tmp_path / f"code-{number}"
        folder.mkdir()
        (folder / "train.py").write_text(f"print({number})")
        found.append(store_code(store, folder).digest)
    return found


def later(store: Store, **rule: float) -> Pruner:
    """A pruner that comes long after all was written."""
    newest = max(entry.modified for entry in store.list())
    return Pruner(store, Rule(rule.get("older_than", 7 * DAY)), newest + rule.get("after", 2 * GRACE))


def test_code_goes_with_the_last_run_that_uses_it(store: Line, bundles: list[str]) -> None:
    ended(store, "old", code=bundles[0])
    ended(store, "young", days=-(GRACE * 2_000_000), code=bundles[1])
    pruner = later(store)
    found = pruner.look()
    assert names(found.goes) == ["old"]
    assert [entry.key for entry in found.code] == [f"code/{bundles[0]}"]
    assert pruner.carry_out(found) == found.code
    assert [entry.key for entry in store.list("code/")] == [f"code/{bundles[1]}"]


def test_new_code_is_left_alone_because_its_run_may_not_be_there_yet(store: Line, bundles: list[str]) -> None:
    assert len(later(store).look().code) == 2
    assert later(store, after=GRACE / 2).look().code == ()


def test_code_that_was_taken_into_use_while_the_user_was_thinking_stays(store: Line, bundles: list[str]) -> None:
    pruner = later(store)
    found = pruner.look()
    assert len(found.code) == 2
    made(store, "launched-meanwhile", code=bundles[1])
    assert [entry.key for entry in pruner.carry_out(found)] == [f"code/{bundles[0]}"]


def test_no_code_goes_where_a_run_cannot_be_read(store: Line, bundles: list[str]) -> None:
    store.put("strange/job.json", dump({"protocol": 99}))
    found = later(store).look()
    assert found.code == ()
    assert "protocol 99" in found.code_stays


class TestPrograms:
    """Node programs: a run without an end may start a node by its own."""

    OLD, LATER = "programs/old.pyz", "programs/later.pyz"

    @pytest.fixture
    def store(self, tmp_path: Path) -> FolderStore:
        found = FolderStore(tmp_path / "programs-and-runs")
        for key, days in ((self.OLD, 50.0), (self.LATER, 10.0)):
            found.put(key, b"")
            os.utime(tmp_path / "programs-and-runs" / key, (NOW - days * DAY,) * 2)
        return found

    def gone(self, store: FolderStore) -> list[str]:
        pruner, found = prune(store, days=1000)
        return [entry.key for entry in pruner.carry_out(found)]

    def test_those_that_no_run_can_want_go(self, store: FolderStore) -> None:
        ended(store, "run-30", 30)
        assert self.gone(store) == [self.LATER, self.OLD]
        assert list(store.list("programs/")) == []

    def test_those_of_a_run_without_an_end_stay(self, store: FolderStore) -> None:
        made(store, "run-lost", NOW - 10 * DAY)
        assert self.gone(store) == [self.OLD]

    def test_new_ones_stay_for_the_run_that_is_not_there_yet(self, store: FolderStore, tmp_path: Path) -> None:
        os.utime(tmp_path / "programs-and-runs" / self.LATER, (NOW - GRACE,) * 2)
        assert self.gone(store) == [self.OLD]
