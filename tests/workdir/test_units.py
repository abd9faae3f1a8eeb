"""What counts as complete: what was renamed into place or named, as long as it is as it was then."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.workdir.memory import MemoryStore
from muster.workdir.units import Heard, Units, is_under_way, pattern
from muster.workdir.walking import Stamp
from tests.workdir.desk import Desk

pytestmark = pytest.mark.unit


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(MemoryStore("units"), tmp_path)


def complete(desk: Desk) -> list[str]:
    return sorted(desk.units.state().units)


def test_a_file_is_complete_when_it_is_renamed_and_not_when_it_is_written_in_place(desk: Desk) -> None:
    desk.write("in-place.pt")
    desk.replace("epoch-1.pt", "1")
    assert complete(desk) == ["epoch-1.pt"]


@pytest.mark.parametrize("change", ["written to", "replaced by one in place", "touched", "gone"])
def test_what_changes_afterwards_is_no_longer_complete(desk: Desk, change: str) -> None:
    desk.replace("last.pt", "1")
    assert complete(desk) == ["last.pt"]
    if change == "written to":
        desk.write("last.pt", "22")
    elif change == "touched":
        os.utime(desk.folder / "last.pt", ns=(5, 5))
    else:
        (desk.folder / "last.pt").unlink()
        if change != "gone":
            desk.write("last.pt", "1")
    assert complete(desk) == []
    desk.replace("last.pt", "3")
    assert complete(desk) == ["last.pt"]


def test_a_write_is_heard_of_though_neither_size_nor_time_tells(desk: Desk) -> None:
    desk.replace("last.pt", "1")
    seen = (desk.folder / "last.pt").stat()
    desk.write("last.pt", "2")
    os.utime(desk.folder / "last.pt", ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert complete(desk) == []
    assert complete(desk.again()) == []


def test_one_that_is_renamed_and_written_to_before_anybody_looks_is_not_complete(desk: Desk) -> None:
    desk.replace("last.pt", "1")
    desk.write("last.pt", "2")
    assert complete(desk) == []


def test_a_folder_is_complete_with_all_that_is_in_it(desk: Desk) -> None:
    desk.step("step-5", model="1", optimizer="2")
    assert complete(desk) == ["step-5"]
    assert sorted(desk.units.state().kept) == ["step-5/model", "step-5/optimizer"]
    desk.write("step-5/rng", "3")
    assert complete(desk) == []
    (desk.folder / "step-5" / "rng").unlink()
    assert complete(desk) == ["step-5"]
    (desk.folder / "step-5" / "model").unlink()
    assert complete(desk) == []


def test_an_empty_folder_is_nothing(desk: Desk) -> None:
    (desk.folder / "x.tmp").mkdir()
    desk.move("x.tmp", "x")
    assert complete(desk) == []


def test_what_is_renamed_into_a_complete_folder_takes_nothing_from_it(desk: Desk) -> None:
    desk.step("run", config="1", last="1")
    desk.replace("run/epoch-1.pt", "1")
    desk.replace("run/last", "2")
    assert complete(desk) == ["run", "run/epoch-1.pt", "run/last"]
    desk.write("run/last", "3")
    assert complete(desk) == []
    desk.replace("run/last", "4")
    assert complete(desk) == ["run", "run/epoch-1.pt", "run/last"]


def test_work_under_way_in_a_complete_folder_takes_nothing_from_it_but_is_no_part(desk: Desk) -> None:
    desk.step("run", config="1")
    desk.write("run/last.pt.tmp", "half")
    desk.write("run/.draft/x", "half")
    state = desk.units.state()
    assert list(state.units) == ["run"]
    assert state.kept == {"run/config"}


def test_a_file_renamed_into_a_folder_that_is_written_in_place_is_only_a_part_of_it(desk: Desk) -> None:
    desk.replace("state-1/model.safetensors", "1")
    assert complete(desk) == ["state-1/model.safetensors"]
    desk.write("state-1/optimizer.bin", "half")
    state = desk.units.state()
    assert (list(state.units), list(state.parts)) == ([], ["state-1/model.safetensors"])
    desk.name("state-1")
    assert complete(desk) == ["state-1"]


def test_a_log_beside_takes_nothing_from_what_the_script_named_or_from_a_renamed_folder(desk: Desk) -> None:
    desk.replace("run/epoch-1.pt", "1")
    desk.step("run/step-1", model="1")
    desk.write("run/log.txt", "line")
    assert complete(desk) == ["run/step-1"]
    desk.name("run/epoch-1.pt")
    assert complete(desk) == ["run/epoch-1.pt", "run/step-1"]


def test_a_log_beside_at_the_top_takes_nothing_from_anybody(desk: Desk) -> None:
    desk.replace("epoch-1.pt", "1")
    desk.write("log.txt", "line")
    assert complete(desk) == ["epoch-1.pt"]


@pytest.mark.parametrize("path", [".hidden", "a.pt.tmp", "b.partial", "c.tmp/x", ".dir/x", "ckpt-1_temp/part"])
def test_names_that_say_so_are_never_complete(desk: Desk, path: str) -> None:
    desk.write("x", "1")
    if "/" in path:
        (desk.folder / path).parent.mkdir()
    desk.move("x", path)
    assert complete(desk) == []
    assert not desk.name(path)
    assert complete(desk) == []
    assert is_under_way(path)


def test_what_the_script_names_is_complete(desk: Desk) -> None:
    desk.write("a.pt", "1")
    desk.write("b/model", "1")
    desk.write("c/model", "1")
    desk.write("c/other", "1")
    assert desk.name("a.pt")
    assert desk.name("b")
    assert desk.name("c/model")
    assert complete(desk) == ["a.pt", "b", "c/model"]
    desk.write("a.pt", "2")
    assert complete(desk) == ["b", "c/model"]


def test_what_was_written_to_after_it_was_named_is_not_complete_though_we_hear_of_it_late(desk: Desk) -> None:
    desk.write("last.pt", "1")
    stamps = {"": Stamp(*(0, 0, 0))}
    seen = (desk.folder / "last.pt").stat()
    stamps[""] = Stamp(seen.st_size, seen.st_mtime_ns, seen.st_ino)
    desk.write("last.pt", "12")
    assert desk.units.name(str(desk.folder / "last.pt"), stamps, at=5.0)
    assert complete(desk) == []


def test_the_folder_itself_may_be_named_and_then_all_in_it_is_complete(desk: Desk) -> None:
    desk.write("a.pt", "1")
    desk.write("b/model", "1")
    desk.write("c.pt.tmp", "1")
    assert desk.name("")
    assert complete(desk) == ["a.pt", "b"]


def test_a_name_without_its_files_is_taken_for_what_is_there(desk: Desk) -> None:
    desk.write("a.pt", "1")
    assert desk.units.name(str(desk.folder / "a.pt"), None, at=5.0)
    assert complete(desk) == ["a.pt"]


@pytest.mark.parametrize("path", ["..", "/etc/hostname", "missing.pt", "../train.py", "/", "empty"])
def test_a_path_elsewhere_or_with_nothing_in_it_is_not_taken(desk: Desk, path: str) -> None:
    (desk.folder.parent / "train.py").write_text("")
    (desk.folder / "empty").mkdir()
    assert not desk.name(path)


def test_a_link_out_of_the_folder_is_no_part_of_what_is_named(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "big").write_text("elsewhere")
    desk.write("step/model", "1")
    (desk.folder / "step" / "data").symlink_to(tmp_path / "big")
    assert desk.name("step")
    assert complete(desk) == ["step"]


def test_a_link_is_as_good_as_what_it_leads_to(desk: Desk) -> None:
    desk.replace("epoch-1.ckpt", "1")
    desk.write("in-place", "1")
    (desk.folder / "last.ckpt").symlink_to("epoch-1.ckpt")
    (desk.folder / "other").symlink_to("in-place")
    desk.heard += [Heard("last.ckpt", renamed=False), Heard("other", renamed=False)]
    assert desk.units.state().kept == {"epoch-1.ckpt", "last.ckpt"}


def test_renamed_and_named_is_one_completion_and_renamed_twice_is_two(desk: Desk) -> None:
    desk.replace("last.pt", "1")
    desk.name("last.pt")
    assert desk.units.state().units["last.pt"].ordinal == 1
    desk.replace("last.pt", "2")
    desk.replace("last.pt", "3")
    assert desk.units.state().units["last.pt"].ordinal == 3
    desk.units.next_generation(2)
    desk.replace("last.pt", "4")
    unit = desk.units.state().units["last.pt"]
    assert (unit.generation, unit.ordinal) == (2, 1)


def test_what_times_tell_counts_once_however_often_they_tell_it(desk: Desk) -> None:
    desk.replace("last.pt", "1")
    desk.heard = [Heard("last.pt", renamed=True, sure=False)] * 3
    assert desk.units.state().units["last.pt"].ordinal == 1
    desk.heard = [Heard("last.pt", renamed=True)]
    assert desk.units.state().units["last.pt"].ordinal == 1


def test_the_folder_itself_may_be_renamed_into_place(desk: Desk) -> None:
    for path in ("a.pt", "b/model", "x.tmp"):
        desk.write(path, "1")
    desk.heard = [Heard("", renamed=True)]
    assert complete(desk) == ["a.pt", "b"]
    desk.heard = [Heard("", renamed=False)]
    assert complete(desk) == []


def test_tensorflow_vouches_for_the_files_that_its_note_names(desk: Desk) -> None:
    desk.replace("ckpt-1.data-00000-of-00001", "1")
    desk.write("ckpt-1.index", "1")
    desk.write("ckpt-10.index", "half")
    assert complete(desk) == ["ckpt-1.data-00000-of-00001"]
    desk.replace("checkpoint", 'model_checkpoint_path: "ckpt-1"\nall_model_checkpoint_paths: "ckpt-1"\n')
    assert complete(desk) == ["checkpoint", "ckpt-1.data-00000-of-00001", "ckpt-1.index"]


def test_a_file_that_is_called_like_tensorflows_note_but_is_none_is_just_a_file(desk: Desk) -> None:
    desk.write("ckpt-1.index", "1")
    desk.replace("checkpoint", "weights")
    assert complete(desk) == ["checkpoint"]


def test_what_came_with_the_code_may_stay_as_long_as_it_is_as_it_came(tmp_path: Path) -> None:
    (tmp_path / "code" / "checkpoints" / "pretrained").mkdir(parents=True)
    (tmp_path / "code" / "checkpoints" / "pretrained" / "model").write_text("given")
    desk = Desk(MemoryStore("units"), tmp_path)
    assert desk.units.state().kept == {"pretrained/model"}
    assert desk.again().units.state().kept == {"pretrained/model"}
    desk.write("pretrained/model", "changed")
    assert desk.units.state().kept == set()


def test_a_node_that_starts_again_in_its_folder_knows_what_is_complete(desk: Desk) -> None:
    desk.replace("last.pt", "1")
    desk.write("named.pt", "1")
    desk.name("named.pt", at=5.0)
    desk.write("half.pt")
    desk.units.state()
    again = desk.again()
    assert again.units.remembers
    assert complete(again) == ["last.pt", "named.pt"]
    assert again.name("named.pt", at=5.0)  # it reads again what the script said
    unit = again.units.state().units["named.pt"]
    assert (unit.ordinal, unit.at, unit.said) == (1, 5.0, True)


def test_what_an_earlier_name_said_is_not_taken_again_by_the_next_start(desk: Desk) -> None:
    desk.write("last.pt", "1")
    desk.name("last.pt", at=5.0)
    desk.write("last.pt", "22")
    desk.name("last.pt", at=6.0)
    desk.write("last.pt", "half")
    again = desk.again()
    again.units.name(str(desk.folder / "last.pt"), None, at=5.0)
    again.units.name(str(desk.folder / "last.pt"), None, at=6.0)
    assert complete(again) == []


def test_a_ledger_that_was_cut_short_is_read_as_far_as_it_goes(desk: Desk) -> None:
    desk.replace("a.pt", "1")
    desk.units.state()
    ledger = desk.base / "checkpoints.jsonl"
    ledger.write_bytes(ledger.read_bytes() + b'{"unit": "b.pt", "fil')
    again = desk.again()
    assert complete(again) == ["a.pt"]
    again.replace("c.pt", "1")
    assert complete(again) == ["a.pt", "c.pt"]
    assert complete(again.again()) == ["a.pt", "c.pt"]


def test_a_node_killed_before_any_process_had_started_takes_all_that_is_there_as_given(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "given").write_text("1")
    (tmp_path / "ledger").write_bytes(b'{"given": [["gi')
    units = Units(tmp_path / "checkpoints", tmp_path / "ledger")
    assert not units.remembers
    assert units.state().kept == {"given"}


def test_a_folder_that_cannot_be_read_for_a_moment_makes_nothing_forgotten(desk: Desk) -> None:
    desk.replace("a.pt", "1")
    assert complete(desk) == ["a.pt"]
    desk.folder.rename(desk.base / "away")
    assert complete(desk) == []
    (desk.base / "away").rename(desk.folder)
    assert complete(desk) == ["a.pt"]


def test_names_that_differ_by_numbers_are_of_one_kind() -> None:
    assert pattern("run-3/step-00010.pt") == pattern("run-12/step-2.pt") != pattern("run-1/last.pt")
