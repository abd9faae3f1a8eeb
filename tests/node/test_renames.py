"""What is renamed into place is heard of, in the order in which it happened to what is written."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.node import renames
from muster.node.renames import Looks, Renames, renamed_by_times, watch
from muster.workdir.units import Heard
from tests.harness import eventually

pytestmark = pytest.mark.unit

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has inotify")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "code" / "checkpoints").mkdir(parents=True)
    return tmp_path / "code" / "checkpoints"


def told(heard: list[Heard]) -> list[str]:
    """Each once where it is told several times in a row: `w` for written, `r` for renamed."""
    lines = [f"{'r' if one.renamed else 'w'} {one.path}" for one in heard]
    return [line for place, line in enumerate(lines) if place == 0 or line != lines[place - 1]]


@linux
class TestByTheKernel:
    def test_a_file_that_is_renamed_is_heard_of_after_what_was_written(self, folder: Path) -> None:
        heard = Renames(folder)
        (folder / "a.tmp").write_text("1")
        (folder / "a.tmp").rename(folder / "a")
        (folder / "a").write_text("in place")
        assert told(heard.take()) == ["w a.tmp", "r a", "w a"]
        assert heard.take() == []

    def test_what_was_there_before_is_not_told(self, folder: Path) -> None:
        (folder / "deep").mkdir()
        (folder / "deep" / "a").write_text("1")
        assert Renames(folder).take() == []

    def test_a_folder_that_comes_from_elsewhere_is_watched_from_then_on(self, folder: Path, tmp_path: Path) -> None:
        heard = Renames(folder)
        (tmp_path / "draft" / "deep").mkdir(parents=True)
        (tmp_path / "draft").rename(folder / "step-1")
        assert told(heard.take()) == ["r step-1"]
        (folder / "step-1" / "deep" / "late").write_text("1")
        assert told(heard.take()) == ["w step-1/deep/late"]

    def test_a_folder_keeps_its_watch_under_its_new_name(self, folder: Path) -> None:
        heard = Renames(folder)
        (folder / "step-1.tmp").mkdir()
        assert told(heard.take()) == ["w step-1.tmp"]
        (folder / "step-1.tmp" / "model").write_text("1")
        (folder / "step-1.tmp").rename(folder / "step-1")
        (folder / "step-1" / "model").write_text("changed")
        seen = told(heard.take())
        assert (seen[0], seen[-1]) == ("w step-1.tmp/model", "w step-1/model")

    def test_a_folder_that_leaves_is_no_longer_heard_of(self, folder: Path, tmp_path: Path) -> None:
        heard = Renames(folder)
        (folder / "a").mkdir()
        heard.take()
        (folder / "a").rename(tmp_path / "a")
        heard.take()
        (folder / "a").mkdir()
        (tmp_path / "a" / "elsewhere").write_text("1")
        (folder / "a" / "here").write_text("1")
        assert told(heard.take()) == ["w a", "w a/here"]

    def test_what_came_into_a_new_folder_before_its_watch_is_told_too(self, folder: Path) -> None:
        heard = Renames(folder)
        (folder / "a" / "b").mkdir(parents=True)
        (folder / "a" / "b" / "in-place").write_text("1")
        (folder / "a" / "b" / "draft").write_text("1")
        os.utime(folder / "a" / "b" / "draft", ns=(1, 1))
        (folder / "a" / "b" / "draft").rename(folder / "a" / "b" / "renamed")
        assert {"w a", "w a/b", "w a/b/in-place", "r a/b/renamed"} <= set(told(heard.take()))

    def test_a_folder_written_to_since_it_was_renamed_is_not_told_as_renamed(
        self, folder: Path, tmp_path: Path
    ) -> None:
        heard = Renames(folder)
        (tmp_path / "draft").mkdir()
        (tmp_path / "draft" / "model").write_text("1")
        os.utime(tmp_path / "draft", ns=(1, 1))
        (tmp_path / "draft").rename(folder / "step-1")
        os.utime(folder / "step-1" / "model", ns=(2**62, 2**62))  # as if written a moment later
        assert told(heard.take()) == ["w step-1"]

    def test_the_folder_itself_may_be_made_anew(self, folder: Path) -> None:
        heard = Renames(folder)
        shutil.rmtree(folder)
        folder.mkdir()
        assert told(heard.take())[-1] == "w "
        (folder / "a.tmp").write_text("1")
        (folder / "a.tmp").rename(folder / "a")
        assert told(heard.take()) == ["w a.tmp", "r a"]

    def test_the_folder_itself_may_be_renamed_into_place(self, folder: Path) -> None:
        heard = Renames(folder)
        folder.rmdir()
        (folder.parent / "draft").mkdir()
        (folder.parent / "draft" / "a").write_text("1")
        (folder.parent / "draft").rename(folder)
        assert told(heard.take()) == ["r "]

    def test_names_of_any_bytes_are_told(self, folder: Path) -> None:
        heard = Renames(folder)
        odd = os.fsdecode(b"caf\xe9 #\n")
        (folder / "x").write_text("1")
        (folder / "x").rename(folder / odd)
        assert told(heard.take())[-1] == f"r {odd}"

    def test_our_own_scratch_is_not_watched(self, folder: Path) -> None:
        heard = Renames(folder)
        (folder / ".muster-main-1").mkdir()
        heard.take()
        (folder / ".muster-main-1" / "a").mkdir()
        (folder / ".muster-main-1" / "a" / "b").write_text("1")
        assert heard.take() == []

    def test_when_the_kernel_lost_count_a_look_decides(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        heard = Renames(folder)
        (folder / "new").mkdir()
        (folder / "draft").write_text("1")
        os.utime(folder / "draft", ns=(1, 1))
        (folder / "draft").rename(folder / "a")
        list(heard._kernel.events())  # lost
        monkeypatch.setattr(heard._kernel, "events", lambda: iter([(-1, 0x4000, 0, "")]))
        assert heard.take() == [Heard("a", renamed=True, sure=False)]
        monkeypatch.undo()
        (folder / "new" / "b").write_text("1")
        assert told(heard.take()) == ["w new/b"]

    def test_without_watches_looks_go_on(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        heard = Renames(folder)
        monkeypatch.setattr(heard._kernel, "watch", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
        (folder / "deep").mkdir()
        heard.take()
        (folder / "deep" / "draft").write_text("1")
        os.utime(folder / "deep" / "draft", ns=(1, 1))
        (folder / "deep" / "draft").rename(folder / "deep" / "a")
        assert Heard("deep/a", renamed=True, sure=False) in heard.take()
        assert heard.wait(0.01)

    def test_one_who_waits_is_woken_by_a_rename_and_let_go_at_the_end(self, folder: Path) -> None:
        heard = Renames(folder)
        answers: list[bool | None] = []

        def listen() -> None:
            while answers[-1:] != [None]:
                answers.append(heard.wait(60))
                heard.take()

        thread = threading.Thread(target=listen)
        thread.start()
        (folder / "a").mkdir()
        eventually(lambda: answers)
        heard.close()
        thread.join(30)
        assert set(answers) == {True, None}


@pytest.mark.parametrize("make", [lambda folder: None, lambda folder: (folder / "deep").mkdir()])
def test_where_the_kernel_does_not_tell_times_do(
    folder: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], object]
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    heard = watch(folder)
    assert isinstance(heard, Looks)
    make(folder)
    (folder / "in-place").write_text("1")
    os.utime(folder / "in-place", ns=(2**62, 2**62))
    (folder / "draft").write_text("1")
    os.utime(folder / "draft", ns=(1, 1))
    (folder / "draft").rename(folder / "a")
    assert [one.path for one in heard.take() if one.path != "deep"] == ["a"]


def test_a_folder_counts_as_renamed_by_times_only_if_nothing_in_it_is_newer(folder: Path) -> None:
    for name in ("whole", "written"):
        (folder / name).mkdir()
        (folder / name / "model").write_text("1")
        os.utime(folder / name / "model", ns=(1, 1))
        os.utime(folder / name, ns=(1, 1))
    os.utime(folder / "written" / "model", ns=(2**62, 2**62))
    assert list(renamed_by_times(str(folder))) == ["whole"]


def test_a_watch_is_closed_for_who_looks_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renames, "_LOOK", 0.01)
    heard = Looks(folder)
    assert heard.wait(60)
    heard.close()
    assert heard.wait(60) is None


def test_a_folder_that_is_not_there_yet_is_heard_of_when_it_comes(tmp_path: Path) -> None:
    heard = watch(tmp_path / "checkpoints")
    (tmp_path / "checkpoints").mkdir()
    heard.take()
    (tmp_path / "checkpoints" / "a.tmp").write_text("1")
    os.utime(tmp_path / "checkpoints" / "a.tmp", ns=(1, 1))
    (tmp_path / "checkpoints" / "a.tmp").rename(tmp_path / "checkpoints" / "a")
    assert "a" in [one.path for one in heard.take() if one.renamed]
