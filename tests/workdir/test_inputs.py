"""Inputs: laid out from a store, kept by their digest for the next run, shared out between nodes."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from muster.errors import CodeError, NodeError, NotFound, StoreError
from muster.frameworks.registry import framework
from muster.node.preparing import lay_out_inputs, share_of
from muster.node.settings import Settings
from muster.node.surroundings import process_environment
from muster.spec.job import Input, Job, Role, Workers
from muster.workdir import inputs, opening
from muster.workdir.counting import CountingStore
from muster.workdir.input_cache import InputCache
from muster.workdir.inputs import Share, check_input, lay_out
from muster.workdir.memory import MemoryStore
from tests.workdir.servers import Web
from tests.workdir.servers import web as serving

FILES = {f"part-{number}/data.bin": b"%d" % number * 1000 for number in range(7)}


class World:
    """A place to fetch from that counts, and a place to lay out at."""

    def __init__(self, store: MemoryStore, folder: Path) -> None:
        self.store, self.counting, self.folder = store, CountingStore(store), folder
        self.said: list[str] = []

    def lay_out(self, name: str = "data", share: Share | None = None, at: str = "one", place: str = "") -> Path:
        target = self.folder / at / name
        target.parent.mkdir(exist_ok=True)
        lay_out(name, place or self.store.url, target, share, self.said.append)
        return target

    def fetched(self) -> int:
        return self.counting.counts.get("get_file", 0)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))
    made = World(MemoryStore.named(tmp_path.name), tmp_path)
    for path, content in FILES.items():
        made.store.put(path, content)

    def opened(url: str) -> CountingStore | MemoryStore:
        return made.counting if url == made.store.url else MemoryStore.named(url.partition("://")[2])

    monkeypatch.setattr(inputs, "open_store", opened)
    return made


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_of_a_store_is_laid_out_as_it_is(world: World) -> None:
    assert tree(world.lay_out()) == FILES
    assert world.fetched() == len(FILES)


def test_a_second_run_of_the_machine_fetches_nothing(world: World) -> None:
    world.lay_out()
    assert tree(world.lay_out(at="two")) == FILES
    assert world.fetched() == len(FILES)


def test_only_what_changed_is_fetched_again(world: World) -> None:
    world.lay_out()
    world.store.put("part-3/data.bin", b"new")
    world.store.put("part-9/data.bin", b"more")
    changed = {**FILES, "part-3/data.bin": b"new", "part-9/data.bin": b"more"}
    assert tree(world.lay_out(at="two")) == changed
    assert world.fetched() == len(FILES) + 2


def test_the_same_content_is_kept_once(world: World, tmp_path: Path) -> None:
    for number in range(5):
        world.store.put(f"again/{number}", b"same")
    world.lay_out()
    objects = list((tmp_path / "home" / "inputs" / "objects").iterdir())
    assert len(objects) == len(FILES) + 1


def test_a_script_that_writes_to_an_input_spoils_it_for_nobody(world: World) -> None:
    first = world.lay_out() / "part-0/data.bin"
    first.chmod(0o644)
    first.write_bytes(b"spoilt, and longer than before" * 100)
    assert tree(world.lay_out(at="two")) == FILES


def test_what_was_fetched_for_one_run_outlives_the_folder_of_that_run(world: World) -> None:
    shutil.rmtree(world.lay_out().parent)
    assert tree(world.lay_out(at="two")) == FILES
    assert world.fetched() == len(FILES)


def test_nodes_of_one_machine_fetch_together_once(world: World) -> None:
    together = threading.Barrier(4)

    def node(number: int) -> dict[str, bytes]:
        together.wait()
        return tree(world.lay_out(at=f"node-{number}"))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(node, range(4))) == [FILES] * 4
    assert world.fetched() == len(FILES)


def test_shares_are_disjoint_and_together_all(world: World) -> None:
    found = [tree(world.lay_out(share=Share(number, 3), at=f"node-{number}")) for number in range(3)]
    assert sorted(len(one) for one in found) == [2, 2, 3]
    assert {path: content for one in found for path, content in one.items()} == FILES
    assert world.fetched() == len(FILES)


def test_more_nodes_than_files_have_an_empty_share(world: World) -> None:
    place = world.lay_out(share=Share(8, 9))
    assert place.is_dir()
    assert tree(place) == {}


def test_one_object_is_one_file(world: World) -> None:
    above = MemoryStore.named(f"{world.folder.name}-above")
    above.put("model.bin", b"weights")
    above.put("model.bin.old", b"other")
    place = world.lay_out(name="model", place=f"{above.url}/model.bin")
    assert place.read_bytes() == b"weights"


def test_nothing_there_is_an_error_that_says_so(world: World) -> None:
    with pytest.raises(NotFound, match="there is nothing at memory://nowhere-at-all/x") as told:
        world.lay_out(place="memory://nowhere-at-all/x")
    assert "list" in told.value.fix
    assert list((world.folder / "one").iterdir()) == []


def test_objects_that_no_disk_can_hold_together_are_refused(world: World) -> None:
    world.store.put("part-1", b"a file where a folder is")
    with pytest.raises(StoreError, match=r"'part-1' and one below it, 'part-1/data\.bin'"):
        world.lay_out()


def test_a_disk_that_is_too_small_is_said_before_anything_is_fetched(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(world.folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda _place: usage._replace(total=10_000, free=4_000))
    with pytest.raises(StoreError, match="needs 7KB more") as told:
        world.lay_out()
    assert "shard: true" in told.value.fix
    assert world.fetched() == 0


def test_what_was_used_longest_ago_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = [10_000]

    def usage(_place: Path) -> shutil._ntuple_diskusage:
        used = sum(path.stat().st_size for path in (tmp_path / "objects").iterdir())
        return shutil._ntuple_diskusage(10_000, used, free[0] - used)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    for age, place in enumerate(("old", "newer")):
        cache = InputCache(place, tmp_path)
        with cache.held():
            content = place.encode() * 500
            cache.fetch("a", "tag", lambda to, content=content: to.write_bytes(content) and None)  # type: ignore[misc]
        (known,) = [file for file in (tmp_path / "known").glob("*.json") if place_of(file, place)]
        os.utime(known, (age, age))
    cache = InputCache("third", tmp_path)
    with cache.held():
        assert cache.make_room(6_500) == 0
        assert [path.read_bytes()[:5] for path in (tmp_path / "objects").iterdir()] == [b"newer"]
        assert cache.make_room(100_000) == 90_500


def place_of(file: Path, place: str) -> bool:
    return file == InputCache(place, file.parent.parent)._file


def test_damaged_knowledge_is_no_knowledge(world: World, tmp_path: Path) -> None:
    world.lay_out()
    for file in (tmp_path / "home" / "inputs" / "known").glob("*.json"):
        file.write_text("{half")
    assert tree(world.lay_out(at="two")) == FILES
    assert world.fetched() == 2 * len(FILES)


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as made:
        yield made


def test_a_download_with_a_checksum_is_kept_and_one_without_comes_anew(world: World, web: Web) -> None:
    import hashlib

    web.answers["/set.csv"] = b"1,2,3\n"
    url = web.url("/set.csv")
    for at in ("one", "two"):
        assert world.lay_out(name="csv", at=at, place=url).read_bytes() == b"1,2,3\n"
    assert web.asked == ["/set.csv"] * 2
    marked = f"{url}#sha256={hashlib.sha256(b'1,2,3' + bytes([10])).hexdigest()}"
    for at in ("three", "four"):
        assert world.lay_out(name="csv", at=at, place=marked).read_bytes() == b"1,2,3\n"
    assert web.asked == ["/set.csv"] * 3


def test_a_download_that_is_another_file_is_refused(world: World, web: Web) -> None:
    web.answers["/set.csv"] = b"other"
    with pytest.raises(CodeError, match="not the file that the job wants"):
        world.lay_out(name="csv", place=f"{web.url('/set.csv')}#sha256={'0' * 64}")


def test_a_path_of_this_machine_is_linked(world: World, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    assert world.lay_out(place=str(tmp_path / "set")).readlink() == tmp_path / "set"


def test_a_folder_of_this_machine_is_shared_by_links(tmp_path: Path) -> None:
    for path, content in FILES.items():
        (tmp_path / "set" / path).parent.mkdir(parents=True)
        (tmp_path / "set" / path).write_bytes(content)
    (tmp_path / "laid").mkdir()
    for number in range(3):
        lay_out("data", str(tmp_path / "set"), tmp_path / "laid" / str(number), Share(number, 3), print)
    found = [tree(tmp_path / "laid" / str(number)) for number in range(3)]
    assert sorted(len(one) for one in found) == [2, 2, 3]
    assert {path: content for one in found for path, content in one.items()} == FILES
    assert (tmp_path / "laid/0/part-0/data.bin").is_symlink()


def test_what_can_never_be_laid_out_is_said_when_it_is_planned(tmp_path: Path) -> None:
    check_input("data", str(tmp_path))
    check_input("data", "https://host/set.csv")
    check_input("data", "memory://set")
    with pytest.raises(CodeError, match="inputs: data: /no/such/place is not there"):
        check_input("data", "/no/such/place")
    with pytest.raises(StoreError):
        check_input("data", "s3://")
    assert opening.KINDS


@pytest.mark.parametrize(
    ("name", "node", "computes", "share"),
    [
        ("pytorch", "main", True, Share(0, 4)),
        ("pytorch", "worker-1", True, Share(1, 4)),
        ("pytorch", "worker-3", True, Share(3, 4)),
        ("pytorch", "main", False, None),
        ("pytorch", "worker-1", False, Share(0, 3)),
        ("dask", "main", True, None),
        ("dask", "worker-3", True, Share(2, 3)),
        ("tensorflow", "ps-1", True, None),
    ],
)
def test_the_computing_nodes_share(name: str, node: str, computes: bool, share: Share | None) -> None:
    roles = {} if computes else {"main": Role(computes=False)}
    job = Job(name="x", framework=name, workers=Workers(3, 3), roles=roles)
    assert share_of(job, framework(name), node) == share


@pytest.mark.parametrize("node", [None, "worker-4", "worker-x", "someone"])
def test_a_node_without_a_number_has_no_share(node: str | None) -> None:
    job = Job(name="x", framework="pytorch", workers=Workers(3, 3))
    with pytest.raises(NodeError, match="has no share") as told:
        share_of(job, framework("pytorch"), node)
    assert "worker-1 to worker-3" in told.value.fix


def settings_of(folder: Path, node: str) -> Settings:
    return Settings(work_dir="", run="run", role=node.partition("-")[0], node=node, job=None, folder=folder / node)


def test_code_that_outlives_a_node_shows_each_run_its_own_inputs(world: World, tmp_path: Path) -> None:
    code, said = tmp_path / "image", world.said
    job = Job(name="x", framework="pytorch", inputs={"data": Input(world.store.url)})
    first = settings_of(tmp_path / "first", "main")
    lay_out_inputs(first, job, code, framework("pytorch"), said.append)
    assert tree(code / "inputs" / "data") == FILES
    shutil.rmtree(first.folder)
    world.store.put("part-0/data.bin", b"new")
    lay_out_inputs(settings_of(tmp_path / "second", "main"), job, code, framework("pytorch"), said.append)
    assert tree(code / "inputs" / "data") == {**FILES, "part-0/data.bin": b"new"}
    assert said == []


def test_nodes_that_share_their_code_are_told_where_their_own_share_is(world: World, tmp_path: Path) -> None:
    code, said = tmp_path / "image", world.said
    job = Job(name="x", framework="pytorch", workers=Workers(1, 1), inputs={"data": Input(world.store.url, shard=True)})
    places = []
    for node in ("main", "worker-1"):
        settings = settings_of(tmp_path, node)
        lay_out_inputs(settings, job, code, framework("pytorch"), said.append)
        places.append(Path(process_environment(settings, job, code, {})["MUSTER_INPUTS"]) / "data")
    assert {**tree(places[0]), **tree(places[1])} == FILES
    assert len(said) == 1
    assert str(places[1]) in said[0]


def test_what_came_before_an_error_need_not_come_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    get_file, failing = CountingStore.get_file, [True]

    def fails_once(store: CountingStore, key: str, path: Path) -> None:
        if key == "part-6/data.bin" and failing.pop():
            failing.append(False)
            raise StoreError("it broke")
        get_file(store, key, path)

    monkeypatch.setattr(CountingStore, "get_file", fails_once)
    with pytest.raises(StoreError, match="it broke"):
        world.lay_out()
    assert tree(world.lay_out()) == FILES
    assert world.fetched() == len(FILES)


def test_what_no_place_names_any_more_makes_room(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world.lay_out()
    for path in FILES:
        world.store.put(path, b"changed" + path.encode())
    objects = tmp_path / "home" / "inputs" / "objects"
    assert len(list(objects.iterdir())) == len(FILES)
    usage = shutil.disk_usage(world.folder)
    full = iter([True])
    monkeypatch.setattr(
        shutil, "disk_usage", lambda _place: usage._replace(total=1000, free=0 if next(full, False) else 1000)
    )
    world.lay_out(at="two")
    assert len(list(objects.iterdir())) == len(FILES)


def test_equal_contents_do_not_push_each_other_out(world: World) -> None:
    for number in range(3):
        world.store.put(f"twins/{number}", b"same")
    for at in ("one", "two", "three"):
        world.lay_out(at=at)
    assert world.fetched() == len(FILES) + 3
