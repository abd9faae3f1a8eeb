"""The outputs of many nodes as one tree, and on their way to a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from muster.errors import StoreBusy, StoreError
from muster.workdir.counting import CountingStore
from muster.workdir.files import sha256_of
from muster.workdir.folder import FolderStore
from muster.workdir.memory import MemoryStore
from muster.workdir.parts import Parts, Wanted
from muster.workdir.run import RunFolder
from muster.workdir.sync import Output, Shipper, fetch_outputs, outputs_tree
from tests.workdir.lines import Line, Meeting

pytestmark = pytest.mark.unit


@pytest.fixture
def run() -> RunFolder:
    return RunFolder(CountingStore(MemoryStore("outputs")), "run")


def give(run: RunFolder, tmp_path: Path, node: str, files: dict[str, str], finished: bool = True) -> None:
    folder = tmp_path / "nodes" / node
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    shipper = Shipper(run.store, run.at("outputs", node), folder)
    if finished:
        shipper.finish()
    else:
        shipper.ship()


def givers(run: RunFolder) -> dict[str, str]:
    return {path: output.node for path, output in outputs_tree(run).items()}


def test_a_run_without_outputs_has_an_empty_tree(run: RunFolder, tmp_path: Path) -> None:
    assert outputs_tree(run) == {}
    assert list(fetch_outputs(run, tmp_path / "to")) == []


def test_paths_of_one_node_keep_their_names(run: RunFolder, tmp_path: Path) -> None:
    give(run, tmp_path, "main", {"model.pt": "123", "plots/a b.png": ""})
    give(run, tmp_path, "worker-1", {"logs/1.txt": "1"})
    counting = run.store
    assert isinstance(counting, CountingStore)
    counting.reset()
    assert outputs_tree(run) == {
        "model.pt": Output("main", 3, "run/outputs/main/model.pt"),
        "plots/a b.png": Output("main", 0, "run/outputs/main/plots/a b.png"),
        "logs/1.txt": Output("worker-1", 1, "run/outputs/worker-1/logs/1.txt"),
    }
    assert counting.counts == {"list": 1}


def test_the_same_file_from_all_stands_there_once(run: RunFolder, tmp_path: Path) -> None:
    for node in ("worker-2", "main", "worker-1"):
        give(run, tmp_path, node, {"config.json": "{}"})
    assert givers(run) == {"config.json": "main"}


def test_different_files_of_one_name_stand_below_their_nodes(run: RunFolder, tmp_path: Path) -> None:
    give(run, tmp_path, "main", {"log.txt": "m"})
    give(run, tmp_path, "worker-1", {"log.txt": "w"})
    give(run, tmp_path, "worker-2", {"log.txt": "m"})
    assert givers(run) == {"log.txt": "main", "worker-1/log.txt": "worker-1"}


def test_without_main_none_of_several_keeps_the_name(run: RunFolder, tmp_path: Path) -> None:
    give(run, tmp_path, "worker-1", {"log.txt": "1"})
    give(run, tmp_path, "worker-10", {"log.txt": "2"})
    give(run, tmp_path, "worker-2", {"log.txt": "1"})
    assert givers(run) == {"worker-1/log.txt": "worker-1", "worker-10/log.txt": "worker-10"}


def test_what_nobody_vouches_for_counts_as_different(run: RunFolder, tmp_path: Path) -> None:
    give(run, tmp_path, "main", {"log.txt": "1"})
    give(run, tmp_path, "worker-1", {"log.txt": "1"}, finished=False)
    assert givers(run) == {"log.txt": "main", "worker-1/log.txt": "worker-1"}


def test_no_file_hides_another(run: RunFolder, tmp_path: Path) -> None:
    give(run, tmp_path, "main", {"a": "file", "worker-1/log": "mine", "log": "m", "worker-1/x/y": ""})
    give(run, tmp_path, "worker-1", {"a/b": "folder", "log": "w", "x": "file"})
    tree = outputs_tree(run)
    assert {path: output.node for path, output in tree.items()} == {
        "a": "main",
        "log": "main",
        "worker-1/log": "main",
        "worker-1/x/y": "main",
        "worker-1/a/b": "worker-1",
        "worker-1/worker-1/log": "worker-1",
        "x": "worker-1",
    }
    assert len(list(fetch_outputs(run, tmp_path / "to"))) == 7


def test_a_tree_is_fetched_whole_and_a_second_time_for_nothing(run: RunFolder, tmp_path: Path) -> None:
    give(run, tmp_path, "main", {"model.pt": "123", "sub/empty": ""})
    give(run, tmp_path, "worker-1", {"model.pt": "45"})
    to = tmp_path / "to"
    assert list(fetch_outputs(run, to)) == [("model.pt", 3), ("sub/empty", 0), ("worker-1/model.pt", 2)]
    assert {str(path.relative_to(to)): path.read_text() for path in to.rglob("*") if path.is_file()} == {
        "model.pt": "123",
        "sub/empty": "",
        "worker-1/model.pt": "45",
    }
    (to / "model.pt").write_text("xxx")
    counting = run.store
    assert isinstance(counting, CountingStore)
    counting.reset()
    assert sorted(fetch_outputs(run, to)) == [("model.pt", 3), ("sub/empty", 0), ("worker-1/model.pt", 0)]
    assert counting.counts == {"list": 1, "get": 2, "get_file": 1}
    assert (to / "model.pt").read_text() == "123"


def test_while_a_run_goes_on_its_files_are_fetched_as_they_are(run: RunFolder, tmp_path: Path) -> None:
    give(run, tmp_path, "main", {"log": "1"}, finished=False)
    assert list(fetch_outputs(run, tmp_path / "to")) == list(fetch_outputs(run, tmp_path / "to")) == [("log", 1)]


def test_nothing_is_written_through_a_link_that_leads_out(run: RunFolder, tmp_path: Path) -> None:
    give(run, tmp_path, "main", {"sub/model.pt": "123"})
    to, elsewhere = tmp_path / "to", tmp_path / "elsewhere"
    to.mkdir()
    elsewhere.mkdir()
    (to / "sub").symlink_to(elsewhere)
    with pytest.raises(StoreError, match="leads out"):
        list(fetch_outputs(run, to))
    assert list(elsewhere.iterdir()) == []


def test_a_link_in_place_of_a_file_is_replaced_not_followed(run: RunFolder, tmp_path: Path) -> None:
    give(run, tmp_path, "main", {"model.pt": "123"})
    to, precious = tmp_path / "to", tmp_path / "precious"
    to.mkdir()
    precious.write_text("123")
    (to / "model.pt").symlink_to(precious)
    assert list(fetch_outputs(run, to)) == [("model.pt", 3)]
    assert not (to / "model.pt").is_symlink()


def test_a_file_that_was_damaged_in_the_work_dir_is_told(run: RunFolder, tmp_path: Path) -> None:
    give(run, tmp_path, "main", {"model.pt": "123"})
    run.store.put(run.at("outputs/main/model.pt"), b"124")
    with pytest.raises(StoreError, match="not what was brought there"):
        list(fetch_outputs(run, tmp_path / "to"))
    assert list((tmp_path / "to").iterdir()) == []


def test_a_damaged_list_only_costs_its_use(run: RunFolder, tmp_path: Path) -> None:
    give(run, tmp_path, "main", {"model.pt": "123"})
    for damaged in (b"", b"[]", b'{"version": 1}', b'{"version":1,"files":[{"path":"../x"}]}'):
        run.store.put(run.at("outputs/main.manifest.json"), damaged)
        assert list(fetch_outputs(run, tmp_path / "to")) == [("model.pt", 3)]


def test_a_folder_store_serves_as_well(tmp_path: Path) -> None:
    run = RunFolder(FolderStore(tmp_path / "work dir"), "run")
    give(run, tmp_path, "main", {"a": "1", "b/c": "2"})
    assert sorted(fetch_outputs(run, tmp_path / "to")) == [("a", 1), ("b/c", 1)]


def test_the_whole_machine_may_be_the_place(run: RunFolder, tmp_path: Path) -> None:
    inside = str(tmp_path.relative_to("/"))
    give(run, tmp_path, "main", {f"{inside}/fetched": "1"})
    assert list(fetch_outputs(run, Path("/"))) == [(f"{inside}/fetched", 1)]
    assert (tmp_path / "fetched").read_text() == "1"


# --- many at once, and cut off in the middle -------------------------------------------------------------


@pytest.fixture
def line() -> Line:
    return Line(parallel=4)


@pytest.fixture
def wide(line: Line) -> RunFolder:
    return RunFolder(line, "run")


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of more than 1000 bytes come in parts of 100."""
    monkeypatch.setattr("muster.workdir.downloading.RESUMED", 1000)
    monkeypatch.setattr("muster.workdir.parts.PART", 100)


