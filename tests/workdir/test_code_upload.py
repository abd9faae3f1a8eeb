"""Only what is new is sent, whatever was there before, and a launcher that is killed is taken up where it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.errors import CodeError
from muster.workdir import code_upload
from muster.workdir.bundle import fetch_code, scan, store_code, unused_code
from muster.workdir.code_pieces import Piece
from muster.workdir.code_reading import code_key, latest, latest_key, read_contents
from muster.workdir.folder import FolderStore
from muster.workdir.memory import MemoryStore
from muster.workdir.store import Capabilities

from .code_desk import Sent, fill, lines, noise, small_limits

MANY = {f"lib/{number:04}.py": lines(40, number) for number in range(300)}


@pytest.fixture
def store() -> Sent:
    return Sent(MemoryStore("code"))


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """More than is kept in a bundle itself, in many files and a large one."""
    return fill(tmp_path / "code", {**MANY, "weights": noise(2_000_000), "train.py": lines(50)})


def sent_for(store: Sent, code: Path, tmp_path: Path, job: str = "job") -> int:
    """Stores code, fetches it back to see that it is all there, and says how many bytes were sent."""
    store.reset()
    digest = store_code(store, code, job).digest
    sent = store.bytes
    into = Path(tempfile.mkdtemp(dir=tmp_path)) / "into"
    assert fetch_code(store, digest, into) == scan(code) == scan(into)
    return sent


@pytest.mark.unit
def test_a_change_of_one_line_costs_little_more_than_the_line(store: Sent, code: Path, tmp_path: Path) -> None:
    assert sent_for(store, code, tmp_path) > 2_000_000
    (code / "train.py").write_bytes(lines(50) + b"x = 1\n")
    assert sent_for(store, code, tmp_path) < 3_000
    # Is it there; pointer, what it points to; the packs, and whether they are still there at the end; the bundle, the
    # pointer. A node reads two bundles.
    store.reset()
    (code / "train.py").write_bytes(lines(50) + b"x = 2\n")
    digest = store_code(store, code, "job").digest
    assert store.counts == {"get": 4, "list": 2, "create": 1, "put": 1}
    assert read_contents(store, digest).base is not None


@pytest.mark.unit
def test_a_line_in_a_large_file_costs_a_piece_of_it(store: Sent, code: Path, tmp_path: Path) -> None:
    sent_for(store, code, tmp_path)
    before = (code / "weights").read_bytes()
    (code / "weights").write_bytes(before[:1_000_000] + b"one line\n" + before[1_000_000:])
    assert sent_for(store, code, tmp_path) < 200_000
    assert sent_for(store, code, tmp_path) == 64


@pytest.mark.unit
@pytest.mark.parametrize(
    "change",
    ["move", "copy", "remove", "link", "chmod", "empty"],
)
def test_what_is_only_elsewhere_is_not_sent(store: Sent, code: Path, tmp_path: Path, change: str) -> None:
    sent_for(store, code, tmp_path)
    weights = code / "weights"
    if change == "move":
        weights.rename(code / "lib" / "weights.bin")
    elif change == "copy":
        (code / "again").write_bytes(weights.read_bytes())
    elif change == "remove":
        weights.unlink()
    elif change == "link":
        (code / "link").symlink_to("weights")
    elif change == "chmod":
        weights.chmod(0o755)
    else:
        weights.write_bytes(b"")
    assert sent_for(store, code, tmp_path) < 3_000


@pytest.mark.unit
def test_going_back_costs_nothing_but_the_pointer(store: Sent, code: Path, tmp_path: Path) -> None:
    sent_for(store, code, tmp_path)
    (code / "train.py").write_bytes(b"x = 1\n")
    sent_for(store, code, tmp_path)
    (code / "train.py").write_bytes(lines(50))
    assert sent_for(store, code, tmp_path) == 64


@pytest.mark.unit
def test_another_job_with_nearly_the_same_code_sends_the_packs_that_differ(
    store: Sent, tmp_path: Path, code: Path
) -> None:
    fill(code, {f"data/{number:03}": noise(60_000, number) for number in range(100)})
    with small_limits(pack=1 << 20):
        sent_for(store, code, tmp_path)
        before = len(list(store.list("code/packs/")))
        (code / "data" / "050").write_bytes(noise(60_000, 1000))
        store.reset()
        store_code(store, code, "another")
        assert before > 5
        assert len(store.packs) <= 3


@pytest.mark.unit
@pytest.mark.parametrize("damage", ["no pointer", "pointer", "no bundle", "bundle", "no pack", "pack"])
def test_if_what_was_before_is_gone_or_damaged_all_is_sent(
    store: Sent, code: Path, tmp_path: Path, damage: str
) -> None:
    first = store_code(store, code, "job").digest
    pack = next(store.list("code/packs/")).key
    key = {"pointer": latest_key("job"), "bundle": code_key(first), "pack": pack}[damage.removeprefix("no ")]
    content = store.get(key)
    store.delete(key)
    if not damage.startswith("no "):
        store.put(key, content[:-1])
    (code / "train.py").write_bytes(b"x = 1\n")
    sent_for(store, code, tmp_path)


@pytest.mark.unit
def test_many_small_packs_become_few_again(store: Sent, tmp_path: Path) -> None:
    code = fill(tmp_path / "code", {f"{number:03}": noise(20_000, number) for number in range(30)})
    with small_limits(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("muster.workdir.code_plan.MOST_POOR", 6)
        patch.setattr("muster.workdir.code_plan.POOR", 1 << 16)
        sizes, sent = [], []
        for turn in range(20):
            fill(code, {f"new/{turn}": noise(20_000, 100 + turn)})
            sent.append(sent_for(store, code, tmp_path))
            newest = latest(store, "job")
            assert newest
            spots = {newest.spots[digest].pack for digest in newest.pieces}
            sizes.append(len(spots))
        assert sizes[0] < 5 < max(sizes) <= sizes[0] + 8
        assert max(sent[1:]) < 200_000


@pytest.mark.unit
def test_when_little_is_left_of_packs_what_is_left_is_sent_anew(store: Sent, tmp_path: Path) -> None:
    code = fill(tmp_path / "code", {f"{number:03}": noise(60_000, number) for number in range(60)})
    with small_limits(pack=1 << 20), pytest.MonkeyPatch.context() as patch:
        patch.setattr("muster.workdir.code_plan.WASTE", 1 << 20)
        sent_for(store, code, tmp_path)
        for number in range(60):
            if number % 7:
                (code / f"{number:03}").unlink()
        assert sent_for(store, code, tmp_path) > 9 * 60_000
        newest = latest(store, "job")
        assert newest
        assert sum(newest.packs.values()) < 10 * 60_000


@pytest.mark.unit
def test_a_change_too_large_to_be_a_difference_is_written_whole(store: Sent, code: Path, tmp_path: Path) -> None:
    sent_for(store, code, tmp_path)
    fill(code, {f"lib/{number:04}.py": lines(40, number + 5000) for number in range(0, 300, 2)})
    sent_for(store, code, tmp_path)
    newest = latest(store, "job")
    assert newest
    assert newest.base is None


names = st.sampled_from(["a", "b", "c", "d/a", "d/b", "d/e/f", "d/e/g", "é #", "n" * 90])
contents = st.one_of(
    st.binary(max_size=40),
    st.builds(noise, st.sampled_from([500, 60_000, 65_536, 65_537, 150_000]), st.integers(0, 5)),
    st.builds(lines, st.sampled_from([10, 4_000]), st.integers(0, 2)),
)
trees = st.dictionaries(names, contents, max_size=8)


@pytest.mark.unit
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(trees, min_size=1, max_size=4), st.sampled_from([1, 1 << 12, 1 << 18]), st.sampled_from([2, 256]))
def test_any_tree_after_any_other_comes_back_as_it_is(turns: list[dict[str, bytes]], inside: int, light: int) -> None:
    store = Sent(MemoryStore("code"))
    with tempfile.TemporaryDirectory() as made, small_limits(inside, light):
        for turn, files in enumerate(turns):
            code = Path(made) / f"code {turn}"
            code.mkdir()
            fill(code, files)
            digest = store_code(store, code, "job").digest
            fetch_code(store, digest, Path(made) / f"into {turn}")
            found = {
                path.relative_to(Path(made) / f"into {turn}").as_posix(): path.read_bytes()
                for path in (Path(made) / f"into {turn}").rglob("*")
                if path.is_file()
            }
            assert found == files


# --- interrupted, and at the same time ------------------------------------------------------------------------


@pytest.mark.unit
@pytest.mark.parametrize("content", [b"other\n", b"longer than before\n", b"", None])
def test_a_file_that_changed_since_the_scan_is_noticed(store: Sent, tmp_path: Path, content: bytes | None) -> None:
    """Small or large, new or there before: nothing of the bundle is to be seen."""
    code = fill(tmp_path / "code", {"train.py": b"print(1)\n", "weights": noise(400_000)})
    for name in ("train.py", "weights"):
        manifest = scan(code)
        before = (code / name).read_bytes()
        if content is None:
            (code / name).unlink()
        else:
            (code / name).write_bytes(content)
        with pytest.raises(CodeError, match=name):
            code_upload.upload(store, code, manifest, "job", lambda _done, _total: None)
        (code / name).write_bytes(before)
        assert [entry.key for entry in store.list() if "/packs/" not in entry.key] == []


@pytest.mark.unit
def test_a_file_that_changes_between_two_of_its_pieces_is_noticed(
    store: Sent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = fill(tmp_path / "code", {"weights": noise(400_000)})
    read = code_upload._Pieces.read
    reads: list[Piece] = []

    def read_and_change(self: code_upload._Pieces, piece: Piece) -> bytes:
        reads.append(piece)
        if len(reads) == 3:
            (code / "weights").write_bytes(noise(400_000, seed=1))
        return read(self, piece)

    monkeypatch.setattr(code_upload._Pieces, "read", read_and_change)
    with pytest.raises(CodeError, match="weights changed while"):
        store_code(store, code, "job")
    assert store.keys == []


class Wide(Sent):
    """Takes many at once, and knows how many there were."""

    def __init__(self) -> None:
        super().__init__(MemoryStore("code"))
        self.now = self.most = 0
        self._guard = threading.Lock()
        self.full = threading.Event()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(atomic_create=True, poll_seconds=1, parallel=3)

    def create(self, key: str, data: bytes) -> None:
        with self._guard:
            self.now += 1
            self.most = max(self.most, self.now)
            if self.now == 3:
                self.full.set()
        if key.startswith("code/packs/"):
            assert self.full.wait(30)
        super().create(key, data)
        with self._guard:
            self.now -= 1


@pytest.mark.unit
def test_packs_go_at_once_but_no_more_than_the_store_says_and_the_bundle_last(tmp_path: Path) -> None:
    store = Wide()
    code = fill(tmp_path / "code", {f"{number:03}": noise(60_000, number) for number in range(60)})
    with small_limits():
        digest = store_code(store, code, "job").digest
    assert store.most == 3
    assert len(store.packs) > 6
    assert store.keys[-2:] == [code_key(digest), latest_key("job")]


UPLOADING = """
import os, sys
from pathlib import Path
from muster.workdir.bundle import store_code
from muster.workdir.folder import FolderStore
sys.path.insert(0, sys.argv[3])
from tests.workdir.code_desk import small_limits

