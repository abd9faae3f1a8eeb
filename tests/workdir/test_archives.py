"""Archives that others made: all that is good is taken, and whatever is wrong with one, nothing leaves the folder."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.errors import CodeError
from muster.workdir import archives
from muster.workdir.archives import unpack_archive

pytestmark = pytest.mark.unit

Build = Callable[[tarfile.TarFile], None]
PLAIN = {"train.py": b"print(1)\n", "lib/a b#.py": b"", "lib/deep/x": b"\0" * 2000}


def tar_of(build: Build, mode: str = "w", form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=form) as writing:  # type: ignore[call-overload]
        build(writing)
    return out.getvalue()


def add(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> Build:
    """One member, whatever its name is."""

    def build(writing: tarfile.TarFile) -> None:
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname, entry.mode, entry.size = kind, link, mode, len(content)
        writing.addfile(entry, io.BytesIO(content))

    return build


def all_of(*builds: Build) -> Build:
    def build(writing: tarfile.TarFile) -> None:
        for one in builds:
            one(writing)

    return build


def plain(writing: tarfile.TarFile) -> None:
    add("lib/", kind=tarfile.DIRTYPE)(writing)
    for name, content in PLAIN.items():
        add(name, content)(writing)
    add("run.sh", b"#!/bin/sh\n", mode=0o755)(writing)
    add("lib/link", kind=tarfile.SYMTYPE, link="../train.py")(writing)
    add("copy.py", kind=tarfile.LNKTYPE, link="train.py")(writing)


def link_entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


def zip_of(files: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as writing:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (stat.S_IFREG | (0o755 if name.endswith(".sh") else 0o644)) << 16
            writing.writestr(entry, content)
        for name, target in (links or {}).items():
            writing.writestr(link_entry(name), target)
    return out.getvalue()


def unpacked(content: bytes, tmp_path: Path) -> Path:
    (tmp_path / "archive").write_bytes(content)
    unpack_archive(tmp_path / "archive", tmp_path / "into", "code.zip")
    return tmp_path / "into"


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def complaint(content: bytes, tmp_path: Path) -> str:
    """What is said of an archive that is refused; nothing may be there that was not before."""
    (tmp_path / "outside").mkdir()
    with pytest.raises(CodeError) as told:
        unpacked(content, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "into") == ["archive", "outside"]
    assert list((tmp_path / "outside").iterdir()) == []
    return str(told.value)


PACKINGS = {
    "tar": lambda content: content,
    "tar.gz": gzip.compress,
    "tar.bz2": bz2.compress,
    "tar.xz": lzma.compress,
}


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
@pytest.mark.parametrize("packing", PACKINGS)
def test_a_tar_is_laid_out_whole(packing: str, form: int, tmp_path: Path) -> None:
    into = unpacked(PACKINGS[packing](tar_of(plain, form=form)), tmp_path)
    assert files_of(into) == {
        **PLAIN,
        "run.sh": b"#!/bin/sh\n",
        "lib/link": PLAIN["train.py"],
        "copy.py": PLAIN["train.py"],
    }
    assert (into / "lib" / "link").readlink() == Path("../train.py")
    assert os.access(into / "run.sh", os.X_OK)
    assert (into / "train.py").stat().st_mode & 0o111 == 0


def test_a_zip_is_laid_out_whole(tmp_path: Path) -> None:
    files = {**PLAIN, "run.sh": b"#!/bin/sh\n", "folder/": b""}
    into = unpacked(zip_of(files, {"lib/link": "../train.py"}), tmp_path)
    files.pop("folder/")
    assert files_of(into) == {**files, "lib/link": PLAIN["train.py"]}
    assert (into / "folder").is_dir()
    assert stat.S_IMODE((into / "run.sh").stat().st_mode) & 0o100
    assert (into / "lib" / "link").is_symlink()


def test_what_it_is_shows_its_content_and_not_its_name(tmp_path: Path) -> None:
    assert files_of(unpacked(gzip.compress(tar_of(plain)), tmp_path))["train.py"] == PLAIN["train.py"]


HOSTILE: dict[str, bytes] = {
    "a path upwards": tar_of(add("../outside/x", b"1")),
    "a path upwards behind a folder": tar_of(add("a/../../outside/x", b"1")),
    "an absolute path": tar_of(add("/tmp/outside/x", b"1")),
    "an absolute folder": tar_of(add("/outside", kind=tarfile.DIRTYPE)),
    "a folder upwards": tar_of(add("../outside/x", kind=tarfile.DIRTYPE)),
    "a link upwards": tar_of(add("x", kind=tarfile.SYMTYPE, link="../outside")),
    "an absolute link": tar_of(add("x", kind=tarfile.SYMTYPE, link="/etc/passwd")),
    "an empty link": tar_of(add("x", kind=tarfile.SYMTYPE, link="")),
    "a file through a link": tar_of(
        all_of(add("x", kind=tarfile.SYMTYPE, link="y"), add("y", kind=tarfile.DIRTYPE), add("x/z", b"1"))
    ),
    "a link through a link": tar_of(
        all_of(
            add("a/b", kind=tarfile.DIRTYPE),
            add("m", kind=tarfile.SYMTYPE, link="a"),
            add("m/up", kind=tarfile.SYMTYPE, link=".."),
        )
    ),
    "a file through two links": tar_of(
        all_of(
            add("d", kind=tarfile.SYMTYPE, link="."),
            add("d/e", kind=tarfile.SYMTYPE, link=".."),
            add("d/e/outside/x", b"1"),
        )
    ),
    "a copy of what is outside": tar_of(add("x", kind=tarfile.LNKTYPE, link="../archive")),
    "a copy of an absolute path": tar_of(add("x", kind=tarfile.LNKTYPE, link="/etc/passwd")),
    "a copy through a link": tar_of(
        all_of(add("l", kind=tarfile.SYMTYPE, link=".."), add("x", kind=tarfile.LNKTYPE, link="l/archive"))
    ),
    "a copy of nothing": tar_of(add("x", kind=tarfile.LNKTYPE, link="y")),
    "a device": tar_of(add("x", kind=tarfile.CHRTYPE)),
    "a pipe": tar_of(add("x", kind=tarfile.FIFOTYPE)),
    "a file twice": tar_of(all_of(add("x", b"1"), add("x", b"2"))),
    "a link for a file": tar_of(all_of(add("x", b"1"), add("x", kind=tarfile.SYMTYPE, link="y"))),
    "a file below a file": tar_of(all_of(add("x", b"1"), add("x/y", b"2"))),
    "a zip with a path upwards": zip_of({"../outside/x": b"1"}),
    "a zip with an absolute path": zip_of({"/outside/x": b"1"}),
    "a zip with a link upwards": zip_of({}, {"x": "../outside"}),
    "a zip with a file through a link": zip_of({"x/y": b"1"}, {"x": "z"}),
    "a zip with a long link": zip_of({}, {"x": "y" * 5000}),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_nothing_is_written_outside(case: str, tmp_path: Path) -> None:
    told = complaint(HOSTILE[case], tmp_path)
    assert "code.zip is not unpacked" in told
    # What was laid out before leads nowhere else either.
    for path in (tmp_path / "into").rglob("*"):
        assert Path(os.path.realpath(path)).is_relative_to(os.path.realpath(tmp_path / "into"))


def test_a_zip_with_a_device_or_a_password_is_refused(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as writing:
        entry = zipfile.ZipInfo("x")
        entry.external_attr = (stat.S_IFIFO | 0o644) << 16
        writing.writestr(entry, b"")
    assert "'x' is neither a file, a folder nor a link" in complaint(out.getvalue(), tmp_path)
    locked = bytearray(zip_of({"x": b"1"}))
    for begin in (b"PK\x03\x04", b"PK\x01\x02"):
        locked[locked.index(begin) + (6 if begin == b"PK\x03\x04" else 8)] |= 1
    (tmp_path / "archive").write_bytes(locked)
    with pytest.raises(CodeError, match="'x' is encrypted"):
        unpack_archive(tmp_path / "archive", tmp_path / "again", "code.zip")


BOMBS = {
    "zeros": gzip.compress(tar_of(add("x", bytes(3 << 20)))),
    "zeros in many files": gzip.compress(tar_of(all_of(*(add(f"{n}", bytes(1 << 18)) for n in range(9))))),
    "a zip of zeros": zip_of({"x": bytes(3 << 20)}),
    "a zip of many zeros": zip_of({f"{n}": bytes(1 << 18) for n in range(9)}),
    "copies of one file": tar_of(
        all_of(add("x", bytes(1 << 19)), *(add(f"{n}", kind=tarfile.LNKTYPE, link="x") for n in range(9)))
    ),
}


@pytest.mark.parametrize("case", BOMBS)
def test_what_would_fill_the_disk_is_stopped(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "LARGEST", 2 << 20)
    assert "it holds more than 2MiB; bring data along as `inputs`" in complaint(BOMBS[case], tmp_path)
    assert sum(path.stat().st_size for path in (tmp_path / "into").rglob("*")) < 3 << 20


def test_a_size_that_is_only_claimed_is_enough_to_refuse(tmp_path: Path) -> None:
    entry = tarfile.TarInfo("x")
    entry.size = 1 << 45
    assert "it holds more than 8GiB" in complaint(entry.tobuf(tarfile.GNU_FORMAT) + bytes(2048), tmp_path)


def test_more_files_than_code_has_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_FILES", 10)
    many = tar_of(all_of(*(add(f"{number}", kind=tarfile.DIRTYPE) for number in range(11))))
    assert "it holds more than 10 files" in complaint(many, tmp_path)


def test_a_header_that_claims_much_takes_no_memory(tmp_path: Path) -> None:
    entry = tarfile.TarInfo("x")
    entry.type, entry.size = tarfile.XHDTYPE, 1 << 40
    assert "one of its headers claims" in complaint(entry.tobuf(tarfile.GNU_FORMAT) + bytes(2048), tmp_path)


def test_a_zip_whose_list_claims_much_takes_no_memory(tmp_path: Path) -> None:
    whole = bytearray(zip_of({"x": b"1"}))
    place = whole.index(b"PK\x05\x06")
    whole[place + 12 : place + 16] = (0xF0000000).to_bytes(4, "little")
    complaint(bytes(whole), tmp_path)


NOT_ONE = {
    "a text": b"hello, this is no archive at all" * 100,
    "nothing": b"",
    "the begin of a zip": b"PK\x03\x04 and then no more",
    "a gzip of a text": gzip.compress(b"hello" * 500),
    "an xz of nothing": lzma.compress(b""),
    "a damaged bz2": b"BZh9" + b"1" * 100,
    "a damaged xz": b"\xfd7zXZ\0" + b"1" * 100,
}


@pytest.mark.parametrize("case", NOT_ONE)
def test_what_is_no_archive_is_told(case: str, tmp_path: Path) -> None:
    assert "code.zip is no whole zip or tar archive" in complaint(NOT_ONE[case], tmp_path)


@pytest.mark.parametrize("page", [b"<!DOCTYPE html><html>Sign in</html>", b"\n <html>\n404 Not Found</html>"])
def test_a_web_page_in_its_place_is_told(page: bytes, tmp_path: Path) -> None:
    told = complaint(page, tmp_path)
    assert "code.zip is a web page, not an archive" in told
    assert "login" in told


WHOLE = {"tar": tar_of(plain), "tar.gz": gzip.compress(tar_of(plain)), "zip": zip_of(PLAIN)}


@pytest.mark.parametrize("kind", WHOLE)
def test_every_cut_is_noticed(kind: str, tmp_path: Path) -> None:
    whole = WHOLE[kind]
    # A tar is filled up with zeros behind its end, and those say nothing.
    end = len(whole.rstrip(b"\0")) + 512 if kind == "tar" else len(whole)
    for number, length in enumerate(range(0, end - 1, max(1, end // 60))):
        (tmp_path / "archive").write_bytes(whole[:length])
        with pytest.raises(CodeError):
            unpack_archive(tmp_path / "archive", tmp_path / f"into-{number}", "code.zip")


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_content_that_was_changed_on_the_way_is_noticed(kind: str, tmp_path: Path) -> None:
    noise = os.urandom(4000)
    whole = bytearray(gzip.compress(tar_of(add("x", noise))) if kind == "tar.gz" else zip_of({"x": noise}))
    whole[2000] ^= 0xFF
    complaint(bytes(whole), tmp_path)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    kind=st.sampled_from(sorted(WHOLE)), places=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=6)
)
def test_whatever_is_damaged_it_is_refused_or_stays_inside(
    kind: str, places: list[tuple[float, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    tmp_path = tmp_path_factory.mktemp("damaged")
    whole = bytearray(WHOLE[kind])
    for share, byte in places:
        whole[int(share * (len(whole) - 1))] = byte
    (tmp_path / "archive").write_bytes(whole)
    try:
        unpack_archive(tmp_path / "archive", tmp_path / "into", "code.zip")
    except CodeError:
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "into"]