def test_files_are_fetched_side_by_side(wide: RunFolder, line: Line, tmp_path: Path) -> None:
    give(wide, tmp_path, "main", {f"{number}": "x" for number in range(8)})
    line.meets["get_file"] = Meeting(4)
    line.most = 0
    assert sorted(fetch_outputs(wide, tmp_path / "to")) == [(f"{number}", 1) for number in range(8)]
    assert line.most == 4


def test_one_that_cannot_be_had_keeps_no_other_back(wide: RunFolder, line: Line, tmp_path: Path) -> None:
    give(wide, tmp_path, "main", {"a": "1", "bad": "2", "c": "3"})
    line.refuses = lambda kind, key: StoreError("denied") if kind == "get_file" and key.endswith("bad") else None
    with pytest.raises(StoreError, match="denied"):
        list(fetch_outputs(wide, tmp_path / "to"))
    assert sorted(path.name for path in (tmp_path / "to").iterdir()) == ["a", "c"]


@pytest.mark.usefixtures("small_parts")
def test_of_a_large_file_that_was_cut_off_only_the_rest_is_fetched(wide: RunFolder, line: Line, tmp_path: Path) -> None:
    give(wide, tmp_path, "main", {"model.pt": "".join(f"{number:04}" for number in range(1000)), "a.txt": "1"})
    to = tmp_path / "to"
    cut_off(wide, line, to, after=17)
    assert not (to / "model.pt").exists()
    line.fetched = 0
    told: list[tuple[int, int]] = []
    fetched = dict(fetch_outputs(wide, to, lambda done, total: told.append((done, total))))
    assert fetched == {"model.pt": 4000 - 1700, "a.txt": 0}
    assert line.fetched < 4000 - 1700 + 400  # and the list of the files
    assert told[0] == (1701, 4001)
    assert told[-1] == (4001, 4001)
    assert sorted(path.name for path in to.iterdir()) == ["a.txt", "model.pt"]
    assert (to / "model.pt").read_text() == (tmp_path / "nodes/main/model.pt").read_text()


