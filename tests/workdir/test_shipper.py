"""A folder and its likeness in the work dir, while a script changes the one."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.errors import StoreError
from muster.workdir.counting import CountingStore
from muster.workdir.folder import FolderStore
from muster.workdir.memory import MemoryStore
from muster.workdir.outputs import read_manifest
from muster.workdir.shipper import Shipped, Shipper, manifest_key
from muster.workdir.store import Store

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
