"""Work dirs on what fsspec knows: an sftp server for real, fsspec's own memory, and what is refused."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from muster.errors import AccessDenied, AlreadyExists, NotFound, StoreBusy, StoreError
from muster.workdir.folder import SCRATCH, FolderStore
from muster.workdir.opening import open_store
from muster.workdir.store import Capabilities, Store
from tests.workdir.stores import Sshd, sshd

from .store_contract import ConcurrencyContract, ListingContract, StoreContract

places = count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture
def user(server: Sshd, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A user whose home has the key that the server knows, and the server's own."""
    monkeypatch.setenv("HOME", str(server.folder.parent / "home"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return monkeypatch


@pytest.fixture
def sftp(server: Sshd, user: pytest.MonkeyPatch) -> Store:
    return open_store(f"{server.url}/a team's/runs {next(places)}")


@pytest.fixture
def memory() -> Store:
    return open_store(f"fsspec+memory://team/runs {next(places)}")


class TestSftpStore(StoreContract):
    @pytest.fixture
    def store(self, sftp: Store) -> Store:
        return sftp


class TestSftpListing(ListingContract):
    @pytest.fixture
    def store(self, sftp: Store) -> Store:
        return sftp


class TestSftpConcurrency(ConcurrencyContract):
    @pytest.fixture
    def store(self, sftp: Store) -> Store:
        return sftp


class TestFsspecMemoryStore(StoreContract):
    @pytest.fixture
    def store(self, memory: Store) -> Store:
        return memory


class TestFsspecMemoryListing(ListingContract):
    @pytest.fixture
    def store(self, memory: Store) -> Store:
        return memory


class TestFsspecMemoryConcurrency(ConcurrencyContract):
    @pytest.fixture
    def store(self, memory: Store) -> Store:
        return memory


# --- what each promises ----------------------------------------------------------------------------------


def test_each_says_what_it_can(sftp: Store, memory: Store) -> None:
    assert (sftp.capabilities.atomic_create, sftp.capabilities.whole_puts) == (True, True)
    assert (memory.capabilities.atomic_create, memory.capabilities.whole_puts) == (False, True)
    assert sftp.capabilities.parallel == memory.capabilities.parallel == 8
    ftp = open_store("ftp://127.0.0.1/runs")
    assert (ftp.capabilities.atomic_create, ftp.capabilities.whole_puts) == (False, False)


def test_a_store_is_opened_again_by_its_own_url(sftp: Store, memory: Store) -> None:
    for store in (sftp, memory):
        store.put("a", b"1")
        assert open_store(store.url).get("a") == open_store(f"{store.url}/").get("a") == b"1"


def test_memory_of_fsspec_is_not_our_own(memory: Store) -> None:
    memory.put("a", b"1")
    assert list(open_store(memory.url.removeprefix("fsspec+")).list()) == []


# --- sftp ------------------------------------------------------------------------------------------------


def folder_of(server: Sshd, store: Store) -> Path:
    return Path(store.url[store.url.index(str(server.folder)) :])


def test_what_is_written_over_sftp_is_a_folder_store_on_the_other_side(server: Sshd, sftp: Store) -> None:
    there = FolderStore(folder_of(server, sftp))
    sftp.put("run/a b", b"1")
    sftp.create("run/ünï", b"2")
    assert [(entry.key, entry.size) for entry in there.list()] == [("run/a b", 1), ("run/ünï", 1)]
    there.put("theirs/c", b"3")
    assert sftp.get("theirs/c") == b"3"
    with pytest.raises(AlreadyExists):
        there.create("run/ünï", b"4")
    assert list((folder_of(server, sftp) / SCRATCH).iterdir()) == []


def test_a_folder_store_and_sftp_create_one_key_and_one_of_them_wins(server: Sshd, sftp: Store) -> None:
    stores = [sftp, FolderStore(folder_of(server, sftp))] * 8
    together = threading.Barrier(len(stores))

    def claim(pair: tuple[int, Store]) -> bool:
        together.wait()
        try:
            pair[1].create("claim", b"%d" % pair[0])
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(len(stores)) as pool:
        won = [number for number, one in enumerate(pool.map(claim, enumerate(stores))) if one]
    assert len(won) == 1
    assert sftp.get("claim") == b"%d" % won[0]


def test_what_killed_writers_left_is_swept_after_a_day(server: Sshd, sftp: Store) -> None:
    scratch = folder_of(server, sftp) / SCRATCH
    scratch.mkdir(parents=True)
    for name, age in (("old", 2 * 24 * 3600), ("young", 60)):
        (scratch / name).write_bytes(b"part")
        then = (scratch / name).stat().st_mtime - age
        os.utime(scratch / name, (then, then))
    assert list(sftp.list()) == []
    assert list(sftp.list_names()) == []
    sftp.put("a", b"")
    assert [path.name for path in scratch.iterdir()] == ["young"]
    with pytest.raises(StoreError, match="unfinished"):
        sftp.get(f"{SCRATCH}/young")


def test_links_are_followed_to_files_and_not_into_folders(server: Sshd, sftp: Store) -> None:
    sftp.put("a/b", b"12")
    folder = folder_of(server, sftp)
    (folder / "file").symlink_to("a/b")
    (folder / "folder").symlink_to("a")
    (folder / "nowhere").symlink_to("nothing")
    assert [(entry.key, entry.size) for entry in sftp.list()] == [("a/b", 2), ("file", 2)]


def test_a_connection_that_breaks_is_made_again(server: Sshd, sftp: Store) -> None:
    sftp.put("a", b"1")
    (connection,) = sftp._idle  # type: ignore[attr-defined]
    connection._client.get_transport().sock.close()
    assert sftp.get("a") == b"1"
    (again,) = sftp._idle  # type: ignore[attr-defined]
    assert again is not connection
    again._client.close()
    sftp.create("b", b"2")
    assert sftp.get("b") == b"2"


def test_connections_are_few_and_kept(sftp: Store) -> None:
    for number in range(20):
        sftp.put(f"{number}", b"")
    assert len(sftp._idle) == 1  # type: ignore[attr-defined]
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(lambda number: sftp.get(f"{number % 20}"), range(200)))
    assert len(sftp._idle) <= 8  # type: ignore[attr-defined]


def test_a_file_where_a_folder_is_needed_is_told(sftp: Store, memory: Store) -> None:
    for store in (sftp, memory):
        store.put("a", b"1")
        for write in (store.put, store.create):
            with pytest.raises(StoreError, match="a/b"):
                write("a/b", b"2")
        assert store.get("a") == b"1"


def test_a_server_that_lets_nobody_write_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sshd(tmp_path, read_only=True) as server:
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        FolderStore(server.folder).put("a", b"1")
        store = open_store(server.url)
        assert store.get("a") == b"1"
        calls: list[Callable[[], None]] = [
            lambda: store.put("a", b"2"),
            lambda: store.create("b", b""),
            lambda: store.delete("a"),
        ]
        for call in calls:
            with pytest.raises(AccessDenied, match="may not") as told:
                call()
            assert server.url in told.value.message
        assert store.get("a") == b"1"


def test_a_server_that_this_machine_does_not_know_is_refused(
    server: Sshd, user: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ssh = tmp_path / ".ssh"
    ssh.mkdir()
    (ssh / "id_ed25519").write_bytes((server.folder.parent / "home" / ".ssh" / "id_ed25519").read_bytes())
    user.setenv("HOME", str(tmp_path))
    with pytest.raises(AccessDenied, match="known_hosts") as told:
        open_store(f"{server.url}/runs").get("a")
    assert "by hand" in told.value.fix
    other = (server.folder.parent / "home" / ".ssh" / "id_ed25519.pub").read_text().split()[:2]
    (ssh / "known_hosts").write_text(f"[127.0.0.1]:{server.port} {' '.join(other)}\n")
    with pytest.raises(AccessDenied, match="Host key") as told:
        open_store(f"{server.url}/runs").get("a")
    assert "compare the key" in told.value.fix


def test_a_user_whom_the_server_does_not_know_is_refused(
    server: Sshd, user: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".ssh").mkdir()
    known = (server.folder.parent / "home" / ".ssh" / "known_hosts").read_text()
    (tmp_path / ".ssh" / "known_hosts").write_text(known)
    user.setenv("HOME", str(tmp_path))
    with pytest.raises(AccessDenied, match="cannot read 'a'") as told:
        open_store(f"{server.url}/runs").get("a")
    assert "~/.ssh" in told.value.fix


def test_where_nobody_listens_is_told(user: pytest.MonkeyPatch) -> None:
    store = open_store("sftp://nobody@127.0.0.1:9/runs")
    store._patience = 0.2  # type: ignore[attr-defined]
    with pytest.raises(StoreBusy, match="127\\.0\\.0\\.1"):
        store.get("a")


# --- what is refused -------------------------------------------------------------------------------------


@pytest.mark.unit
@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("https://example.org/runs", "nobody can write to https://"),
        ("zip://runs.zip", "nobody can write to zip://"),
        ("simplecache://runs", "a way to another"),
        ("sftpp://host/runs", "Did you mean sftp://"),
        ("nothing-like-it://host/runs", "no kind of work dir is called nothing-like-it://"),
        ("s3a://bucket/runs", "Write s3://"),
        ("sftp://host", "no path in"),
        ("fsspec+memory://", "no path in"),
        ("sftp://host/runs?key=1", "have no settings"),
        ("dropbox://runs", "dropboxdrivefs"),
    ],
)
def test_a_url_that_cannot_be_a_work_dir_is_told(url: str, says: str) -> None:
    with pytest.raises(StoreError, match=says) as told:
        open_store(url)
    assert told.value.fix


@pytest.mark.unit
def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(StoreError, match="password") as told:
        open_store("sftp://ada:opensesame@host/runs")
    assert "opensesame" not in str(told.value)
    assert "sftp://host/runs" in told.value.message


@pytest.mark.unit
def test_a_file_system_that_cannot_write_says_so_when_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec
    from fsspec.registry import _registry

    class Shut(fsspec.AbstractFileSystem):  # type: ignore[misc]
        protocol = "shut"

        def ls(self, path: str, detail: bool = True, **_: object) -> list[object]:
            return []

    monkeypatch.setitem(_registry, "shut", Shut)
    with pytest.raises(StoreError, match="cannot write 'a'") as told:
        open_store("shut://host/runs").put("a", b"")
    assert "choose another" in told.value.fix
    with pytest.raises(NotFound):
        open_store("shut://host/runs").get("a")


def test_what_a_store_cannot_do_is_said_in_words() -> None:
    assert [line.partition(":")[0] for line in Capabilities(False, 1.0, whole_puts=False).lacks()] == ["work_dir"] * 2
    assert [*Capabilities(True, 1.0).lacks()] == []
    assert "two mains" in next(open_store("fsspec+memory://said-in-words").capabilities.lacks())
