"""Code goes into the work dir once, and comes out on a node as exactly what was scanned, or not at all."""

from __future__ import annotations

import hashlib
import os
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from muster.errors import CodeError, NotFound, StoreError
from muster.workdir.bundle import CodeRef, code_key, copy_code, fetch_code, read_code, scan, store_code
from muster.workdir.code_contents import Contents
from muster.workdir.code_format import MAGIC
from muster.workdir.code_packs import Spot
from muster.workdir.code_pieces import Piece
from muster.workdir.counting import CountingStore
from muster.workdir.folder import FolderStore
from muster.workdir.manifest import FileEntry, Manifest
from muster.workdir.memory import MemoryStore
from muster.workdir.store import Store

from .code_desk import Sent, entry, fill, inside, noise, pieces, put, small_limits

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
    (folder / "lib" / "deep" / "again").write_bytes((folder / "lib" / "deep" / "é #1\n.py").read_bytes())
    (folder / "lib" / ("n" * 150)).write_text("long name")
    (folder / "lib" / "empty").write_text("")
    (folder / os.fsdecode(b"caf\xe9")).write_text("not utf-8")
    (folder / "manifest.json").write_text("{}")
    (folder / "lib" / "up").symlink_to("../train.py")
    (folder / "far").symlink_to("lib/" + "n" * 150)
    (folder / "alone").mkdir()
    (folder / "alone" / "link").symlink_to("../lib")
    return folder


