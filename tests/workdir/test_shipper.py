"""A folder and its likeness in the work dir, while a script changes the one."""

from __future__ import annotations

import hashlib
import os
import random
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from muster.errors import AccessDenied, StoreBusy, StoreError
from muster.workdir.counting import CountingStore
from muster.workdir.folder import FolderStore
from muster.workdir.memory import MemoryStore
from muster.workdir.outputs import read_manifest
from muster.workdir.shipper import Shipped, Shipper, manifest_key, pause
from muster.workdir.store import Store
from muster.workdir.transfers import LARGE_AT_ONCE
from tests.workdir.lines import Line, Meeting

pytestmark = pytest.mark.unit

PREFIX = "run/outputs/main"


class Interrupted(CountingStore):
    """Lets something happen to a file at the moment it is sent."""

    def __init__(self) -> None:
        super().__init__(MemoryStore("interrupted"))
        self.before: Callable[[], object] = lambda: None
        self.after: Callable[[], object] = lambda: None

    def put_file(self, key: str, path: Path) -> None:
        self.before()
        super().put_file(key, path)
        self.after()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "outputs" / "sub").mkdir(parents=True)
    return tmp_path / "outputs"


def write(folder: Path, path: str, content: str, at: float = 1_000_000.0) -> None:
    """Writes a file that is old enough to be settled."""
    (folder / path).write_text(content)
    os.utime(folder / path, (at, at))


def kept(store: Store) -> dict[str, bytes]:
    return {entry.key.removeprefix(f"{PREFIX}/"): store.get(entry.key) for entry in store.list(f"{PREFIX}/")}


def listed(store: Store) -> dict[str, str] | None:
    manifest = read_manifest(store, manifest_key(PREFIX))
    return {entry.path: entry.sha256 for entry in manifest.files} if manifest else None


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_only_what_changed_is_sent(folder: Path) -> None:
    store = CountingStore(MemoryStore("s"))
    shipper = Shipper(store, PREFIX, folder)
    write(folder, "model.pt", "111")
    write(folder, "sub/a b#\n.txt", "22")
    assert shipper.ship() == Shipped(2, 5)
    assert kept(store) == {"model.pt": b"111", "sub/a b#\n.txt": b"22"}
    store.reset()
    assert shipper.ship() == Shipped()
    assert store.counts == {}
    write(folder, "model.pt", "333", at=2_000_000.0)
    assert shipper.ship() == Shipped(1, 3)
    assert kept(store)["model.pt"] == b"333"
    assert listed(store) is None


def test_a_file_that_was_only_touched_is_not_sent_again(folder: Path) -> None:
    store = CountingStore(MemoryStore("s"))
    shipper = Shipper(store, PREFIX, folder)
    write(folder, "model.pt", "111")
    shipper.ship()
    store.reset()
    write(folder, "model.pt", "111", at=2_000_000.0)
    assert shipper.ship() == Shipped()
    assert store.counts == {}