class Slow(FolderStore):
    def create(self, key, data):
        super().create(key, data)
        if len(list(self.list("code/packs/"))) >= 4:
            os.write(1, b"four are there\\n")  # in one go, for others say it too
            sys.stdin.read()  # for ever

with small_limits():
    store_code(Slow(sys.argv[1]), Path(sys.argv[2]), "job")
"""


def test_a_launcher_that_was_killed_is_taken_up_where_it_was(tmp_path: Path) -> None:
    code = fill(tmp_path / "code", {f"{number:03}": noise(60_000, number) for number in range(60)})
    work_dir = tmp_path / "work dir"
    with subprocess.Popen(
        [sys.executable, "-c", UPLOADING, str(work_dir), str(code), str(Path(__file__).parents[2])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "MUSTER_HOME": str(tmp_path / "home")},
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"four are there\n"
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    store = Sent(FolderStore(work_dir))
    there = {entry.key for entry in store.list("code/packs/")}
    assert len(there) >= 4
    assert [entry.key for entry in store.list("code/") if entry.key not in there] == []
    told: list[tuple[int, int]] = []
    with small_limits():
        digest = store_code(store, code, "job", progress=lambda *now: told.append(now)).digest
    every = {entry.key for entry in store.list("code/packs/")}
    assert set(store.packs) == every - there
    assert len(store.packs) == len(every) - len(there) > 5
    assert told[-1] == (3_600_000, 3_600_000)
    fetch_code(store, digest, tmp_path / "into")
    assert scan(tmp_path / "into").digest == digest


def test_a_pack_that_was_put_in_part_is_sent_again(tmp_path: Path) -> None:
    store = Sent(MemoryStore("code"))
    code = fill(tmp_path / "code", {f"{number:03}": noise(60_000, number) for number in range(30)})
    with small_limits():
        digest = store_code(store, code, "job").digest
        packs = [entry.key for entry in store.list("code/packs/")]
        store.put(packs[0], store.get(packs[0])[:-1])
        store.delete(code_key(digest))
        store.delete(latest_key("job"))
        store.reset()
        store_code(store, code, "job")
    assert store.packs == [packs[0]]
    fetch_code(store, digest, tmp_path / "into")


def test_several_launchers_at_once_end_with_one_bundle(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "work dir")
    code = fill(tmp_path / "code", {f"{number:03}": noise(60_000, number) for number in range(30)})
    with small_limits(), ThreadPoolExecutor(8) as launchers:
        done = [launchers.submit(store_code, store, code, "job") for _ in range(8)]
        assert {launched.result().digest for launched in done} == {scan(code).digest}
    assert list((tmp_path / "work dir" / ".muster-tmp").iterdir()) == []
    fetch_code(store, scan(code).digest, tmp_path / "into")


def test_packs_that_are_pruned_while_they_are_used_again_are_sent_again(tmp_path: Path) -> None:
    """A killed launch left packs that no bundle names yet; somebody prunes while the next one goes on from there."""
    code, place = tmp_path / "code", tmp_path / "work dir"
    code.mkdir()
    for number in range(4):
        (code / f"{number}.bin").write_bytes(os.urandom(6 << 20))

    class Killed(FolderStore):
        sent = 0

        def create(self, key: str, data: bytes) -> None:
            self.sent += key.startswith("code/packs/")
            if self.sent > 1:
                raise KeyboardInterrupt
            super().create(key, data)

    class Pruned(FolderStore):
        pruned = 0

        def create(self, key: str, data: bytes) -> None:
            if not self.pruned:
                unused = unused_code(self, (), 0.0, time.time() + 1)
                self.pruned = len(unused)
                self.delete_all(entry.key for entry in unused)
            super().create(key, data)

    with pytest.raises(KeyboardInterrupt):
        store_code(Killed(place), code, "job")
    store = Pruned(place)
    reference = store_code(store, code, "job")
    assert store.pruned
    assert fetch_code(store, reference.digest, tmp_path / "into") == scan(code)


def test_code_whose_packs_are_gone_is_brought_by_the_next_launch(code: Path, tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "work dir")
    reference = store_code(store, code, "job")
    store.delete_all([entry.key for entry in store.list("code/packs/")])
    assert store_code(store, code, "job") == reference
    assert fetch_code(store, reference.digest, tmp_path / "into") == scan(code)
