"""A work dir in a folder: the contract, and what only a real file system can do wrong."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import muster.errors
from muster.errors import AlreadyExists, NotFound, StoreError
from muster.workdir.folder import SCRATCH, STALE_SECONDS, FolderStore
from muster.workdir.store import Store

from .store_contract import ConcurrencyContract, ListingContract, StoreContract


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "work dir #1"


@pytest.fixture
def store(root: Path) -> Store:
    return FolderStore(root)


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A Python of its own that imports this Muster."""
    return subprocess.Popen(
        [sys.executable, "-B", "-c", code, *arguments],
        env={"PYTHONPATH": str(Path(muster.errors.__file__).parents[1])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


class TestFolderStore(StoreContract):
    pass


class TestFolderListing(ListingContract):
    pass


class TestFolderConcurrency(ConcurrencyContract):
    pass


CLAIM = """
import sys
from muster.errors import AlreadyExists
from muster.workdir.folder import FolderStore
print("here", flush=True)
number = sys.stdin.readline().strip()
try:
    FolderStore(sys.argv[1]).create("run/generations/000001/MAIN_config.json", number.encode() * 1000)
    print("won")
except AlreadyExists:
    print("lost")
"""


def test_of_eight_processes_that_create_one_key_exactly_one_wins(root: Path) -> None:
    claimants = [python(CLAIM, str(root)) for _ in range(8)]
    for claimant in claimants:
        assert claimant.stdout is not None
        assert claimant.stdout.readline() == "here\n"
    for number, claimant in enumerate(claimants):
        assert claimant.stdin is not None
        claimant.stdin.write(f"{number}\n")
        claimant.stdin.flush()
    said = [claimant.communicate(timeout=60)[0] for claimant in claimants]
    assert sorted(said) == ["lost\n"] * 7 + ["won\n"]
    winner = str(said.index("won\n")).encode()
    assert FolderStore(root).get("run/generations/000001/MAIN_config.json") == winner * 1000


def test_opening_and_reading_make_nothing(root: Path) -> None:
    store = FolderStore(root)
    assert [*store.list(), *store.list_names()] == []
    store.delete("a")
    with pytest.raises(NotFound):
        store.get("a")
    assert not root.exists()


def test_the_url_is_the_whole_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert FolderStore("runs").url == str(tmp_path / "runs")


def test_only_the_owner_may_look(root: Path, store: Store) -> None:
    store.create("run/key", b"secret")
    store.put("run/nodes/main.json", b"")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [root, *root.rglob("*")]}
    assert modes.pop("key") == modes.pop("main.json") == 0o600
    assert set(modes.values()) == {0o700}


def test_nothing_is_left_in_the_scratch_folder_and_it_is_never_shown(root: Path, store: Store) -> None:
    store.put("a", b"1")
    store.create("b", b"2")
    with pytest.raises(AlreadyExists):
        store.create("b", b"3")
    assert list((root / SCRATCH).iterdir()) == []
    (root / SCRATCH / "unfinished").write_bytes(b"part")
    assert [entry.key for entry in store.list()] == list(store.list_names()) == ["a", "b"]
    assert list(store.list(f"{SCRATCH}/")) == list(store.list(SCRATCH)) == []
    assert list(store.list_names(f"{SCRATCH}/")) == []
    with pytest.raises(StoreError, match="unfinished"):
        store.put(f"{SCRATCH}/a", b"")


def test_what_a_killed_writer_left_is_swept_after_a_day(root: Path) -> None:
    FolderStore(root).put("a", b"1")
    old, young = root / SCRATCH / "old", root / SCRATCH / "young"
    old.write_bytes(b"part of a checkpoint")
    young.write_bytes(b"still being written")
    past = time.time() - STALE_SECONDS - 60
    os.utime(old, (past, past))
    FolderStore(root).put("a", b"2")
    assert list((root / SCRATCH).iterdir()) == [young]


def refused(call: Callable[[], object]) -> StoreError:
    with pytest.raises(StoreError) as told:
        call()
    return told.value


def test_a_file_and_a_folder_cannot_share_a_name(store: Store) -> None:
    store.put("a", b"file")
    store.put("b/c", b"folder")
    for told in (refused(lambda: store.put("a/b", b"")), refused(lambda: store.create("a/b", b""))):
        assert "'a/b'" in told.message
        assert "A file stands where a folder is needed" in told.fix
    for told in (refused(lambda: store.put("b", b"")), refused(lambda: store.create("b", b""))):
        assert "'b'" in told.message
        assert "a folder where a file is" in told.fix
        assert not isinstance(told, AlreadyExists)
    assert [entry.key for entry in store.list()] == ["a", "b/c"]


def test_a_name_the_file_system_cannot_hold_is_told(store: Store) -> None:
    long = "x" * 300
    for told in (
        refused(lambda: store.put(long, b"")),
        refused(lambda: store.create(long, b"")),
        refused(lambda: store.get(long)),
    ):
        assert "255 bytes" in told.fix


def test_a_work_dir_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = FolderStore(tmp_path / "file")
    for told in (
        refused(lambda: store.put("a", b"")),
        refused(lambda: store.create("a", b"")),
        refused(lambda: store.get("a")),
        refused(lambda: list(store.list("a/"))),
        refused(lambda: list(store.list_names())),
    ):
        assert "Not a directory" in told.message
        assert str(tmp_path / "file") in told.message
        assert not isinstance(told, NotFound)


def test_links_to_folders_are_not_followed_when_walking(root: Path, store: Store, tmp_path: Path) -> None:
    store.put("run/a", b"1")
    (root / "run" / "loop").symlink_to(root)
    (root / "run" / "link").symlink_to(root / "run" / "a")
    (root / "run" / "dangling").symlink_to("nowhere")
    os.mkfifo(root / "run" / "fifo")
    assert [entry.key for entry in store.list()] == ["run/a", "run/link"]


def test_a_run_moved_to_another_disk_is_found_through_its_link(root: Path, store: Store, tmp_path: Path) -> None:
    store.put("run/job.json", b"{}")
    (root / "run").rename(tmp_path / "moved")
    (root / "run").symlink_to(tmp_path / "moved")
    assert list(store.list_names()) == ["run"]
    assert [entry.key for entry in store.list("run/")] == ["run/job.json"]


def test_names_that_are_not_utf8_are_not_shown(root: Path, store: Store) -> None:
    store.put("a", b"1")
    Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9")).write_bytes(b"")
    assert [entry.key for entry in store.list()] == list(store.list_names()) == ["a"]


def refusing(code: int) -> object:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return refuse


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV])
def test_without_hard_links_create_still_has_one_winner(
    root: Path, store: Store, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(os, "link", refusing(code))
    store.create("run/key", b"first")
    (root / "run" / "key").rename(root / "run" / "other")
    store.create("run/key", b"again")
    with pytest.raises(AlreadyExists):
        store.create("run/other", b"second")
    assert store.get("run/other") == b"first"
    assert list((root / SCRATCH).iterdir()) == []


def test_the_race_without_hard_links_is_decided_by_the_file_system(
    root: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link_too_late(*_: object, **__: object) -> None:
        (root / "taken").write_bytes(b"theirs")
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", link_too_late)
    with pytest.raises(AlreadyExists):
        store.create("taken", b"ours")
    assert store.get("taken") == b"theirs"


def test_a_link_that_nfs_made_and_then_denied_counts_as_made(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    real_link = os.link

    def link_twice(*given: str) -> None:
        real_link(*given)
        real_link(*given)

    monkeypatch.setattr(os, "link", link_twice)
    store.create("run/key", b"ours")
    assert store.get("run/key") == b"ours"


@pytest.mark.parametrize(
    ("code", "fix"), [(errno.ENOSPC, "df -h"), (errno.EDQUOT, "quota"), (errno.EROFS, "read-only")]
)
def test_a_disk_that_takes_no_more_is_told_and_leaves_nothing(
    root: Path, store: Store, monkeypatch: pytest.MonkeyPatch, code: int, fix: str, tmp_path: Path
) -> None:
    (tmp_path / "source").write_bytes(b"content")
    store.put("a", b"old")
    monkeypatch.setattr(os, "write", refusing(code))
    monkeypatch.setattr(os, "copy_file_range", refusing(code), raising=False)
    for told in (
        refused(lambda: store.put("a", b"new")),
        refused(lambda: store.create("b", b"new")),
        refused(lambda: store.put_file("a", tmp_path / "source")),
        refused(lambda: store.get_file("a", tmp_path / "target")),
    ):
        assert fix in told.fix
        assert str(root) in told.message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", root.name]
    assert store.get("a") == b"old"
    assert [entry.key for entry in store.list()] == ["a"]
    assert list((root / SCRATCH).iterdir()) == []


def test_copies_where_the_kernel_cannot(store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "copy_file_range", refusing(errno.EXDEV), raising=False)
    (tmp_path / "source").write_bytes(b"x" * 3_000_000)
    store.put_file("a", tmp_path / "source")
    store.get_file("a", tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == b"x" * 3_000_000


PROBE = """
import os, sys
from pathlib import Path
from muster.errors import StoreError
from muster.workdir.folder import FolderStore
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
root = Path(sys.argv[1])
store = FolderStore(root)
calls = [
    lambda: store.put("a", b""),
    lambda: store.create("b", b""),
    lambda: store.get("secret"),
    lambda: list(store.list()),
    lambda: store.delete("secret"),
    lambda: store.get_file("open", root / "copy"),
]
for call in calls:
    try:
        print("no error", call())
    except StoreError as error:
        print(str(error).replace("\\n", " "))
"""


@pytest.fixture
def forbidden() -> Iterator[Path]:
    """A folder that others may enter, not list or write. Not below `tmp_path`, where no other user gets."""
    root = Path(tempfile.mkdtemp(prefix="muster-test-"))
    (root / "secret").write_bytes(b"")
    (root / "secret").chmod(0)
    (root / "open").write_bytes(b"")
    (root / "open").chmod(0o444)
    root.chmod(0o111)
    yield root
    root.chmod(0o700)
    shutil.rmtree(root)


def test_a_user_without_rights_is_told_which_and_where(forbidden: Path) -> None:
    """Root has every right, so there a process of another user tries it."""
    told = python(PROBE, str(forbidden)).communicate(timeout=60)[0].splitlines()
    assert len(told) == 6
    for line in told:
        assert str(forbidden) in line
        assert "Permission denied" in line
        assert "Give this user the right" in line
