"""What of a folder belongs to its bundle."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import pytest

from muster.errors import CodeError
from muster.workdir.manifest import FileEntry
from muster.workdir.scan import scan

pytestmark = pytest.mark.unit


def write(folder: Path, files: dict[str, str]) -> None:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)


def paths(folder: Path, *ignore: str) -> list[str]:
    return [entry.path for entry in scan(folder, ignore).files]


def test_files_are_listed_in_order_with_size_digest_and_bit(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": "print(1)\n", "run.sh": "#!/bin/sh\n", "lib/a b#\n.py": ""})
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "empty folder").mkdir()
    assert scan(tmp_path).files == (
        FileEntry("lib/a b#\n.py", 0, hashlib.sha256(b"").hexdigest()),
        FileEntry("run.sh", 10, hashlib.sha256(b"#!/bin/sh\n").hexdigest(), executable=True),
        FileEntry("train.py", 9, hashlib.sha256(b"print(1)\n").hexdigest()),
    )


def test_the_same_files_elsewhere_and_later_have_the_same_digest(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(tmp_path / name, {"b.py": "b", "a/c.py": "c"})
    os.utime(tmp_path / "two" / "b.py", (1, 1))
    assert scan(tmp_path / "one").digest == scan(tmp_path / "two").digest
    (tmp_path / "two" / "b.py").write_text("B")
    assert scan(tmp_path / "one").digest != scan(tmp_path / "two").digest


def test_what_no_other_machine_needs_is_left_out(tmp_path: Path) -> None:
    left_out = [".git/config", "venv/bin/python", "a/__pycache__/x.pyc", "a/y.pyc", ".DS_Store", "m.egg-info/PKG-INFO"]
    write(tmp_path, {**dict.fromkeys(left_out, ""), "train.py": "", ".env.example": ""})
    assert paths(tmp_path) == [".env.example", "train.py"]


def test_the_folders_own_rules_come_last_and_stay_in_the_bundle(tmp_path: Path) -> None:
    write(
        tmp_path,
        {".musterignore": "\ufeff/data/\n!venv\n!*.log\n", "data/x": "", "a/data/x": "", "venv/x": "", "y.log": ""},
    )
    assert paths(tmp_path, "*.log") == [".musterignore", "a/data/x", "venv/x", "y.log"]


def test_one_file_is_a_bundle_of_one(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": "1", "other.py": "2"})
    (tmp_path / "link.py").symlink_to("train.py")
    assert paths(tmp_path / "train.py") == ["train.py"]
    assert scan(tmp_path / "link.py").files[0].size == 1


def test_links_inside_stay_links(tmp_path: Path) -> None:
    code = tmp_path / "code"
    write(code, {"data/set.csv": "1,2", "train.py": ""})
    (code / "latest").symlink_to("data")
    (code / "data" / "up").symlink_to("../train.py")
    (code / "absolute").symlink_to(code / "data" / "set.csv")
    (code / "around").symlink_to("../code/train.py")
    (code / "dangling").symlink_to("not/there/yet")
    (code / "detour").symlink_to("latest/../train.py")
    links = {entry.path: entry.link for entry in scan(code).files if entry.link is not None}
    assert links == {
        "latest": "data",
        "data/up": "../train.py",
        "absolute": "data/set.csv",
        "around": "train.py",
        "dangling": "not/there/yet",
        "detour": "train.py",
    }


def test_a_folder_reached_through_a_link_is_scanned_like_any(tmp_path: Path) -> None:
    write(tmp_path / "real", {"train.py": ""})
    (tmp_path / "real" / "link").symlink_to("train.py")
    (tmp_path / "way").symlink_to("real")
    assert scan(tmp_path / "way") == scan(tmp_path / "real")


@pytest.mark.parametrize("target", ["/etc/hostname", "../outside", "inner/../../outside", ".."])
def test_a_link_that_leads_out_is_named_and_can_be_ignored(tmp_path: Path, target: str) -> None:
    code = tmp_path / "code"
    write(tmp_path, {"outside": "secret", "code/inner/x": ""})
    (code / "link").symlink_to(target)
    with pytest.raises(CodeError, match="leads out of the code folder") as told:
        scan(code)
    assert str(code / "link") in told.value.message
    assert target in told.value.message
    assert ".musterignore" in told.value.fix
    assert paths(code, "/link") == ["inner/x"]


def test_a_link_to_a_link_that_leads_out_leads_out(tmp_path: Path) -> None:
    code = tmp_path / "code"
    write(tmp_path, {"outside": "secret", "code/x": ""})
    (code / "b").symlink_to("../outside")
    (code / "a").symlink_to("b")
    with pytest.raises(CodeError, match="a leads out"):
        scan(code / ".." / "code", ["/b"])


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(CodeError, match=r"fifo is neither"):
        scan(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "sock"))
        with pytest.raises(CodeError, match=r"sock is neither"):
            scan(tmp_path, ["fifo"])
    assert paths(tmp_path, "fifo", "sock") == []


def test_code_that_is_not_there_or_no_code_is_told(tmp_path: Path) -> None:
    with pytest.raises(CodeError, match="no code at"):
        scan(tmp_path / "none")
    with pytest.raises(CodeError, match="cannot read"):
        scan(Path(os.devnull))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"secret.pem": ""})

    def refuse(path: Path, mode: str, buffering: int = -1) -> object:
        raise (PermissionError(13, "Permission denied") if path.name == "secret.pem" else FileNotFoundError)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(CodeError, match=r"cannot read .*secret.pem: Permission denied"):
        scan(tmp_path)


def test_a_file_that_changes_meanwhile_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"growing.log": "1"})
    real_fstat, looks = os.fstat, []

    def look(descriptor: int) -> os.stat_result:
        looks.append(descriptor)
        if len(looks) == 2:
            (tmp_path / "growing.log").write_text("12")
        return real_fstat(descriptor)

    monkeypatch.setattr(os, "fstat", look)
    with pytest.raises(CodeError, match=r"growing.log changed while"):
        scan(tmp_path)


def test_names_that_are_not_utf8_are_kept(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9")).write_text("x")
    assert paths(tmp_path) == ["caf\udce9"]