@pytest.fixture(params=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore("code") if request.param == "memory" else FolderStore(tmp_path / "work dir")


def test_a_folder_comes_out_as_it_went_in(code: Path, store: Store, tmp_path: Path) -> None:
    manifest = scan(code)
    reference = store_code(store, code, "job", expected=manifest.digest)
    assert reference == CodeRef(manifest.digest, len(manifest.files), manifest.bytes)
    into = tmp_path / "new" / "place"
    assert fetch_code(store, reference.digest, into) == manifest == read_code(store, reference.digest)
    assert scan(into) == manifest
    assert (into / "lib" / "up").readlink() == Path("../train.py")
    assert (into / "run.sh").stat().st_mode & 0o777 == 0o755 & ~umask()
    assert (into / "train.py").stat().st_mode & 0o777 == 0o644 & ~umask()
    assert [path.name for path in into.parent.iterdir()] == ["place"]


def umask() -> int:
    now = os.umask(0o022)
    os.umask(now)
    return now


def test_a_folder_can_be_copied_without_a_work_dir(code: Path, tmp_path: Path) -> None:
    manifest = scan(code)
    copy_code(code, manifest, tmp_path / "copy")
    assert scan(tmp_path / "copy") == manifest
    (code / "train.py").write_text("print('ho')\n")
    with pytest.raises(CodeError, match=r"train.py changed while"):
        copy_code(code, manifest, tmp_path / "another")
    assert not (tmp_path / "another").exists()


def test_one_file_is_a_bundle_alone(code: Path, store: Store, tmp_path: Path) -> None:
    fetch_code(store, store_code(store, code / "train.py").digest, tmp_path / "into")
    assert [path.name for path in (tmp_path / "into").iterdir()] == ["train.py"]
    large = store_code(store, code / "lib" / "deep" / "again", "job")
    assert scan(code / "lib" / "deep" / "again") == fetch_code(store, large.digest, tmp_path / "large")


def test_an_empty_folder_is_a_bundle_too(store: Store, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    fetch_code(store, store_code(store, tmp_path / "empty").digest, tmp_path / "into")
    assert list((tmp_path / "into").iterdir()) == []


def test_small_code_costs_two_requests_and_a_node_one(tmp_path: Path) -> None:
    store = CountingStore(MemoryStore("code"))
    code = fill(tmp_path / "code", {f"{number}.py": b"x = %d\n" % number * 20 for number in range(200)})
    reference = store_code(store, code, "job")
    assert store.counts == {"get": 1, "create": 1}
    store.reset()
    assert store_code(store, code, "job") == reference
    assert store.counts == {"get": 1}
    store.reset()
    fetch_code(store, reference.digest, tmp_path / "into")
    assert store.counts == {"get": 1}


def test_a_work_dir_keeps_one_copy_for_all_runs(code: Path, tmp_path: Path) -> None:
    store = Sent(FolderStore(tmp_path / "work dir"))
    first = store_code(store, code, "job")
    # Is it there, what was there before; one pack, the bundle, and the pointer to it.
    assert store.counts == {"get": 2, "create": 2, "put": 1}
    assert store.bytes < 2_510_000
    store.reset()
    assert store_code(store, code, "job") == first
    assert store.counts == {"get": 1, "list": 1, "put": 1}
    store.reset()
    assert fetch_code(store, first.digest, tmp_path / "node" / "code") == scan(code)
    assert store.counts == {"get": 1, "get_range": 1}
    assert [path.name for path in (tmp_path / "node").iterdir()] == ["code"]


def test_two_launchers_may_bring_the_same_code_at_once(code: Path, tmp_path: Path) -> None:
    inner = MemoryStore("code")

    class Late(CountingStore):
        """Another was quicker each time, and has another zlib."""

        def create(self, key: str, data: bytes) -> None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("muster.workdir.code_upload.stored_form", bytes)
                if not list(inner.list("code/packs/")):
                    store_code(inner, code)
            super().create(key, data)

    reference = store_code(Late(inner), code)
    assert reference.digest == scan(code).digest
    fetch_code(inner, reference.digest, tmp_path / "into")
    assert scan(tmp_path / "into").digest == reference.digest


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


def test_what_stands_in_the_place_of_a_bundle_is_replaced(code: Path, tmp_path: Path) -> None:
    store = MemoryStore("code")
    digest = scan(code).digest
    for wrong in (b"", b"a page of a proxy", MAGIC[:5]):
        store.put(code_key(digest), wrong)
        store_code(store, code)
        fetch_code(store, digest, tmp_path / f"into {wrong!r}")


# --- what is not as it should be ------------------------------------------------------------------------------

GOOD, TAIL = inside({"a": b"1", "b": b"words and " * 500})
LARGE = noise(300_000)


def test_a_good_bundle_of_that_kind_is_taken(tmp_path: Path) -> None:
    store = MemoryStore("code")
    fetch_code(store, put(store, GOOD, TAIL), tmp_path / "into")
    assert (tmp_path / "into" / "b").read_bytes() == b"words and " * 500


def of_manifest(*files: FileEntry) -> tuple[Contents, bytes]:
    """A bundle that has the one byte that these files need, and says what they say."""
    contents, tail = inside({"x": b"1"})
    return replace(contents, manifest=Manifest(files)), tail


def moved(offset: int | None = None, stored: int | None = None) -> tuple[Contents, bytes]:
    spots = {
        digest: Spot("", spot.offset if offset is None else offset, spot.stored if stored is None else stored)
        for digest, spot in GOOD.spots.items()
    }
    return replace(GOOD, spots=spots), TAIL


def cut_otherwise(*others: Piece) -> tuple[Contents, bytes]:
    """A large file that is said to be made of these."""
    large = entry("large", LARGE)
    spots = {piece.digest: Spot("", 0, piece.size) for piece in others}
    return Contents(Manifest((large,)), {large.sha256: others}, spots, {}), LARGE


ONE_BYTE = Piece(hashlib.sha256(LARGE[:1]).digest(), 1)
BOMB = zlib.compress(bytes(100_000_000), 9)
BOMBED = Piece(hashlib.sha256(bytes(65_000)).digest(), 65_000)

HOSTILE = {
    "another content": (GOOD, TAIL.replace(b"1", b"2", 1)),
    "less than it says": (GOOD, TAIL[:-1]),
    "nothing": (GOOD, b""),
    "a piece behind the end": moved(offset=1 << 20),
    "a piece before the start": moved(offset=-5),
    "a piece of nothing": moved(stored=0),
    "a piece that is larger when stored": moved(stored=1 << 20),
    "a path upwards": of_manifest(entry("../a", b"1")),
    "an absolute path": of_manifest(entry("/a", b"1")),
    "a name twice": of_manifest(entry("a", b"1"), entry("a", b"1")),
    "a link that leaves": of_manifest(FileEntry("a", link="../x"), entry("b", b"1")),
    "a file behind a link": of_manifest(FileEntry("a", link="b"), entry("a/c", b"1")),
    "a size that is not the content's": of_manifest(replace(entry("a", b"1"), size=2)),
    "an empty file that is not empty": of_manifest(replace(entry("a", b"1"), size=0)),
    "pieces that are less than the file": cut_otherwise(ONE_BYTE),
    "other pieces of the right size": cut_otherwise(*[Piece(hashlib.sha256(LARGE[:50_000]).digest(), 50_000)] * 6),
    "a piece that is larger than pieces are": cut_otherwise(Piece(hashlib.sha256(LARGE).digest(), -1)),
    "a bomb": (
        Contents(Manifest((entry("a", bytes(65_000)),)), {}, {BOMBED.digest: Spot("", 0, 60_000)}, {}),
        BOMB[:60_000],
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_bundle_that_is_not_what_its_manifest_says_leaves_nothing(tmp_path: Path, case: str) -> None:
    store = MemoryStore("code")
    contents, tail = HOSTILE[case]
    digest = put(store, contents, tail)
    with pytest.raises(CodeError, match="is damaged") as told:
        fetch_code(store, digest, tmp_path / "in" / "to")
    assert f"Delete code/{digest}" in told.value.fix
    assert [path.name for path in tmp_path.rglob("*")] in ([], ["in"])


def test_another_bundle_than_the_digest_stands_for_is_refused(tmp_path: Path) -> None:
    store = MemoryStore("code")
    store.put(code_key("0" * 64), store.get(code_key(put(store, GOOD, TAIL))))
    with pytest.raises(CodeError, match="does not have this digest"):
        fetch_code(store, "0" * 64, tmp_path / "into")


def test_every_cut_and_every_foreign_object_is_damage(tmp_path: Path) -> None:
    store = MemoryStore("code")
    key = code_key(put(store, GOOD, TAIL))
    whole = store.get(key)
    cases = [whole[:length] for length in range(0, len(whole), 7)]
    heads = [b"[]", b"{}", b"null", b'{"base": 3}', b"\xff", b"[" * 100_000]
    packed = [zlib.compress(head) for head in heads]
    cases += [MAGIC + len(head).to_bytes(4, "little") + bytes(4) + head for head in packed]
    for data in (*cases, b"", b"not a bundle" * 50):
        store.put(key, data)
        with pytest.raises(CodeError, match="is damaged"):
            fetch_code(store, GOOD.manifest.digest, tmp_path / "into")
    assert list(tmp_path.iterdir()) == []


def test_every_flipped_byte_is_noticed_or_without_meaning(tmp_path: Path) -> None:
    store = MemoryStore("code")
    key = code_key(put(store, GOOD, TAIL))
    whole = store.get(key)
    for at in range(len(whole)):
        store.put(key, whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            fetch_code(store, GOOD.manifest.digest, tmp_path / f"into {at}")
        except CodeError:
            assert not (tmp_path / f"into {at}").exists()
        else:
            assert scan(tmp_path / f"into {at}") == GOOD.manifest


def packed(store: Store, folder: Path) -> tuple[str, str]:
    """A bundle with a pack, and the key of that pack."""
    fill(folder, {"large": LARGE})
    digest = store_code(store, folder, "job").digest
    (pack,) = [found.key for found in store.list("code/packs/")]
    return digest, pack


@pytest.mark.parametrize("damage", ["gone", "cut", "other", "empty"])
def test_a_pack_that_is_not_what_it_was_leaves_nothing(tmp_path: Path, damage: str) -> None:
    store = MemoryStore("code")
    digest, pack = packed(store, tmp_path / "code")
    content = store.get(pack)
    store.delete(pack)
    if damage != "gone":
        store.put(pack, {"cut": content[:-1], "other": content[:-1] + b"x", "empty": b""}[damage])
    with pytest.raises(CodeError, match="is damaged"):
        fetch_code(store, digest, tmp_path / "into")
    assert [path.name for path in tmp_path.iterdir()] == ["code"]


def test_a_pack_that_is_said_to_be_huge_is_not_read(tmp_path: Path) -> None:
    store = CountingStore(MemoryStore("code"))
    name = "ab" * 32
    large = entry("large", LARGE)
    cuts = pieces(LARGE)
    spots = {piece.digest: Spot(name, 1 << 40, piece.size) for piece in cuts}
    digest = put(store, Contents(Manifest((large,)), {large.sha256: cuts}, spots, {name: 1 << 41}))
    with pytest.raises(CodeError, match="a pack of"):
        fetch_code(store, digest, tmp_path / "into")
    assert store.counts == {"put": 1, "get": 1}


def test_a_store_that_fails_is_no_damage(tmp_path: Path) -> None:
    class Broken(CountingStore):
        def get_range(self, key: str, start: int, size: int) -> bytes:
            raise StoreError("the network is down")

    inner = MemoryStore("code")
    digest, _ = packed(inner, tmp_path / "code")
    with pytest.raises(StoreError, match="network is down"):
        fetch_code(Broken(inner), digest, tmp_path / "into")
    assert [path.name for path in tmp_path.iterdir()] == ["code"]


def test_a_difference_to_a_difference_is_damage(tmp_path: Path) -> None:
    """Else a work dir could lead a node round in circles."""
    store = MemoryStore("code")
    put(store, GOOD, TAIL)
    second, more = inside({"a": b"1", "b": b"words and " * 500, "c": b"2"})
    put(store, replace(second, base=GOOD), more)
    fetch_code(store, second.manifest.digest, tmp_path / "second")
    third, more = inside({"a": b"1", "b": b"words and " * 500, "d": b"3"})
    digest = put(store, replace(third, base=second), more)
    with pytest.raises(CodeError, match="a base, and a difference itself"):
        fetch_code(store, digest, tmp_path / "into")
    store.delete(code_key(GOOD.manifest.digest))
    with pytest.raises(CodeError, match="is not in the work dir"):
        fetch_code(store, second.manifest.digest, tmp_path / "into")


def test_a_folder_in_use_is_never_overwritten(tmp_path: Path) -> None:
    store = MemoryStore("code")
    digest = put(store, GOOD, TAIL)
    (tmp_path / "into").mkdir()
    (tmp_path / "into" / "mine").write_text("kept")
    with pytest.raises(CodeError, match="cannot lay out the code") as told:
        fetch_code(store, digest, tmp_path / "into")
    assert "new folder" in told.value.fix
    assert [path.name for path in tmp_path.rglob("*")] == ["into", "mine"]


def test_a_place_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    store = MemoryStore("code")
    digest = put(store, GOOD, TAIL)
    (tmp_path / "file").write_text("")
    with pytest.raises(CodeError, match="cannot lay out the code"):
        fetch_code(store, digest, tmp_path / "file" / "into")


def test_only_what_is_needed_of_a_pack_is_read(tmp_path: Path) -> None:
    class Read(CountingStore):
        read = 0

        def get_range(self, key: str, start: int, size: int) -> bytes:
            found = super().get_range(key, start, size)
            self.read += len(found)
            return found

    store = Read(MemoryStore("code"))
    code = fill(tmp_path / "code", {f"{number:02}": noise(60_000, number) for number in range(40)})
    with small_limits(pack=1 << 22):
        store_code(store, code, "job")
        for number in range(40):
            if number not in (3, 4, 20, 21, 22, *range(30, 40)):
                (code / f"{number:02}").unlink()
        digest = store_code(store, code, "job").digest
    store.reset()
    store.read = 0
    fetch_code(store, digest, tmp_path / "into")
    assert scan(tmp_path / "into").digest == digest
    assert store.counts["get_range"] == 3
    assert store.read == 15 * 60_000


def test_progress_is_told_of_both_ways(code: Path, store: Store, tmp_path: Path) -> None:
    up: list[tuple[int, int]] = []
    down: list[tuple[int, int]] = []
    with small_limits():
        digest = store_code(store, code, "job", progress=lambda *told: up.append(told)).digest
        fetch_code(store, digest, tmp_path / "into", lambda *told: down.append(told))
    for told in (up, down):
        assert len(told) > 3
        assert told == sorted(told)
        assert told[0][0] == 0
        assert told[-1][0] == told[-1][1] >= 2_500_000


def test_no_such_range_is_no_such_bundle() -> None:
    with pytest.raises(NotFound):
        MemoryStore("code").get_range("code/x", 0, 1)
