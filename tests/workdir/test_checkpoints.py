"""Checkpoints: sent when they are complete, once each, and laid out again for the next start."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.errors import StoreError
from muster.workdir.counting import CountingStore
from muster.workdir.files import sha256_of
from muster.workdir.memory import MemoryStore
from muster.workdir.run import RunFolder
from muster.workdir.sync import Checkpoint, CheckpointShipper, Shipped, checkpoints, fetch_checkpoint

pytestmark = pytest.mark.unit

PREFIX = "run/checkpoints/main"


class Interrupted(CountingStore):
    """Lets something happen after a file was sent."""

    def __init__(self) -> None:
        super().__init__(MemoryStore("checkpoints"))
        self.after: Callable[[], object] = lambda: None

    def put_file(self, key: str, path: Path) -> None:
        super().put_file(key, path)
        self.after()


@pytest.fixture
def store() -> Interrupted:
    return Interrupted()


@pytest.fixture
def run(store: Interrupted) -> RunFolder:
    return RunFolder(store, "run")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "code" / "checkpoints").mkdir(parents=True)
    return tmp_path / "code" / "checkpoints"


@pytest.fixture
def shipper(store: Interrupted, folder: Path) -> CheckpointShipper:
    return CheckpointShipper(store, PREFIX, folder)


def newest(run: RunFolder) -> Checkpoint | None:
    return next(checkpoints(run, "main"), None)


def write(folder: Path, path: str, content: str, at: float = 1000.0) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(content)
    os.utime(folder / path, (at, at))


def keys(store: Interrupted) -> list[str]:
    return [entry.key.removeprefix(f"{PREFIX}/") for entry in store.list()]


def test_an_entry_is_sent_when_it_has_not_changed_between_two_looks(
    folder: Path, store: Interrupted, shipper: CheckpointShipper
) -> None:
    write(folder, "epoch-1.pt", "111")
    assert shipper.ship() == Shipped()
    write(folder, "epoch-1.pt", "1111", at=1001.0)
    assert shipper.ship() == Shipped()
    assert shipper.ship() == Shipped(1, 4)
    assert keys(store) == ["000001/files/epoch-1.pt", "000001/manifest.json"]
    store.reset()
    assert shipper.ship() == shipper.finish() == Shipped()
    assert store.counts == {}


def test_a_folder_is_one_checkpoint_and_waits_for_all_its_files(
    folder: Path, store: Interrupted, run: RunFolder, shipper: CheckpointShipper
) -> None:
    write(folder, "step-5/model.bin", "12")
    shipper.ship()
    write(folder, "step-5/deep/optimizer.bin", "3")
    assert shipper.ship() == Shipped()
    assert shipper.ship() == Shipped(2, 3)
    found = newest(run)
    assert found is not None
    assert (found.number, found.name, found.manifest.bytes) == (1, "step-5", 3)


def test_the_list_comes_last(folder: Path, store: Interrupted, run: RunFolder, shipper: CheckpointShipper) -> None:
    write(folder, "a/1", "1")
    write(folder, "a/2", "2")
    seen = []
    store.after = lambda: seen.append(newest(run))
    shipper.finish()
    assert seen == [None, None]
    assert newest(run) is not None


def test_work_under_way_is_never_sent(folder: Path, store: Interrupted, shipper: CheckpointShipper) -> None:
    for name in (".hidden", "a.pt.tmp", "b.partial", ".dir/x", "c.tmp/x"):
        write(folder, name, "1")
    (folder / "empty").mkdir()
    shipper.ship()
    shipper.ship()
    assert shipper.finish() == Shipped()
    assert keys(store) == []


def test_the_script_may_say_that_one_is_complete(folder: Path, store: Interrupted, shipper: CheckpointShipper) -> None:
    write(folder, "a.pt", "1")
    write(folder, "b.pt", "1")
    write(folder, "c/model", "1")
    assert shipper.complete(folder / "a.pt")
    assert shipper.complete(Path("checkpoints/c/model"))
    assert shipper.ship() == Shipped(2, 2)
    assert keys(store) == ["000001/files/a.pt", "000001/manifest.json", "000002/files/c/model", "000002/manifest.json"]
    assert shipper.complete(Path("b.pt"))
    assert shipper.ship() == Shipped(1, 1)


@pytest.mark.parametrize("path", ["", ".", "..", "/etc/hostname", "missing.pt", "../train.py", "/"])
def test_a_path_elsewhere_is_not_taken_for_a_checkpoint(folder: Path, shipper: CheckpointShipper, path: str) -> None:
    write(folder.parent, "train.py", "")
    assert not shipper.complete(Path(path))


def test_the_newest_has_the_highest_number(folder: Path, run: RunFolder, shipper: CheckpointShipper) -> None:
    write(folder, "epoch-10", "10", at=1010.0)
    write(folder, "epoch-9", "9", at=1009.0)
    write(folder, "epoch-11/model", "11", at=1011.0)
    shipper.finish()
    assert [checkpoint.name for checkpoint in checkpoints(run, "main")] == ["epoch-11", "epoch-10", "epoch-9"]


def test_one_that_is_overwritten_leaves_two_versions(
    folder: Path, store: Interrupted, run: RunFolder, shipper: CheckpointShipper
) -> None:
    write(folder, "other", "x", at=500.0)
    for version in range(1, 5):
        write(folder, "last.pt", str(version), at=1000.0 + version)
        assert shipper.finish().files == (2 if version == 1 else 1)
    assert [(one.number, one.name) for one in checkpoints(run, "main")] == [
        (5, "last.pt"),
        (4, "last.pt"),
        (1, "other"),
    ]
    assert [key for key in keys(store) if key.startswith(("000002", "000003"))] == []
    write(folder, "last.pt", "3", at=2000.0)
    assert shipper.finish() == Shipped(1, 1)


def test_one_that_changes_while_it_is_sent_was_not_complete(
    folder: Path, store: Interrupted, run: RunFolder, shipper: CheckpointShipper
) -> None:
    write(folder, "a.pt", "1")
    shipper.ship()
    store.after = lambda: write(folder, "a.pt", "12", at=2000.0)
    assert shipper.ship() == Shipped()
    assert newest(run) is None
    store.after = (folder / "a.pt").unlink
    assert shipper.finish() == Shipped()
    assert newest(run) is None


def test_one_that_cannot_be_read_is_named_and_the_others_are_sent(
    folder: Path, store: Interrupted, shipper: CheckpointShipper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(place: Path) -> str:
        if place.name == "locked":
            raise PermissionError(13, "Permission denied")
        return sha256_of(place)

    monkeypatch.setattr("muster.workdir.checkpoints.sha256_of", refuse)
    write(folder, "locked", "1")
    write(folder, "open", "1")
    assert shipper.finish() == Shipped(1, 1, ("locked: Permission denied",))


def test_a_restarted_node_goes_on_and_sends_nothing_twice(folder: Path, store: Interrupted, run: RunFolder) -> None:
    write(folder, "a.pt", "1")
    CheckpointShipper(store, PREFIX, folder).finish()
    store.put(f"{PREFIX}/000007/files/half", b"a part that was never finished")
    store.put(f"{PREFIX}/000003/manifest.json", b"damaged")
    again = CheckpointShipper(store, PREFIX, folder)
    write(folder, "a.pt", "1", at=3000.0)
    assert again.finish() == Shipped()
    write(folder, "b.pt", "2")
    assert again.finish() == Shipped(1, 1)
    assert [one.number for one in checkpoints(run, "main")] == [8, 1]


def test_a_checkpoint_is_laid_out_as_it_was(
    folder: Path, run: RunFolder, shipper: CheckpointShipper, tmp_path: Path
) -> None:
    odd = os.fsdecode(b"caf\xe9 #\n")
    write(folder, f"step-5/deep/{odd}", "content")
    write(folder, "step-5/manifest.json", "{}")
    shipper.finish()
    into = tmp_path / "late" / "checkpoints"
    fetched = fetch_checkpoint(run, "main", into)
    assert fetched is not None
    assert fetched.name == "step-5"
    assert (into / "step-5" / "deep" / odd).read_text() == "content"
    assert (into / "step-5" / "manifest.json").read_text() == "{}"
    assert [path.name for path in into.iterdir()] == ["step-5"]


def test_where_there_is_none_nothing_is_laid_out(run: RunFolder, tmp_path: Path) -> None:
    assert newest(run) is None
    assert fetch_checkpoint(run, "main", tmp_path / "into") is None
    assert not (tmp_path / "into").exists()


def test_a_damaged_one_is_passed_over_for_the_one_before(
    folder: Path, store: Interrupted, run: RunFolder, shipper: CheckpointShipper, tmp_path: Path
) -> None:
    write(folder, "epoch-1", "1", at=1001.0)
    write(folder, "epoch-2", "2", at=1002.0)
    write(folder, "epoch-3", "3", at=1003.0)
    shipper.finish()
    store.put(f"{PREFIX}/000003/files/epoch-3", b"x")
    store.delete(f"{PREFIX}/000002/files/epoch-2")
    fetched = fetch_checkpoint(run, "main", tmp_path / "into")
    assert fetched is not None
    assert fetched.name == "epoch-1"
    assert [path.name for path in (tmp_path / "into").iterdir()] == ["epoch-1"]
    store.delete(f"{PREFIX}/000001/files/epoch-1")
    with pytest.raises(StoreError, match=r"epoch-3.* is damaged"):
        fetch_checkpoint(run, "main", tmp_path / "other")


def test_what_the_node_has_itself_is_not_overwritten(folder: Path, run: RunFolder, shipper: CheckpointShipper) -> None:
    write(folder, "last.pt", "old")
    shipper.finish()
    write(folder, "last.pt", "newer than what was sent")
    assert fetch_checkpoint(run, "main", folder) is not None
    assert (folder / "last.pt").read_text() == "newer than what was sent"


def test_a_user_who_fetches_again_gets_the_newer_version(
    folder: Path, run: RunFolder, shipper: CheckpointShipper, tmp_path: Path
) -> None:
    for at, text in ((1000.0, "epoch 1"), (2000.0, "epoch 2")):
        write(folder, "last.pt", text, at)
        shipper.finish()
        fetch_checkpoint(run, "main", tmp_path / "into", over=True)
        assert (tmp_path / "into" / "last.pt").read_text() == text


def test_a_place_that_is_no_folder_is_told(
    folder: Path, run: RunFolder, shipper: CheckpointShipper, tmp_path: Path
) -> None:
    write(folder, "last.pt", "1")
    shipper.finish()
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot"):
        fetch_checkpoint(run, "main", tmp_path / "file")
