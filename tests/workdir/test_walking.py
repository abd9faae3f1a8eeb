"""Looking at a folder while a script writes into it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.workdir.walking import key_path, look, stamp_of

pytestmark = pytest.mark.unit


def paths(folder: Path) -> list[str]:
    return [found.path for found in look(folder).files]


def test_files_come_in_order_with_stamps_that_change_when_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("b/x", "a b#\n", "c"):
        (tmp_path / name).write_text("1")
    first = look(tmp_path)
    assert [found.path for found in first.files] == ["a b#\n", "b/x", "c"]
    assert first.files == look(tmp_path).files
    assert first.files[2].stamp == stamp_of(tmp_path / "c")
    (tmp_path / "c").write_text("22")
    assert first.files[2].stamp != stamp_of(tmp_path / "c")
    (tmp_path / "c").unlink()
    assert stamp_of(tmp_path / "c") is None


def test_a_folder_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    found = look(tmp_path / "none")
    assert (found.files, found.left_out, found.complete) == ([], [], False)


def test_links_are_followed_inside_and_named_when_they_lead_out(tmp_path: Path) -> None:
    root = tmp_path / "outputs"
    (root / "step-5").mkdir(parents=True)
    (root / "step-5" / "model").write_text("5")
    (root / "last").symlink_to("step-5")
    (root / "best").symlink_to(root / "step-5" / "model")
    (root / "step-5" / "loop").symlink_to("..")
    (root / "gone").symlink_to("nothing")
    (tmp_path / "secret").write_text("s")
    (root / "out").symlink_to("../secret")
    (root / "etc").symlink_to("/etc")
    os.mkfifo(root / "pipe")
    found = look(root)
    assert [one.path for one in found.files] == ["best", "last/model", "step-5/model"]
    assert sorted(found.left_out) == [
        "etc: a link that leads out of the folder",
        "out: a link that leads out of the folder",
        "pipe: neither a file nor a folder",
    ]
    assert found.complete


def test_links_that_lead_in_circles_end(tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("")
        (tmp_path / name / "other").symlink_to(f"../{other}")
    assert paths(tmp_path) == ["a/file", "a/other/file", "b/file", "b/other/file"]


def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "x").write_text("")
    (tmp_path / "way").symlink_to("real")
    assert paths(tmp_path / "way") == ["x"]


def test_a_key_can_be_made_of_any_name() -> None:
    assert key_path("Ünï#1\n") == "Ünï#1\n"
    assert key_path(os.fsdecode(b"a/caf\xe9")) == "a/caf\\xe9"
