"""Code goes into the work dir once, and comes out on a node as exactly what was scanned, or not at all."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from muster.errors import CodeError
from muster.workdir import bundle, tar
from muster.workdir.bundle import CodeRef, FileEntry, Manifest, fetch_code, pack, scan, store_code, unpack
from muster.workdir.counting import CountingStore
from muster.workdir.folder import FolderStore
from muster.workdir.manifest import VERSION
from muster.workdir.memory import MemoryStore
from muster.workdir.run import RunFolder

pytestmark = pytest.mark.unit


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A folder with all that a bundle can hold."""
    folder = tmp_path / "code"
    (folder / "lib" / "deep").mkdir(parents=True)
    (folder / "train.py").write_text("print('hi')\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "lib" / "deep" / "é #1\n.py").write_bytes(os.urandom(2_500_000))
    (folder / "lib" / ("n" * 150)).write_text("long name")
    (folder / os.fsdecode(b"caf\xe9")).write_text("not utf-8")
    (folder / "manifest.json").write_text("{}")
    (folder / "lib" / "up").symlink_to("../train.py")
    (folder / "far").symlink_to("lib/" + "n" * 150)
    return folder


def packed(folder: Path, out: Path) -> tuple[bytes, Manifest]:
    manifest = scan(folder)
    pack(folder, manifest, out)
    return out.read_bytes(), manifest


def test_a_folder_comes_out_as_it_went_in(code: Path, tmp_path: Path) -> None:
    archive, manifest = packed(code, tmp_path / "bundle.tar.gz")
    into = tmp_path / "new" / "place"
    assert unpack(tmp_path / "bundle.tar.gz", manifest.digest, into) == manifest
    assert scan(into) == manifest
    assert (into / "lib" / "up").readlink() == Path("../train.py")
    assert (into / "run.sh").stat().st_mode & 0o777 == 0o755 & ~umask()
    assert (into / "train.py").stat().st_mode & 0o777 == 0o644 & ~umask()
    assert [path.name for path in into.parent.iterdir()] == ["place"]
    unpack(archive, manifest.digest, tmp_path / "from bytes")
    assert scan(tmp_path / "from bytes") == manifest


def umask() -> int:
    now = os.umask(0o022)
    os.umask(now)
    return now


def test_the_same_files_give_the_same_bytes(code: Path, tmp_path: Path) -> None:
    first, _ = packed(code, tmp_path / "1")
    os.utime(code / "train.py", (5, 5))
    second, _ = packed(code, tmp_path / "2")
    assert first == second


def test_any_tar_can_show_what_is_inside(code: Path, tmp_path: Path) -> None:
    archive, manifest = packed(code, tmp_path / "bundle.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(archive)) as shown:
        names = shown.getnames()
        assert names == ["manifest.json", *(f"files/{entry.path}" for entry in manifest.files)]
        listed = shown.extractfile("manifest.json")
        assert listed is not None
        assert hashlib.sha256(listed.read()).hexdigest() == manifest.digest


def test_one_file_is_packed_alone(code: Path, tmp_path: Path) -> None:
    archive, manifest = packed(code / "train.py", tmp_path / "out")
    unpack(archive, manifest.digest, tmp_path / "into")
    assert [path.name for path in (tmp_path / "into").iterdir()] == ["train.py"]


def test_an_empty_folder_is_a_bundle_too(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    archive, manifest = packed(tmp_path / "empty", tmp_path / "out")
    unpack(archive, manifest.digest, tmp_path / "into")
    assert list((tmp_path / "into").iterdir()) == []


@pytest.mark.parametrize("content", ["print('ho')\n", "longer than before\n", "", None])
def test_a_file_that_changed_since_the_scan_is_not_packed(code: Path, tmp_path: Path, content: str | None) -> None:
    manifest = scan(code)
    if content is None:
        (code / "train.py").unlink()
    else:
        (code / "train.py").write_text(content)
    with pytest.raises(CodeError, match=r"train.py"):
        pack(code, manifest, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["code"]


def test_a_work_dir_keeps_one_copy_for_all_runs(code: Path, tmp_path: Path) -> None:
    store = CountingStore(FolderStore(tmp_path / "work dir"))
    run = RunFolder(store, "r")
    manifest = scan(code)
    first = store_code(store, code, run, expected=manifest.digest)
    assert first == CodeRef(manifest.digest, len(manifest.files), manifest.bytes)
    assert run.code() == manifest
    store.reset()
    assert store_code(store, code) == first
    assert store.counts == {"list": 1}
    assert [entry.key for entry in store.list("code/")] == [f"code/{manifest.digest}.tar.gz"]
    assert fetch_code(store, first.digest, tmp_path / "node" / "code") == manifest
    assert [path.name for path in (tmp_path / "node").iterdir()] == ["code"]


def test_two_launchers_may_bring_the_same_code_at_once(code: Path) -> None:
    store = MemoryStore("code")

    class Late(CountingStore):
        def create(self, key: str, data: bytes) -> None:
            store.create(key, data)
            super().create(key, data)

    assert store_code(Late(store), code).digest == scan(code).digest


def test_large_code_goes_through_a_file(code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "_IN_MEMORY", 1000)
    store = CountingStore(MemoryStore("code"))
    reference = store_code(store, code)
    assert store.counts == {"list": 1, "put_file": 1}
    assert fetch_code(store, reference.digest, tmp_path / "into") == scan(code)


def test_code_that_is_not_what_was_planned_is_refused(code: Path) -> None:
    store = MemoryStore("code")
    with pytest.raises(CodeError, match="changed since the plan"):
        store_code(store, code, expected="0" * 64)
    assert list(store.list()) == []


def test_code_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(CodeError, match="is not in the work dir memory://code"):
        fetch_code(MemoryStore("code"), "0" * 64, tmp_path / "into")
    for wrong in ("", "../../etc", "A" * 64, "0" * 63):
        with pytest.raises(CodeError, match="64 hexadecimal digits"):
            fetch_code(MemoryStore("code"), wrong, tmp_path / "into")
    assert list(tmp_path.iterdir()) == []


def archive_of(manifest: Manifest, members: list[tuple[tar.Member, bytes]]) -> bytes:
    listed = manifest.canonical()
    content = [(tar.Member(b"manifest.json", len(listed)), listed), *members]
    parts = [tar.header(member) + data + tar.padding(len(data)) for member, data in content]
    return gzip.compress(b"".join([*parts, tar.end()]))


def entry(path: str, content: bytes) -> FileEntry:
    return FileEntry(path, len(content), hashlib.sha256(content).hexdigest())


GOOD = Manifest((entry("a", b"1"),))
A = (tar.Member(b"files/a", 1), b"1")

HOSTILE = {
    "a file that is not listed": (GOOD, [A, (tar.Member(b"files/b", 1), b"2")]),
    "a name twice": (GOOD, [A, A]),
    "an absolute path": (GOOD, [A, (tar.Member(b"/tmp/x", 1), b"2")]),
    "a path upwards": (GOOD, [A, (tar.Member(b"files/../../x", 1), b"2")]),
    "a file that is missing": (GOOD, []),
    "another content": (GOOD, [(tar.Member(b"files/a", 1), b"2")]),
    "more bytes": (GOOD, [(tar.Member(b"files/a", 2), b"12")]),
    "a link for a file": (GOOD, [(tar.Member(b"files/a", link=b"/etc/passwd"), b"")]),
    "an executable": (GOOD, [(tar.Member(b"files/a", 1, True), b"1")]),
    "another link": (Manifest((FileEntry("a", link="b"),)), [(tar.Member(b"files/a", link=b"/etc"), b"")]),
    "a listed path upwards": (Manifest((entry("../a", b"1"),)), [(tar.Member(b"files/../a", 1), b"1")]),
    "a listed absolute path": (Manifest((entry("/a", b"1"),)), [(tar.Member(b"files//a", 1), b"1")]),
    "a listed link that leaves": (
        Manifest((FileEntry("a", link="../x"),)),
        [(tar.Member(b"files/a", link=b"../x"), b"")],
    ),
    "a file behind a listed link": (
        Manifest((FileEntry("a", link="b"), entry("a/c", b"1"))),
        [(tar.Member(b"files/a", link=b"b"), b""), (tar.Member(b"files/a/c", 1), b"1")],
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_an_archive_that_is_not_what_its_manifest_says_leaves_nothing(tmp_path: Path, case: str) -> None:
    manifest, members = HOSTILE[case]
    with pytest.raises(CodeError, match="is damaged"):
        unpack(archive_of(manifest, members), manifest.digest, tmp_path / "in" / "to")
    assert [path.name for path in tmp_path.rglob("*")] == ["in"]


def test_a_good_archive_of_that_kind_is_taken(tmp_path: Path) -> None:
    unpack(archive_of(GOOD, [A]), GOOD.digest, tmp_path / "into")
    assert (tmp_path / "into" / "a").read_bytes() == b"1"


def test_another_manifest_than_the_digest_stands_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CodeError, match="does not have this digest"):
        unpack(archive_of(GOOD, [A]), "0" * 64, tmp_path / "into")


def test_every_cut_and_every_foreign_file_is_damage(tmp_path: Path) -> None:
    whole = archive_of(GOOD, [A])
    foreign = io.BytesIO()
    with tarfile.open(fileobj=foreign, mode="w:gz") as writing:
        writing.addfile(tarfile.TarInfo("manifest.json"))
    cases = [whole[:length] for length in range(0, len(whole) - 8, 7)]
    for archive in (*cases, b"not a gzip", gzip.compress(b""), gzip.compress(b"x" * 2000), foreign.getvalue()):
        with pytest.raises(CodeError, match="is damaged"):
            unpack(archive, GOOD.digest, tmp_path / "into")
    assert list(tmp_path.iterdir()) == []


def test_a_manifest_that_no_muster_wrote_is_damage(tmp_path: Path) -> None:
    for listed in (b"{}", b"[]", b'{"version":%d,"files":[{"name":"x"}]}' % VERSION, b"\xff"):
        block = tar.header(tar.Member(b"manifest.json", len(listed))) + listed + tar.padding(len(listed)) + tar.end()
        with pytest.raises(CodeError, match="is damaged"):
            unpack(gzip.compress(block), hashlib.sha256(listed).hexdigest(), tmp_path / "into")


def test_a_folder_in_use_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "into").mkdir()
    (tmp_path / "into" / "mine").write_text("kept")
    with pytest.raises(CodeError, match="cannot lay out the code") as told:
        unpack(archive_of(GOOD, [A]), GOOD.digest, tmp_path / "into")
    assert "new folder" in told.value.fix
    assert [path.name for path in tmp_path.rglob("*")] == ["into", "mine"]


def test_a_place_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CodeError, match="cannot lay out the code"):
        unpack(archive_of(GOOD, [A]), GOOD.digest, tmp_path / "file" / "into")
