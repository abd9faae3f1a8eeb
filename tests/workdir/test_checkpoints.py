"""Checkpoints on their way home: sent when they are complete, once each, and what is written in place when it rests."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from muster.errors import AccessDenied, StoreBusy, StoreError
from muster.workdir.counting import CountingStore
from muster.workdir.files import sha256_of
from muster.workdir.memory import MemoryStore
from muster.workdir.sync import Checkpoint, CheckpointShipper, Shipped, checkpoints, fetch_checkpoint
from tests.workdir.desk import Desk
from tests.workdir.lines import Line, Meeting

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
def desk(store: Interrupted, tmp_path: Path) -> Desk:
    return Desk(store, tmp_path)


def kept(desk: Desk) -> list[Checkpoint]:
    return list(checkpoints(desk.run, desk.node))


def newest(desk: Desk) -> Checkpoint | None:
    return next(checkpoints(desk.run, desk.node), None)


def keys(store: Interrupted) -> list[str]:
    return [entry.key.removeprefix(f"{PREFIX}/") for entry in store.list()]


# --- complete --------------------------------------------------------------------------------------------


def test_what_is_complete_is_sent_at_once_and_says_so(desk: Desk, store: Interrupted) -> None:
    desk.replace("epoch-1.pt", "111")
    desk.write("in-place.pt")
    assert desk.shipper.ship_complete(last=True) == Shipped(1, 3)
    assert keys(store) == ["000001/files/epoch-1.pt", "000001/manifest.json"]
    said = json.loads(store.get(f"{PREFIX}/000001/manifest.json"))
    assert said["name"] == "epoch-1.pt"
    assert said["complete"].keys() == {"at", "generation", "ordinal"}
    store.reset()
    assert desk.shipper.ship_complete(last=True) == Shipped()
    assert store.counts == {}


def test_a_unit_is_named_by_its_path_however_deep(desk: Desk) -> None:
    desk.write("run/a/model", "1")
    desk.write("run/a/deep/more", "1")
    desk.write("run/log", "1")
    desk.name("run/a")
    desk.shipper.ship_complete(last=True)
    (found,) = kept(desk)
    assert found.name == "run/a"
    assert [entry.path for entry in found.manifest.files] == ["run/a/deep/more", "run/a/model"]


def test_the_generation_is_told(desk: Desk) -> None:
    desk.units.next_generation(3)
    desk.replace("last.pt", "1")
    desk.shipper.ship_complete(last=True)
    (found,) = kept(desk)
    assert found.complete is not None
    assert (found.complete.generation, found.complete.ordinal) == (3, 1)


def test_one_that_changes_while_it_is_sent_was_not_complete(desk: Desk, store: Interrupted) -> None:
    desk.replace("a.pt", "1")
    store.after = lambda: desk.write("a.pt", "2")
    assert desk.shipper.ship_complete(last=True) == Shipped()
    assert newest(desk) is None
    desk.replace("a.pt", "3")
    store.after = (desk.folder / "a.pt").unlink
    assert desk.shipper.ship_complete(last=True) == Shipped()
    assert newest(desk) is None


def test_a_folder_that_gets_another_file_while_it_is_sent_was_not_complete(desk: Desk, store: Interrupted) -> None:
    desk.step("step-1", model="1")
    store.after = lambda: desk.write("step-1/optimizer", "half")
    assert desk.shipper.ship_complete(last=True) == Shipped()
    assert newest(desk) is None


def test_one_that_is_replaced_while_it_is_sent_is_sent_the_next_time(desk: Desk, store: Interrupted) -> None:
    desk.replace("a.pt", "1")
    store.after = lambda: desk.replace("a.pt", "2")
    assert desk.shipper.ship_complete(last=True) == Shipped()
    store.after = lambda: None
    assert desk.shipper.ship_complete(last=True) == Shipped(1, 1)
    assert store.get(f"{PREFIX}/000001/files/a.pt") == b"2"


def test_the_list_comes_last(desk: Desk, store: Interrupted) -> None:
    desk.step("a", one="1", two="2")
    seen = []
    store.after = lambda: seen.append(newest(desk))
    desk.shipper.ship_complete(last=True)
    assert seen == [None, None]
    assert newest(desk) is not None


def test_one_that_is_overwritten_leaves_two_versions(desk: Desk, store: Interrupted) -> None:
    desk.replace("other", "x")
    for version in range(1, 5):
        desk.replace("last.pt", str(version))
        assert desk.shipper.ship_complete(last=True).files == (2 if version == 1 else 1)
    assert [(one.number, one.name) for one in kept(desk)] == [(5, "last.pt"), (4, "last.pt"), (1, "other")]
    assert [key for key in keys(store) if key.startswith(("000002", "000003"))] == []


def test_what_is_written_in_place_never_pushes_the_last_complete_version_out(desk: Desk) -> None:
    desk.replace("last.pt", "whole")
    desk.shipper.ship_complete(last=True)
    for version in range(4):
        desk.write("last.pt", f"half {version}")
        desk.shipper.finish()
    assert [(one.number, one.complete is not None) for one in kept(desk)] == [(5, False), (4, False), (1, True)]
    desk.replace("last.pt", "whole again")
    desk.shipper.ship_complete(last=True)
    assert [(one.number, one.complete is not None) for one in kept(desk)] == [(6, True), (5, False)]


def test_what_was_sent_as_it_rested_and_is_named_then_is_not_sent_again(desk: Desk, store: Interrupted) -> None:
    desk.write("a.pt", "1")
    desk.shipper.finish()
    assert [one.complete for one in kept(desk)] == [None]
    desk.name("a.pt")
    store.reset()
    assert desk.shipper.ship_complete(last=True) == Shipped()
    assert store.counts == {"put": 1}
    (found,) = kept(desk)
    assert found.complete is not None


def test_the_same_content_completed_again_is_a_version_of_its_own(desk: Desk) -> None:
    for _ in range(2):
        desk.replace("last.pt", "same")
        desk.shipper.ship_complete(last=True)
    assert [one.complete.ordinal for one in kept(desk) if one.complete] == [2, 1]


def test_a_file_renamed_into_a_folder_waits_a_moment_because_it_may_be_only_a_part(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.replace("state/model.safetensors", "1")
    monkeypatch.setattr("muster.workdir.checkpoint_shipper.WAITS", (0.0, 60.0))
    assert desk.shipper.ship_complete() == Shipped()
    monkeypatch.setattr("muster.workdir.checkpoint_shipper.WAITS", (0.0, 0.0))
    assert desk.shipper.ship_complete() == Shipped(1, 1)


def test_one_that_is_overwritten_at_once_is_sent_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.workdir.checkpoint_shipper.WAITS", (60.0, 60.0))
    desk.replace("checkpoint", "ckpt-1")
    assert desk.shipper.ship_complete() == Shipped()
    desk.replace("checkpoint", "ckpt-1, ckpt-0")
    monkeypatch.setattr("muster.workdir.checkpoint_shipper.WAITS", (0.0, 0.0))
    assert desk.shipper.ship_complete() == Shipped(1, 14)
    assert [one.complete.ordinal for one in kept(desk) if one.complete] == [2]


def test_a_part_that_was_sent_as_complete_loses_its_mark_when_more_comes(desk: Desk) -> None:
    desk.replace("state/model.safetensors", "1")
    desk.shipper.ship_complete(last=True)
    desk.write("state/optimizer.bin", "half")
    assert desk.shipper.ship_complete(last=True) == Shipped()
    (found,) = kept(desk)
    assert found.complete is None
    desk.name("state")
    desk.shipper.ship_complete(last=True)
    assert [(one.name, one.complete is not None) for one in kept(desk)] == [
        ("state", True),
        ("state/model.safetensors", False),
    ]


# --- in place --------------------------------------------------------------------------------------------


def test_an_entry_is_sent_when_it_has_not_changed_between_two_looks(desk: Desk, store: Interrupted) -> None:
    desk.write("epoch-1.pt", "111", at=1000.0)
    assert desk.shipper.ship() == Shipped()
    desk.write("epoch-1.pt", "1111", at=1001.0)
    assert desk.shipper.ship() == Shipped()
    assert desk.shipper.ship() == Shipped(1, 4)
    assert keys(store) == ["000001/files/epoch-1.pt", "000001/manifest.json"]
    assert [one.complete for one in kept(desk)] == [None]
    store.reset()
    assert desk.shipper.ship() == desk.shipper.finish() == Shipped()
    assert store.counts == {}


def test_a_folder_is_one_checkpoint_and_waits_for_all_its_files(desk: Desk) -> None:
    desk.write("step-5/model.bin", "12")
    desk.shipper.ship()
    desk.write("step-5/deep/optimizer.bin", "3")
    assert desk.shipper.ship() == Shipped()
    assert desk.shipper.ship() == Shipped(2, 3)
    (found,) = kept(desk)
    assert (found.number, found.name, found.manifest.bytes) == (1, "step-5", 3)


def test_what_is_complete_inside_is_not_sent_once_more_with_the_rest(desk: Desk) -> None:
    desk.step("run/step-1", model="1")
    desk.write("run/log.txt", "line")
    desk.shipper.finish()
    assert [(one.name, [entry.path for entry in one.manifest.files]) for one in kept(desk)] == [
        ("run", ["run/log.txt"]),
        ("run/step-1", ["run/step-1/model"]),
    ]


def test_of_each_kind_of_name_that_was_written_in_place_one_is_told_once(desk: Desk) -> None:
    for name in ("step-1/model", "step-2/model", "last.pt"):
        desk.write(name, name, at=1000.0)
    desk.replace("good.pt", "1")
    desk.shipper.ship()
    assert desk.shipper.in_place() == []
    desk.shipper.ship()
    assert desk.shipper.in_place() == ["last.pt", "step-1/model"]
    desk.write("step-3/model", "1")
    desk.write("last.pt", "2")
    desk.shipper.finish()
    assert desk.shipper.in_place() == []


def test_work_under_way_is_never_sent(desk: Desk, store: Interrupted) -> None:
    for name in (".hidden", "a.pt.tmp", "b.partial", ".dir/x", "c.tmp/x", "d/x.tmp"):
        desk.write(name, "1")
    (desk.folder / "empty").mkdir()
    desk.shipper.ship()
    desk.shipper.ship()
    assert desk.shipper.finish() == Shipped()
    assert keys(store) == []


def test_what_came_with_the_code_is_not_sent(store: Interrupted, tmp_path: Path) -> None:
    (tmp_path / "code" / "checkpoints").mkdir(parents=True)
    (tmp_path / "code" / "checkpoints" / "pretrained.pt").write_text("given")
    assert Desk(store, tmp_path).shipper.finish() == Shipped()
    assert store.counts == {}


def test_the_newest_has_the_highest_number(desk: Desk) -> None:
    desk.write("epoch-10", "10", at=1010.0)
    desk.write("epoch-9", "9", at=1009.0)
    desk.write("epoch-11/model", "11", at=1011.0)
    desk.shipper.finish()
    assert [checkpoint.name for checkpoint in kept(desk)] == ["epoch-11", "epoch-10", "epoch-9"]


def test_one_that_cannot_be_read_is_named_and_the_others_are_sent(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(place: Path) -> str:
        if place.name.startswith("locked"):
            raise PermissionError(13, "Permission denied")
        return sha256_of(place)

    monkeypatch.setattr("muster.workdir.checkpoint_shipper.sha256_of", refuse)
    desk.write("locked", "1")
    desk.replace("locked too", "1")
    desk.write("open", "1")
    assert desk.shipper.finish() == Shipped(1, 1, ("locked too: Permission denied", "locked: Permission denied"))


# --- a node that starts again ----------------------------------------------------------------------------


def test_a_restarted_node_goes_on_and_sends_nothing_twice(desk: Desk, store: Interrupted) -> None:
    desk.write("a.pt", "1")
    desk.replace("b.pt", "1")
    desk.shipper.finish()
    store.put(f"{PREFIX}/000007/files/half", b"a part that was never finished")
    store.put(f"{PREFIX}/000003/manifest.json", b"damaged")
    again = desk.again()
    again.write("a.pt", "1", at=3000.0)
    assert again.shipper.finish() == Shipped()
    again.replace("c.pt", "2")
    assert again.shipper.finish() == Shipped(1, 1)
    assert [one.number for one in kept(desk)] == [8, 2, 1]


def test_a_node_that_lost_its_folder_goes_on_counting(desk: Desk, store: Interrupted, tmp_path: Path) -> None:
    for version in "12":
        desk.replace("last.pt", version)
        desk.shipper.ship_complete(last=True)
    fresh = Desk(store, tmp_path / "elsewhere")
    fresh.replace("last.pt", "3")
    fresh.shipper.ship_complete(last=True)
    assert [one.complete.ordinal for one in kept(fresh) if one.complete] == [3, 2]


def test_a_manifest_that_does_not_say_so_is_not_complete(desk: Desk, store: Interrupted) -> None:
    store.put(f"{PREFIX}/000001/files/step-1/model", b"1")
    entry = {"path": "step-1/model", "size": 1, "sha256": "x", "executable": False}
    store.put(f"{PREFIX}/000001/manifest.json", json.dumps({"version": 1, "files": [entry]}).encode())
    (found,) = kept(desk)
    assert (found.name, found.complete) == ("step-1", None)


@pytest.mark.parametrize("name", ["../x", "other", "/", "step-1/model/x"])
def test_a_manifest_that_names_another_place_is_not_read(desk: Desk, store: Interrupted, name: str) -> None:
    entry = {"path": "step-1/model", "size": 1, "sha256": "x", "executable": False}
    value = {"version": 1, "files": [entry], "name": name, "complete": {"at": 1, "generation": 1, "ordinal": 1}}
    store.put(f"{PREFIX}/000001/manifest.json", json.dumps(value).encode())
    assert kept(desk) == []


# --- fetched by a user -----------------------------------------------------------------------------------


def test_a_checkpoint_is_laid_out_as_it_was(desk: Desk, tmp_path: Path) -> None:
    odd = os.fsdecode(b"caf\xe9 #\n")
    desk.write(f"run/step-5/deep/{odd}", "content")
    desk.write("run/step-5/manifest.json", "{}")
    desk.name("run/step-5")
    desk.shipper.finish()
    into = tmp_path / "late" / "checkpoints"
    fetched = fetch_checkpoint(desk.run, "main", into)
    assert fetched is not None
    assert fetched.name == "run/step-5"
    assert (into / "run" / "step-5" / "deep" / odd).read_text() == "content"
    assert (into / "run" / "step-5" / "manifest.json").read_text() == "{}"
    assert [path.name for path in into.iterdir()] == ["run"]


def test_where_there_is_none_nothing_is_laid_out(desk: Desk, tmp_path: Path) -> None:
    assert newest(desk) is None
    assert fetch_checkpoint(desk.run, "main", tmp_path / "into") is None
    assert not (tmp_path / "into").exists()


def test_a_user_gets_one_that_is_not_known_to_be_complete_only_where_there_is_no_other(
    desk: Desk, tmp_path: Path
) -> None:
    desk.write("in-place", "1")
    desk.shipper.finish()
    found = fetch_checkpoint(desk.run, "main", tmp_path / "one")
    assert found is not None
    assert found.name == "in-place"
    desk.replace("whole", "1")
    desk.shipper.ship_complete(last=True)
    desk.write("later in place", "1")
    desk.shipper.finish()
    found = fetch_checkpoint(desk.run, "main", tmp_path / "two")
    assert found is not None
    assert found.name == "whole"


def test_a_damaged_one_is_passed_over_for_the_one_before(desk: Desk, store: Interrupted, tmp_path: Path) -> None:
    for epoch in "123":
        desk.replace(f"epoch-{epoch}", epoch)
        desk.shipper.ship_complete(last=True)
    store.put(f"{PREFIX}/000003/files/epoch-3", b"x")
    store.delete(f"{PREFIX}/000002/files/epoch-2")
    fetched = fetch_checkpoint(desk.run, "main", tmp_path / "into")
    assert fetched is not None
    assert fetched.name == "epoch-1"
    assert [path.name for path in (tmp_path / "into").iterdir()] == ["epoch-1"]
    store.delete(f"{PREFIX}/000001/files/epoch-1")
    with pytest.raises(StoreError, match=r"epoch-3.* is damaged"):
        fetch_checkpoint(desk.run, "main", tmp_path / "other")


def test_what_stands_there_is_not_overwritten_unless_the_user_wants_it(desk: Desk, tmp_path: Path) -> None:
    into = tmp_path / "into"
    for text in ("epoch 1", "epoch 2"):
        desk.replace("last.pt", text)
        desk.shipper.finish()
        fetch_checkpoint(desk.run, "main", into)
        assert (into / "last.pt").read_text() == "epoch 1"
    fetch_checkpoint(desk.run, "main", into, over=True)
    assert (into / "last.pt").read_text() == "epoch 2"


def test_a_place_that_is_no_folder_is_told(desk: Desk, tmp_path: Path) -> None:
    desk.replace("last.pt", "1")
    desk.shipper.finish()
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot"):
        fetch_checkpoint(desk.run, "main", tmp_path / "file")


# --- many files, and a store that is lost in the middle --------------------------------------------------


@pytest.fixture
def line() -> Line:
    return Line(parallel=4)


@pytest.fixture
def wide(line: Line, tmp_path: Path) -> Desk:
    """A node whose work dir is a bucket."""
    return Desk(line, tmp_path / "wide")


def test_the_files_of_one_go_side_by_side_and_the_list_when_all_are_there(wide: Desk, line: Line) -> None:
    line.meets["put_file"] = Meeting(4)
    wide.step("step-1", **{f"shard-{number}": "1" for number in range(8)})
    assert wide.shipper.ship_complete(last=True) == Shipped(8, 8)
    assert line.most == 4
    sent = [(kind, key.rpartition("/")[2]) for kind, key in line.asked if kind.startswith("put")]
    assert {kind for kind, _ in sent[:8]} == {"put_file"}
    assert sent[8:] == [("put", "manifest.json")]


def test_after_an_outage_only_what_did_not_arrive_is_sent(wide: Desk, line: Line) -> None:
    wide.step("step-1", **{f"shard-{number}": "1" for number in range(8)})
    line.refuses = lambda kind, key: StoreBusy("no connection") if key.endswith("shard-5") else None
    with pytest.raises(StoreBusy):
        wide.shipper.ship_complete(last=True)
    assert newest(wide) is None
    line.refuses = lambda kind, key: StoreBusy("no connection") if kind == "put" else None
    with pytest.raises(StoreBusy):
        wide.shipper.ship_complete(last=True)
    line.refuses = lambda kind, key: None
    assert newest(wide) is None
    line.reset()
    assert wide.shipper.ship_complete(last=True) == Shipped(8, 8)
    assert line.counts == {"put": 1}
    found = newest(wide)
    assert found is not None
    assert {entry.path for entry in found.manifest.files} == {f"step-1/shard-{number}" for number in range(8)}
    assert fetch_checkpoint(wide.run, "main", wide.base / "into") == found


def test_whatever_is_lost_no_list_names_a_file_that_is_not_there(wide: Desk, line: Line) -> None:
    chance = random.Random(7)
    for step in range(12):
        wide.step(f"step-{step}", model=f"{step}", optimizer="o" * step)
        wide.replace("last.pt", f"{step}")
        line.refuses = lambda kind, key: StoreBusy("no connection") if chance.random() < 0.3 else None
        with suppress(StoreBusy):
            wide.shipper.ship_complete(last=True)
        line.refuses = lambda kind, key: None
        for number, one in enumerate(kept(wide)):
            assert fetch_checkpoint(wide.run, "main", wide.base / f"{step}-{number}") is not None
            for entry in one.manifest.files:
                content = line.get(f"{PREFIX}/{one.number:06}/files/{entry.path}")
                assert hashlib.sha256(content).hexdigest() == entry.sha256
    wide.shipper.finish()
    assert {f"step-{step}" for step in range(12)} <= {one.name for one in kept(wide)}


def test_what_was_left_by_an_attempt_that_was_given_up_is_taken_away(wide: Desk, line: Line) -> None:
    wide.step("early", one="1", two="2")
    line.refuses = lambda kind, key: StoreBusy("no connection") if key.endswith("two") else None
    with pytest.raises(StoreBusy):
        wide.shipper.ship_complete(last=True)
    line.refuses = lambda kind, key: None
    shutil.rmtree(wide.folder / "early")
    wide.replace("late", "3")
    wide.shipper.finish()
    there = [entry.key.removeprefix(f"{PREFIX}/") for entry in line.list(PREFIX)]
    assert there == ["000001/files/late", "000001/manifest.json"]


def test_one_that_the_store_refuses_keeps_no_other_back(wide: Desk, line: Line) -> None:
    wide.replace("bad", "1")
    wide.replace("good", "2")
    line.refuses = lambda kind, key: StoreError("too long") if key.endswith("bad") else None
    with pytest.raises(StoreError, match="too long"):
        wide.shipper.finish()
    assert [one.name for one in kept(wide)] == ["good"]


def test_where_nothing_may_be_deleted_the_last_ones_come_home_all_the_same(wide: Desk, line: Line) -> None:
    line.refuses = lambda kind, key: AccessDenied("may not delete") if kind == "delete" else None
    for version in range(4):
        wide.replace("last.pt", f"{version}")
        wide.replace("other.pt", f"{version}")
        if version == 2:
            with pytest.raises(AccessDenied):
                wide.shipper.ship_complete(last=True)
        else:
            wide.shipper.finish()
    assert [one.name for one in kept(wide)].count("last.pt") == 4
    assert {one.complete.ordinal for one in kept(wide) if one.complete} == {1, 2, 3, 4}


def test_what_is_always_written_in_place_is_sent_seldom_where_each_request_is_billed(
    line: Line, tmp_path: Path
) -> None:
    desk = Desk(line, tmp_path)
    now = [0.0]
    desk.shipper = CheckpointShipper(line, PREFIX, desk.units, clock=lambda: now[0])
    sent = []
    for second in range(0, 100, 5):
        now[0] = second
        if second % 10 == 0:
            desk.write("database", f"{second}", at=1000.0 + second)
        if desk.shipper.ship().files:
            sent.append(second)
    assert sent == [5, 35, 65, 95]
    desk.write("database", "the end", at=2000.0)
    assert desk.shipper.finish().files == 1


def test_old_versions_go_in_two_requests_however_many_files_they_have(wide: Desk, line: Line) -> None:
    for version in range(3):
        shutil.rmtree(wide.folder / "last", ignore_errors=True)
        wide.step("last", **{f"shard-{number}": f"{version}" for number in range(20)})
        line.reset()
        wide.shipper.ship_complete(last=True)
    assert line.counts == {"put_file": 20, "put": 1, "delete": 1, "delete_all": 1}


# --- fetched by a user, and cut off ----------------------------------------------------------------------


def test_a_fetch_that_was_cut_off_goes_on_where_it_stopped(wide: Desk, line: Line, tmp_path: Path) -> None:
    wide.step("step-1", **{f"shard-{number}": "x" * 10 for number in range(8)})
    wide.shipper.finish()
    line.refuses = lambda kind, key: StoreBusy("no connection") if key.endswith("shard-5") else None
    with pytest.raises(StoreBusy):
        fetch_checkpoint(wide.run, "main", tmp_path / "into")
    assert not (tmp_path / "into" / "step-1").exists()
    there = line.fetched
    line.refuses = lambda kind, key: None
    told: list[tuple[int, int]] = []
    fetch_checkpoint(wide.run, "main", tmp_path / "into", progress=lambda done, total: told.append((done, total)))
    assert line.counts["get_file"] < 2 * 8
    assert told[0][0] > 0
    assert told[-1] == (80, 80)
    assert line.fetched > there
    assert [path.name for path in (tmp_path / "into").iterdir()] == ["step-1"]


def test_what_was_begun_of_an_older_one_is_taken_away(wide: Desk, line: Line, tmp_path: Path) -> None:
    into = tmp_path / "into"
    wide.step("step-1", model="1", optimizer="2")
    wide.shipper.finish()
    line.refuses = lambda kind, key: StoreBusy("no connection") if key.endswith("optimizer") else None
    with pytest.raises(StoreBusy):
        fetch_checkpoint(wide.run, "main", into)
    line.refuses = lambda kind, key: None
    wide.replace("step-2", "2")
    wide.shipper.finish()
    fetch_checkpoint(wide.run, "main", into)
    assert [path.name for path in into.iterdir()] == ["step-2"]
