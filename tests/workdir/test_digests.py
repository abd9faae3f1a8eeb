"""A large folder is read once, and again only where it changed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from muster.workdir import scan as scanning
from muster.workdir.digests import keep_digests, known_digests
from muster.workdir.manifest import FileEntry
from muster.workdir.scan import scan

from .code_desk import fill, noise

pytestmark = pytest.mark.unit


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that counts as large, and whose files were written long ago."""
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(scanning, "_LARGE", 1000)
    monkeypatch.setattr("muster.workdir.digests._SETTLED", -60.0)  # a file's ctime cannot be set back
    return fill(tmp_path / "code", {f"d/{number}": noise(500, number) for number in range(20)})


@pytest.fixture
def read(code: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were read."""
    paths: list[str] = []
    really = scanning._read

    def note(place: Path, path: str) -> FileEntry:
        paths.append(path)
        return really(place, path)

    monkeypatch.setattr(scanning, "_read", note)
    return paths


def test_what_stayed_the_same_is_not_read_again(code: Path, read: list[str]) -> None:
    first = scan(code)
    assert len(read) == 20
    read.clear()
    assert scan(code) == first
    assert read == []
    (code / "d" / "3").write_bytes(noise(500, 100))
    (code / "d" / "4").unlink()
    (code / "new").write_bytes(b"x")
    (code / "d" / "5").chmod(0o755)
    second = scan(code)
    assert sorted(read) == ["d/3", "d/5", "new"]
    assert {entry.path for entry in second.files if entry.executable} == {"d/5"}
    assert [entry.path for entry in second.files] == sorted(entry.path for entry in second.files)


def test_a_file_with_its_old_size_and_time_is_still_known_as_another(code: Path, read: list[str]) -> None:
    """As a restored backup, or a tool that sets times: the inode and the time of the change tell."""
    before = scan(code)
    place = code / "d" / "3"
    seen = place.stat()
    place.write_bytes(noise(500, 100))
    os.utime(place, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert place.stat().st_mtime_ns == seen.st_mtime_ns
    assert scan(code) != before
    (code / "other").write_bytes(noise(500, 4))
    os.utime(code / "other", ns=(seen.st_atime_ns, seen.st_mtime_ns))
    (code / "other").replace(place)
    assert next(entry for entry in scan(code).files if entry.path == "d/3") == next(
        FileEntry(**{**entry.to_json(), "path": "d/3"}) for entry in before.files if entry.path == "d/4"
    )


def test_a_file_that_was_just_written_is_read_again(
    code: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.workdir.digests._SETTLED", 2.0)
    scan(code)
    read.clear()
    scan(code)
    assert len(read) == 20


def test_a_small_folder_leaves_nothing_in_the_users_home(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "_LARGE", 1 << 23)
    scan(code)
    assert not (code.parent / "home").exists()


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"version":1,"folder":"x","files":{}}', b"\xff"])
def test_a_damaged_memory_is_no_memory(code: Path, read: list[str], content: bytes) -> None:
    first = scan(code)
    (kept,) = (code.parent / "home" / "digests").iterdir()
    kept.write_bytes(content)
    read.clear()
    assert scan(code) == first
    assert len(read) == 20


def test_wrong_rows_are_no_memory(code: Path) -> None:
    scan(code)
    (kept,) = (code.parent / "home" / "digests").iterdir()
    value = json.loads(kept.read_bytes())
    value["files"]["d/1"] = [1]
    kept.write_text(json.dumps(value))
    assert known_digests(Path(os.path.realpath(code))) == {}


def test_a_home_that_cannot_be_written_does_not_matter(code: Path) -> None:
    (code.parent / "home").write_text("a file")
    assert len(scan(code).files) == 20


def test_only_so_many_folders_are_remembered(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.workdir.digests._MOST_FOLDERS", 3)
    for number in range(6):
        keep_digests(Path(f"/folder {number}"), {"f": ((1, 1, 1, 1), "0" * 64)}, time.time())
        (newest,) = [
            place
            for place in (code.parent / "home" / "digests").iterdir()
            if json.loads(place.read_bytes())["folder"] == f"/folder {number}"
        ]
        os.utime(newest, (number, number))
    assert known_digests(Path("/folder 5"))
    assert len(list((code.parent / "home" / "digests").iterdir())) == 3


def test_many_files_are_read_at_once_and_listed_in_order(code: Path) -> None:
    fill(code, {f"{number:04}": noise(100, number) for number in range(300)})
    found = scan(code)
    assert [entry.path for entry in found.files] == sorted(entry.path for entry in found.files)
    assert len(found.files) == 320
