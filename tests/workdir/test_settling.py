"""A checkpoint folder made ready for the next start: nothing half-written, and the newest complete one of the run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.errors import StoreBusy, StoreError
from muster.workdir.counting import CountingStore
from muster.workdir.memory import MemoryStore
from muster.workdir.records import Member
from muster.workdir.run import RunFolder
from muster.workdir.units import Heard
from tests.workdir.desk import Clock, Desk
from tests.workdir.lines import Line, Meeting

pytestmark = pytest.mark.unit

Desks = Callable[..., Desk]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(MemoryStore("settling"))


@pytest.fixture
def desks(store: CountingStore, clock: Clock, tmp_path: Path) -> Desks:
    """A node's folder, by the node's name and how often it lost its machine."""

    def make(node: str = "main", machine: int = 1, own: bool = True) -> Desk:
        desk = Desk(store, tmp_path / f"{node}-{machine}", node, own)
        desk.now = clock
        return desk

    return make


def members(store: CountingStore, generation: int, *nodes: str) -> None:
    told = [Member(node, "worker", "127.0.0.1", 1, place) for place, node in enumerate(nodes)]
    RunFolder(store, "run").write_members(generation, told)


# --- the first start -------------------------------------------------------------------------------------


def test_a_first_start_costs_one_list_request_and_reads_no_file(
    desks: Desks, store: CountingStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.workdir.checkpoint_shipper.sha256_of", lambda _: pytest.fail("a file was read"))
    (tmp_path / "main-1" / "code" / "checkpoints").mkdir(parents=True)
    (tmp_path / "main-1" / "code" / "checkpoints" / "pretrained.pt").write_text("given")
    desk = desks()
    store.reset()
    assert desk.settle(1) == []
    assert store.counts == {"list": 1}
    assert desk.tree() == {"pretrained.pt": "given"}


# --- what is half-written --------------------------------------------------------------------------------


def test_what_is_not_complete_is_moved_out_and_kept_beside(desks: Desks) -> None:
    desk = desks()
    desk.replace("epoch-1.pt", "1")
    desk.write("epoch-2.pt", "half")
    desk.write("step-3/model", "half")
    desk.write("epoch-4.pt.tmp", "half")
    (desk.folder / "empty").mkdir()
    told = desk.settle()
    assert desk.tree() == {"epoch-1.pt": "1"}
    assert [path.name for path in desk.folder.iterdir()] == ["epoch-1.pt"]
    assert desk.aside() == {"1/epoch-2.pt": "half", "1/epoch-4.pt.tmp": "half", "1/step-3/model": "half"}
    assert told == ["empty and 3 more moved out of the checkpoint folder: it may be half-written"]
    desk.write("epoch-2.pt", "half again")
    desk.settle()
    assert desk.aside()["2/epoch-2.pt"] == "half again"


def test_a_node_that_starts_again_in_its_folder_moves_out_what_its_former_self_left(desks: Desks) -> None:
    desk = desks()
    desk.replace("epoch-1.pt", "1")
    desk.write("epoch-2.pt", "half")
    desk.units.notice()
    again = desks()
    again.settle()
    assert again.tree() == {"epoch-1.pt": "1"}


def test_what_came_with_the_code_stays_unless_it_was_written_to(desks: Desks, tmp_path: Path) -> None:
    given = tmp_path / "main-1" / "code" / "checkpoints" / "pretrained"
    given.mkdir(parents=True)
    (given / "a").write_text("given")
    (given / "b").write_text("given")
    (given.parent / "empty").mkdir()
    desk = desks()
    desk.write("pretrained/b", "changed")
    desk.write("pretrained/c", "half")
    desk.settle()
    assert desk.tree() == {"pretrained/a": "given"}
    assert (desk.folder / "empty").is_dir()
    again = desks()
    again.settle()
    assert again.tree() == {"pretrained/a": "given"}


def test_leftovers_inside_a_complete_folder_go_and_it_stays(desks: Desks) -> None:
    desk = desks()
    desk.step("run", config="1")
    (desk.folder / "run" / "empty").mkdir()
    desk.write("run/last.pt.tmp", "half")
    desk.write("run/.draft/x", "half")
    desk.settle()
    assert desk.tree() == {"run/config": "1"}
    assert sorted(path.name for path in (desk.folder / "run").iterdir()) == ["config", "empty"]


def test_a_link_stays_as_long_as_it_leads_to_something(desks: Desks, tmp_path: Path) -> None:
    desk = desks()
    desk.replace("epoch-1.ckpt", "1")
    desk.write("epoch-2.ckpt", "half")
    (tmp_path / "elsewhere").write_text("data")
    for name, target in (("good", "epoch-1.ckpt"), ("bad", "epoch-2.ckpt"), ("out", str(tmp_path / "elsewhere"))):
        (desk.folder / name).symlink_to(target)
    desk.settle()
    assert sorted(path.name for path in desk.folder.iterdir()) == ["epoch-1.ckpt", "good", "out"]


def test_a_part_of_a_folder_that_was_written_in_place_goes_with_it(desks: Desks, clock: Clock) -> None:
    desk = desks()
    desk.write("state-1/model", "1")
    desk.name("state-1")
    clock.now += 100
    desk.replace("state-2/model.safetensors", "2")
    desk.shipper.ship_complete(last=True)
    desk.write("state-2/optimizer.bin", "half")
    desk.settle()
    assert desk.tree() == {"state-1/model": "1"}
    late = desks("worker-1")
    late.settle()
    assert late.tree() == {"state-1/model": "1"}


def test_in_a_folder_that_is_not_the_nodes_own_only_what_was_heard_of_is_moved(desks: Desks) -> None:
    desk = desks(own=False)
    (desk.folder / "theirs").mkdir()
    (desk.folder / "theirs" / "model").write_text("written on another machine")
    desk.write("ours", "half")
    desk.write("mine/model", "half")
    desk.settle()
    assert desk.tree() == {"theirs/model": "written on another machine"}
    desk.write("ours", "half")
    desk.units.notice()
    again = desks(own=False)
    again.settle()
    assert again.tree() == {"theirs/model": "written on another machine"}


# --- what is laid out ------------------------------------------------------------------------------------


def test_a_late_node_finds_the_newest_complete_one_and_does_not_send_it_again(
    desks: Desks, clock: Clock, store: CountingStore
) -> None:
    main = desks()
    for epoch in "123":
        main.replace(f"epoch-{epoch}.pt", epoch)
        main.units.notice()
        clock.now += 100
    main.write("epoch-4.pt", "half")
    main.shipper.finish()
    late = desks("worker-1")
    assert late.settle() == ["checkpoint epoch-3.pt of main laid out"]
    assert late.tree() == {"epoch-3.pt": "3"}
    store.reset()
    late.shipper.finish()
    assert "put_file" not in store.counts
    assert late.settle(3) == []
    assert late.tree() == {"epoch-3.pt": "3"}
    again = desks("worker-1")
    assert again.settle(4) == []
    assert again.tree() == {"epoch-3.pt": "3"}


def test_what_was_fetched_is_not_read_again_to_know_that_it_is_there(
    desks: Desks, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = desks()
    main.replace("last.pt", "1")
    main.settle()
    late = desks("worker-1")
    late.settle()
    for desk in (main, late):
        monkeypatch.setattr("muster.workdir.checkpoint_shipper.sha256_of", lambda _: pytest.fail("a file was read"))
        assert desk.settle(3) == []


def test_what_is_complete_is_brought_home_first_so_that_others_can_have_it(desks: Desks) -> None:
    main = desks()
    main.replace("last.pt", "1")
    main.settle()
    late = desks("worker-1")
    late.settle()
    assert late.tree() == {"last.pt": "1"}


def test_the_newest_file_by_its_time_is_the_newest_checkpoint(desks: Desks, clock: Clock) -> None:
    main = desks()
    main.replace("checkpoint-b", "1")
    main.units.notice()
    clock.now += 3
    main.replace("checkpoint-a", "2")
    main.settle()
    late = desks("worker-1")
    late.settle()
    found = sorted(late.folder.iterdir(), key=lambda path: path.stat().st_mtime)
    assert [path.name for path in found] == ["checkpoint-b", "checkpoint-a"]


def test_a_sharded_checkpoint_is_laid_out_with_the_files_of_all_nodes(
    desks: Desks, clock: Clock, store: CountingStore
) -> None:
    nodes = {node: desks(node) for node in ("main", "worker-1")}
    for node, desk in nodes.items():
        desk.step("step-1", **{f"shard-{node}": node})
        desk.shipper.ship_complete(last=True)
    whole = {"step-1/shard-main": "main", "step-1/shard-worker-1": "worker-1"}
    fetched = "checkpoint step-1 of main, worker-1 laid out"
    store.reset()
    assert nodes["main"].settle() == [fetched]
    assert store.counts["get_file"] == 1  # its own is there
    assert nodes["main"].tree() == whole
    assert nodes["main"].settle(3) == []
    for machine in (1, 2):
        desk = desks("worker-1", machine)
        assert desk.settle() == [fetched]
        assert desk.tree() == whole


def test_a_checkpoint_that_lacks_a_part_is_used_by_nobody(desks: Desks, clock: Clock, store: CountingStore) -> None:
    members(store, 1, "main", "worker-1")
    nodes = {node: desks(node) for node in ("main", "worker-1")}
    for node, desk in nodes.items():
        desk.step("step-1", **{node: "1"})
        desk.units.notice()
    clock.now += 100
    nodes["main"].step("step-2", main="2")
    nodes["worker-1"].write("step-2/worker-1", "half")
    for desk in nodes.values():
        desk.shipper.ship_complete(last=True)
    for desk in nodes.values():
        desk.settle()
        assert desk.tree() == {"step-1/main": "1", "step-1/worker-1": "1"}
    assert nodes["main"].aside() == {"1/step-2/main": "2"}


def test_versions_of_an_overwritten_sharded_checkpoint_are_never_mixed(desks: Desks, clock: Clock) -> None:
    nodes = {node: desks(node) for node in ("main", "worker-1")}
    for version in "12":
        clock.now += 100
        for node, desk in nodes.items():
            desk.write(f"last/{node}", version)
            if (node, version) != ("worker-1", "2"):
                desk.name("last")
            desk.shipper.ship_complete(last=True)
    for desk in nodes.values():
        desk.settle()
        assert desk.tree() == {"last/main": "1", "last/worker-1": "1"}


def test_each_node_keeps_its_own_where_all_wrote_the_same_name(desks: Desks) -> None:
    nodes = {node: desks(node) for node in ("main", "worker-1")}
    for node, desk in nodes.items():
        desk.replace("last.pt", node)
        desk.shipper.ship_complete(last=True)
    for node, desk in nodes.items():
        assert desk.settle() == []
        assert desk.tree() == {"last.pt": node}
    late = desks("worker-2")
    late.settle()
    assert late.tree() == {"last.pt": "main"}


def test_an_older_version_makes_place_for_the_newer_one_of_another_node(desks: Desks, clock: Clock) -> None:
    for kind in ("file", "folder"):
        name = f"last-{kind}"
        main, worker = desks(), desks("worker-1")
        for desk, content in ((worker, "old"), (main, "new")):
            clock.now += 100
            desk.units.next_generation(1 if desk is worker else 2)
            desk.write(f"{name}/{content}" if kind == "folder" else name, content)
            desk.name(name)
            desk.shipper.ship_complete(last=True)
        worker.settle(3)
        assert worker.tree()[f"{name}/new" if kind == "folder" else name] == "new"
        assert f"{name}/old" not in worker.tree()


def test_what_came_with_the_code_stays_when_another_version_of_its_folder_is_laid_out(
    desks: Desks, tmp_path: Path
) -> None:
    main = desks()
    main.write("run/last.pt", "1")
    main.name("run")
    main.settle()
    given = tmp_path / "worker-1-1" / "code" / "checkpoints" / "run"
    given.mkdir(parents=True)
    (given / "pretrained.pt").write_text("given")
    late = desks("worker-1")
    late.settle()
    assert late.tree() == {"run/last.pt": "1", "run/pretrained.pt": "given"}
    assert late.settle(3) == []


def test_what_is_complete_by_itself_stays_inside_an_older_folder_that_is_laid_out(desks: Desks, clock: Clock) -> None:
    main = desks()
    main.write("run/config", "1")
    main.name("run")
    main.settle(1)
    clock.now += 2
    worker = desks("worker-1")
    worker.replace("run/epoch-1.pt", "1")
    worker.settle()
    assert worker.tree() == {"run/config": "1", "run/epoch-1.pt": "1"}


@pytest.mark.parametrize("wrong", ["damaged", "vanished"])
def test_one_that_cannot_be_had_is_passed_over_for_the_one_before(
    desks: Desks, clock: Clock, store: CountingStore, wrong: str
) -> None:
    main = desks()
    for epoch in "123":
        clock.now += 100
        main.step(f"epoch-{epoch}", model=epoch, optimizer=epoch)
        main.units.notice()
    main.shipper.ship_complete(last=True)
    key = "run/checkpoints/main/000003/files/epoch-3/optimizer"
    store.delete(key) if wrong == "vanished" else store.put(key, b"x")
    late = desks("worker-1")
    told = late.settle()
    assert late.tree() == {"epoch-2/model": "2", "epoch-2/optimizer": "2"}
    assert told[0].startswith("checkpoint epoch-3 is passed over: ")
    assert [path.name for path in late.folder.iterdir()] == ["epoch-2"]


def test_of_files_written_together_all_are_laid_out_or_none(desks: Desks, clock: Clock, store: CountingStore) -> None:
    main = desks()
    for number in "12":
        clock.now += 100
        main.replace(f"ckpt-{number}.data", number)
        main.write(f"ckpt-{number}.index", number)
        main.replace("checkpoint", f'model_checkpoint_path: "ckpt-{number}"')
        main.shipper.ship_complete(last=True)
    whole = {f"ckpt-{number}{end}": number for number in "2" for end in (".data", ".index")}
    late = desks("worker-1")
    late.settle()
    assert late.tree() == {**whole, "checkpoint": 'model_checkpoint_path: "ckpt-2"'}
    data = next(entry.key for entry in store.list() if entry.key.endswith("files/ckpt-2.data"))
    store.put(data, b"x")
    later = desks("worker-2")
    later.settle()
    assert later.tree()["checkpoint"] == 'model_checkpoint_path: "ckpt-1"'
    assert "ckpt-2.index" not in later.tree()


def test_if_all_are_damaged_the_start_is_from_nothing_and_told(desks: Desks, store: CountingStore) -> None:
    main = desks()
    main.replace("last.pt", "1")
    main.shipper.ship_complete(last=True)
    store.put("run/checkpoints/main/000001/files/last.pt", b"x")
    late = desks("worker-1")
    assert len(late.settle()) == 1
    assert late.tree() == {}


def test_if_the_work_dir_cannot_be_read_the_start_is_not_from_nothing(
    desks: Desks, store: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = desks()
    main.replace("last.pt", "1")
    main.shipper.ship_complete(last=True)

    def refuse(key: str, path: Path) -> None:
        raise StoreError("no way to the work dir")

    monkeypatch.setattr(store, "get_file", refuse)
    with pytest.raises(StoreError, match="no way"):
        desks("worker-1").settle()


def test_one_that_makes_place_for_a_newer_version_meanwhile_is_chosen_anew(
    desks: Desks, clock: Clock, store: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = desks()
    main.replace("last.pt", "1")
    main.shipper.ship_complete(last=True)
    fetch = store.get_file

    def overtaken(key: str, path: Path) -> None:
        monkeypatch.undo()
        for version in "23":
            main.replace("last.pt", version)
            main.shipper.ship_complete(last=True)
        fetch(key, path)

    monkeypatch.setattr(store, "get_file", overtaken)
    late = desks("worker-1")
    late.settle()
    assert late.tree() == {"last.pt": "3"}


def test_old_checkpoints_are_looked_at_when_no_new_one_will_do(
    desks: Desks, clock: Clock, store: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.workdir.choosing._LATEST", 2)
    main = desks()
    for epoch in range(5):
        clock.now += 100
        main.replace(f"epoch-{epoch}", str(epoch))
        main.shipper.ship_complete(last=True)
    store.reset()
    late = desks("worker-1")
    late.settle()
    assert late.tree() == {"epoch-4": "4"}
    assert store.counts["get"] == 2
    for epoch in range(1, 5):
        store.put(f"run/checkpoints/main/00000{epoch + 1}/files/epoch-{epoch}", b"x")
    later = desks("worker-2")
    later.settle()
    assert later.tree() == {"epoch-0": "0"}


def test_what_a_killed_settling_left_is_taken_away_by_the_next(desks: Desks) -> None:
    desk = desks()
    (desk.folder / ".muster-main-0123456789abcdef" / "0").mkdir(parents=True)
    (desk.folder / ".muster-main-0123456789abcdef" / "0" / "last.pt").write_text("half")
    (desk.folder / ".muster-main-2-0123456789abcdef").mkdir()  # of another node in the same folder
    desk.settle()
    assert [path.name for path in desk.folder.iterdir()] == [".muster-main-2-0123456789abcdef"]
    assert not (desk.base / "unfinished").exists()


def test_a_folder_that_cannot_be_made_ready_is_told(desks: Desks, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = desks()
    desk.write("half.pt")

    def refuse(self: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(StoreError, match=r"cannot be made ready for a start: .*Permission denied"):
        desk.settle()


def test_two_nodes_that_settle_in_one_folder_do_not_stumble_over_each_other(
    desks: Desks, store: CountingStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = desks("worker-9")
    main.step("step-1", model="1")
    main.settle()
    one, other = Desk(store, tmp_path / "shared", "main", own=False), Desk(store, tmp_path / "shared", "w", own=False)
    real = Path.replace

    def overtaken(self: Path, target: Path) -> Path:
        monkeypatch.undo()
        other.settle()
        one.heard.append(Heard("step-1", renamed=True))
        return real(self, target)

    monkeypatch.setattr(Path, "replace", overtaken)
    one.settle()
    assert one.tree() == {"step-1/model": "1"}


def test_names_of_any_bytes_come_back(desks: Desks) -> None:
    odd = os.fsdecode(b"caf\xe9 #\n")
    main = desks()
    main.write(f"deep/{odd}/a", "1")
    main.name(f"deep/{odd}")
    main.settle()
    late = desks("worker-1")
    late.settle()
    assert late.tree() == {f"deep/{odd}/a": "1"}


def test_old_manifests_are_not_laid_out(desks: Desks, store: CountingStore) -> None:
    entry = {"path": "old", "size": 1, "sha256": "x", "executable": False}
    store.put("run/checkpoints/main/000001/files/old", b"1")
    store.put("run/checkpoints/main/000001/manifest.json", json.dumps({"version": 1, "files": [entry]}).encode())
    late = desks("worker-1")
    assert late.settle() == []
    assert late.tree() == {}


def test_the_files_of_one_come_side_by_side_and_one_that_is_lost_leaves_nothing(clock: Clock, tmp_path: Path) -> None:
    line = Line(parallel=4)
    writer = Desk(line, tmp_path / "first")
    writer.now = clock
    writer.step("step-1", **{f"shard-{number}": "1" for number in range(8)})
    writer.shipper.finish()
    fresh = Desk(line, tmp_path / "second")
    line.refuses = lambda kind, key: StoreBusy("no connection") if key.endswith("shard-6") else None
    with pytest.raises(StoreBusy):
        fresh.settle()
    assert list(fresh.folder.iterdir()) == []
    line.refuses = lambda kind, key: None
    line.meets["get_file"] = Meeting(4)
    line.most = 0
    fresh.settle()
    assert len(fresh.tree()) == 8
    assert line.most == 4