@pytest.mark.usefixtures("small_parts")
def test_parts_of_another_version_are_of_no_use(wide: RunFolder, line: Line, tmp_path: Path) -> None:
    for finished in (True, False):
        to = tmp_path / f"to {finished}"
        give(wide, tmp_path, "main", {"model.pt": "1" * 4000}, finished)
        cut_off(wide, line, to, after=17)
        give(wide, tmp_path, "main", {"model.pt": "2" * 4000}, finished)
        assert dict(fetch_outputs(wide, to)) == {"model.pt": 4000}
        assert (to / "model.pt").read_text() == "2" * 4000


@pytest.mark.usefixtures("small_parts")
def test_one_that_is_overwritten_while_it_comes_in_parts_comes_whole(
    wide: RunFolder, line: Line, tmp_path: Path
) -> None:
    give(wide, tmp_path, "main", {"model.pt": "1" * 4000}, finished=False)
    asked = []
    for content in ("2" * 4000, "3" * 1500):

        def overwrite(kind: str, key: str, content: str = content) -> None:
            asked.append(kind)
            if asked.count("get_range") == 20:
                line.refuses = lambda kind, key: None
                line.put(wide.at("outputs/main/model.pt"), content.encode())

        line.refuses = overwrite
        done = [0]
        assert dict(fetch_outputs(wide, tmp_path / "to", lambda so_far, _, done=done: done.append(so_far)))  # type: ignore[misc]
        assert (tmp_path / "to" / "model.pt").read_text() == content
        assert done[-1] == 4000
        asked.clear()
    assert [path.name for path in (tmp_path / "to").iterdir()] == ["model.pt"]


@pytest.mark.usefixtures("small_parts")
def test_a_large_file_that_is_damaged_leaves_nothing_behind(wide: RunFolder, line: Line, tmp_path: Path) -> None:
    give(wide, tmp_path, "main", {"model.pt": "1" * 4000})
    line.put(wide.at("outputs/main/model.pt"), b"2" * 4000)
    with pytest.raises(StoreError, match="not what was brought there"):
        list(fetch_outputs(wide, tmp_path / "to"))
    assert list((tmp_path / "to").iterdir()) == []


@pytest.mark.usefixtures("small_parts")
def test_what_one_who_was_killed_at_the_very_end_left_is_taken_away(wide: RunFolder, tmp_path: Path) -> None:
    give(wide, tmp_path, "main", {"model.pt": "1" * 4000})
    to = tmp_path / "to"
    list(fetch_outputs(wide, to))
    wanted = Wanted(wide.at("outputs/main/model.pt"), 4000, to / "model.pt", sha256_of(to / "model.pt"))
    Parts(wanted)._begin()
    Parts(wanted).content.unlink()
    assert len(list(to.iterdir())) == 2
    assert dict(fetch_outputs(wide, to)) == {"model.pt": 0}
    assert [path.name for path in to.iterdir()] == ["model.pt"]


def test_two_at_once_into_one_folder_is_one_too_many(wide: RunFolder, tmp_path: Path) -> None:
    give(wide, tmp_path, "main", {"a": "1", "b": "2"})
    to = tmp_path / "to"
    first = fetch_outputs(wide, to)
    next(first)
    with pytest.raises(StoreError, match="another `muster outputs`"):
        list(fetch_outputs(wide, to))
    first.close()  # type: ignore[attr-defined]
    assert len(dict(fetch_outputs(wide, to))) == 2


def cut_off(run: RunFolder, line: Line, to: Path, after: int) -> None:
    """A fetch in parts that ends when so many have come: one at a time, so that none is under way."""
    parts = [0]

    def count(kind: str, _key: str) -> StoreError | None:
        parts[0] += kind == "get_range"
        return StoreBusy("no connection") if parts[0] > after else None

    line.refuses = count
    before, line._capabilities = line._capabilities, replace(line._capabilities, parallel=1)
    with pytest.raises(StoreBusy):
        list(fetch_outputs(run, to))
    line.refuses, line._capabilities = (lambda kind, key: None), before