def test_a_change_that_no_stamp_shows_is_found_when_the_file_was_fresh(folder: Path) -> None:
    store = MemoryStore("s")
    shipper = Shipper(store, PREFIX, folder)
    (folder / "fresh").write_text("111")
    stamp = (folder / "fresh").stat()
    shipper.ship()
    with (folder / "fresh").open("r+") as file:
        file.write("222")
    os.utime(folder / "fresh", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    shipper.ship()
    assert kept(store) == {"fresh": b"222"}


def test_what_the_script_takes_away_goes_and_what_was_there_before_stays(folder: Path) -> None:
    store = MemoryStore("s")
    store.put(f"{PREFIX}/from an earlier start", b"0")
    shipper = Shipper(store, PREFIX, folder)
    write(folder, "model.pt.part", "1")
    shipper.ship()
    (folder / "model.pt.part").rename(folder / "model.pt")
    shipper.ship()
    assert kept(store) == {"from an earlier start": b"0", "model.pt": b"1"}


def test_a_folder_in_place_of_a_file_is_no_collision(folder: Path, tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "work dir")
    shipper = Shipper(store, PREFIX, folder)
    write(folder, "x", "file")
    shipper.ship()
    (folder / "x").unlink()
    (folder / "x").mkdir()
    write(folder, "x/y", "folder")
    shipper.ship()
    assert kept(store) == {"x/y": b"folder"}


def test_a_folder_that_vanishes_takes_nothing_with_it(folder: Path) -> None:
    store = MemoryStore("s")
    shipper = Shipper(store, PREFIX, folder)
    write(folder, "model.pt", "1")
    shipper.ship()
    folder.rename(folder.with_name("elsewhere"))
    assert shipper.ship() == Shipped()
    assert kept(store) == {"model.pt": b"1"}


def test_the_end_sends_the_rest_and_then_the_list(folder: Path) -> None:
    store = CountingStore(MemoryStore("s"))
    shipper = Shipper(store, PREFIX, folder)
    write(folder, "a", "1")
    shipper.ship()
    (folder / "sub" / "b").write_text("22")
    (folder / os.fsdecode(b"caf\xe9")).write_text("3")
    assert shipper.finish() == Shipped(2, 3)
    assert kept(store) == {"a": b"1", "sub/b": b"22", "caf\\xe9": b"3"}
    assert listed(store) == {"a": sha256("1"), "caf\udce9": sha256("3"), "sub/b": sha256("22")}
    Shipper(store, PREFIX, folder).finish()
    assert listed(store) == {"a": sha256("1"), "caf\udce9": sha256("3"), "sub/b": sha256("22")}


def test_the_end_of_nothing_is_an_empty_list(tmp_path: Path) -> None:
    store = MemoryStore("s")
    assert Shipper(store, PREFIX, tmp_path / "never made").finish() == Shipped()
    assert listed(store) == {}


def test_an_old_list_is_gone_as_soon_as_something_new_comes(folder: Path) -> None:
    store = MemoryStore("s")
    write(folder, "a", "1")
    Shipper(store, PREFIX, folder).finish()
    again = Shipper(store, PREFIX, folder)
    write(folder, "a", "2", at=2_000_000.0)
    again.ship()
    assert listed(store) is None
    again.finish()
    assert listed(store) == {"a": sha256("2")}


def test_a_file_that_vanishes_on_the_way_is_no_error(folder: Path) -> None:
    store = Interrupted()
    shipper = Shipper(store, PREFIX, folder)
    write(folder, "gone", "1")
    store.before = (folder / "gone").unlink
    assert shipper.ship() == Shipped()
    store.before = lambda: None
    assert shipper.finish() == Shipped()
    assert kept(store) == {}
    assert listed(store) == {}


def test_a_file_that_changes_on_the_way_is_sent_again(folder: Path) -> None:
    store = Interrupted()
    shipper = Shipper(store, PREFIX, folder)
    write(folder, "growing", "1")
    store.after = lambda: write(folder, "growing", "12", at=2_000_000.0)
    shipper.ship()
    assert kept(store) == {"growing": b"1"}
    store.after = lambda: None
    assert shipper.ship() == Shipped(1, 2)
    assert kept(store) == {"growing": b"12"}


def test_a_file_that_never_rests_is_brought_but_not_vouched_for(folder: Path) -> None:
    store = Interrupted()
    shipper = Shipper(store, PREFIX, folder)
    write(folder, "log", "")
    store.after = lambda: (folder / "log").write_text((folder / "log").read_text() + "x")
    shipper.finish()
    assert kept(store) == {"log": b"x"}
    assert listed(store) == {}


def test_what_cannot_be_brought_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(place: Path) -> str:
        raise PermissionError(13, "Permission denied")

    store = MemoryStore("s")
    write(folder, "locked", "1")
    (folder / "out").symlink_to("/etc/hostname")
    monkeypatch.setattr("muster.workdir.shipper.sha256_of", refuse)
    assert Shipper(store, PREFIX, folder).ship() == Shipped(
        0, 0, ("out: a link that leads out of the folder", "locked: Permission denied")
    )


def test_after_a_failure_the_next_round_goes_on(folder: Path) -> None:
    def fail() -> None:
        raise StoreError("no connection")

    store = Interrupted()
    shipper = Shipper(store, PREFIX, folder)
    write(folder, "a", "1")
    store.before = fail
    with pytest.raises(StoreError):
        shipper.ship()
    store.before = lambda: None
    assert shipper.ship() == Shipped(1, 1)
    assert kept(store) == {"a": b"1"}


def test_a_last_round_waits_for_one_under_way(folder: Path) -> None:
    store = Interrupted()
    shipper = Shipper(store, PREFIX, folder)
    write(folder, "a", "1")
    sending, go_on = threading.Event(), threading.Event()

    def pause() -> None:
        sending.set()
        go_on.wait(10)

    store.before = pause
    thread = threading.Thread(target=shipper.ship)
    thread.start()
    sending.wait(10)
    last = threading.Thread(target=shipper.finish)
    last.start()
    go_on.set()
    thread.join()
    last.join()
    assert store.counts["put_file"] == 1
    assert listed(store) == {"a": sha256("1")}


# --- many at once ----------------------------------------------------------------------------------------


def test_as_many_files_are_sent_at_once_as_the_store_is_good_for(folder: Path) -> None:
    store = Line(parallel=4)
    store.meets["put_file"] = Meeting(4)
    shipper = Shipper(store, PREFIX, folder)
    for number in range(12):
        write(folder, f"{number}", "1")
    assert shipper.ship() == Shipped(12, 12)
    assert store.most == 4


def test_of_large_files_only_a_few_are_under_way(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.workdir.transfers.LARGE", 100)
    store = Line(parallel=32)
    store.meets["put_file"] = Meeting(LARGE_AT_ONCE)
    for number in range(2 * LARGE_AT_ONCE):
        write(folder, f"large {number}", "x" * 100)
    Shipper(store, PREFIX, folder).ship()
    assert store.most == LARGE_AT_ONCE


def test_a_file_that_the_store_refuses_keeps_no_other_back(folder: Path) -> None:
    store = Line(parallel=2)
    store.refuses = lambda kind, key: StoreError("too long") if kind == "put_file" and key.endswith("bad") else None
    shipper = Shipper(store, PREFIX, folder)
    for name in ("a", "bad", "c", "d", "e"):
        write(folder, name, name)
    with pytest.raises(StoreError, match="too long"):
        shipper.ship()
    assert set(kept(store)) == {"a", "c", "d", "e"}
    store.refuses = lambda kind, key: None
    store.reset()
    assert shipper.ship() == Shipped(1, 3)
    assert store.counts == {"put_file": 1}


def test_at_the_end_one_that_is_refused_keeps_neither_the_others_nor_their_list_back(folder: Path) -> None:
    store = Line(parallel=2)
    store.refuses = lambda kind, key: StoreError("too long") if kind == "put_file" and key.endswith("bad") else None
    shipper = Shipper(store, PREFIX, folder)
    write(folder, "a", "a")
    write(folder, "bad", "b")
    (folder / "written just now").write_text("c")
    with pytest.raises(StoreError, match="too long"):
        shipper.finish()
    assert listed(store) == {"a": sha256("a"), "written just now": sha256("c")}


def test_no_list_is_written_while_another_attempt_may_bring_the_rest(folder: Path) -> None:
    store = Line(parallel=2)
    store.refuses = lambda kind, key: StoreBusy("away") if kind == "put_file" and key.endswith("bad") else None
    shipper = Shipper(store, PREFIX, folder)
    write(folder, "a", "a")
    write(folder, "bad", "b")
    with pytest.raises(StoreBusy):
        shipper.finish()
    assert listed(store) is None


class Undeletable(Line):
    """To one who may write and not delete."""

    def delete(self, key: str) -> None:
        raise AccessDenied(f"may not delete {key}")

    def delete_all(self, keys: Iterable[str]) -> None:
        self._count("delete_all")
        raise AccessDenied("may not delete")


def test_where_nothing_may_be_deleted_files_are_sent_all_the_same(folder: Path) -> None:
    store = Undeletable()
    shipper = Shipper(store, PREFIX, folder)
    write(folder, "model.pt.part", "1")
    shipper.ship()
    (folder / "model.pt.part").rename(folder / "model.pt")
    with pytest.raises(AccessDenied):
        shipper.ship()
    assert kept(store)["model.pt"] == b"1"
    shipper.ship()
    assert store.counts["delete_all"] == 1
    (folder / "model.pt").rename(folder / "final.pt")
    shipper.finish()
    assert listed(store) == {"final.pt": sha256("1")}


def test_where_nothing_may_be_deleted_an_old_list_vouches_for_nothing_new(folder: Path) -> None:
    store = Undeletable()
    write(folder, "a", "1")
    Shipper(store, PREFIX, folder).finish()
    write(folder, "a", "2", at=2_000_000.0)
    Shipper(store, PREFIX, folder).ship()
    assert listed(store) == {}


# --- what a bucket costs ---------------------------------------------------------------------------------


class Hand:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_file_that_always_changes_is_sent_seldom_where_each_request_is_billed(folder: Path) -> None:
    store, clock = Line(), Hand()
    shipper = Shipper(store, PREFIX, folder, clock)
    sent = []
    for second in range(0, 125, 5):
        clock.now = second
        write(folder, "events", "x" * (second + 1), at=1_000_000.0 + second)
        if shipper.ship().files:
            sent.append(second)
    assert sent == [0, 30, 60, 90, 120]
    write(folder, "events", "the end", at=2_000_000.0)
    write(folder, "new", "1")
    assert shipper.ship() == Shipped(1, 1)  # what was never sent does not wait
    shipper.finish()
    assert kept(store) == {"events": b"the end", "new": b"1"}
    assert listed(store) == {"events": sha256("the end"), "new": sha256("1")}


def test_the_larger_a_file_the_longer_it_rests() -> None:
    assert pause(Line(), 10_000_000) == 30
    assert pause(Line(), 1_000_000_000) == 500
    assert pause(Line(billed=False), 1_000_000_000) == 0


def test_in_a_folder_nothing_waits(folder: Path, tmp_path: Path) -> None:
    store, clock = FolderStore(tmp_path / "work dir"), Hand()
    shipper = Shipper(store, PREFIX, folder, clock)
    for content in ("1", "12", "123"):
        write(folder, "events", content, at=1_000_000.0 + len(content))
        assert shipper.ship().files == 1


def test_what_did_not_arrive_does_not_wait(folder: Path) -> None:
    store, clock = Line(), Hand()
    shipper = Shipper(store, PREFIX, folder, clock)
    write(folder, "a", "1")
    shipper.ship()
    write(folder, "a", "22", at=2_000_000.0)
    clock.now = 30.0
    with store.away(), pytest.raises(StoreBusy):
        shipper.ship()
    assert shipper.ship() == Shipped(1, 2)
    assert kept(store) == {"a": b"22"}


def test_rounds_in_which_nothing_happens_cost_nothing(folder: Path) -> None:
    store, clock = Line(), Hand()
    shipper = Shipper(store, PREFIX, folder, clock)
    for number in range(50):
        write(folder, f"{number}", "1")
    shipper.ship()
    assert store.counts == {"delete": 1, "put_file": 50}
    store.reset()
    for _ in range(200):
        clock.now += 5.0
        shipper.ship()
    assert store.counts == {}


def test_many_files_that_go_are_taken_away_in_one_request(folder: Path) -> None:
    store = Line()
    shipper = Shipper(store, PREFIX, folder)
    for number in range(50):
        write(folder, f"{number}", "1")
    shipper.ship()
    for number in range(50):
        (folder / f"{number}").unlink()
    store.reset()
    shipper.ship()
    assert store.counts == {"delete_all": 1}
    assert kept(store) == {}


# --- a store that is lost in the middle ------------------------------------------------------------------


def test_a_store_that_is_away_is_not_asked_for_each_file(folder: Path) -> None:
    store = Line(parallel=4)
    shipper = Shipper(store, PREFIX, folder)
    for number in range(100):
        write(folder, f"{number}", "1")
    store.refuses = lambda kind, key: StoreBusy("no connection") if kind == "put_file" else None
    with pytest.raises(StoreBusy):
        shipper.ship()
    assert len(store.keys("put_file")) <= 4
    store.refuses = lambda kind, key: None
    assert shipper.ship() == Shipped(100, 100)


def test_nothing_is_lost_and_no_list_names_what_is_not_there(folder: Path) -> None:
    store, clock, chance = Line(parallel=4), Hand(), random.Random(4)
    shipper = Shipper(store, PREFIX, folder, clock)
    store.refuses = lambda kind, key: StoreBusy("no connection") if chance.random() < 0.3 else None
    for step in range(40):
        clock.now += 5
        write(folder, f"{step % 7}", f"{step}", at=1_000_000.0 + step)
        with suppress(StoreError):
            shipper.finish() if step % 10 == 9 else shipper.ship()
        assert_listed_is_there(store)
    while True:
        try:
            shipper.finish()
            break
        except StoreBusy:
            assert_listed_is_there(store)
    store.refuses = lambda kind, key: None
    assert kept(store) == {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert listed(store) == {name: sha256(content.decode()) for name, content in kept(store).items()}


def assert_listed_is_there(line: Line) -> None:
    refuses, line.refuses = line.refuses, lambda kind, key: None
    there = kept(line)
    for name in listed(line) or {}:
        assert name in there
    line.refuses = refuses
