"""Of the code in a work dir nothing is taken away that a run or a launcher may need."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from muster.workdir.bundle import fetch_code, scan, store_code, unused_code
from muster.workdir.code_reading import code_key, latest_key, read_contents
from muster.workdir.memory import MemoryStore

from .code_desk import fill, noise, small_limits

pytestmark = pytest.mark.unit

DAY = 86400.0


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore("code")


def change(store: MemoryStore, code: Path, files: dict[str, bytes], job: str = "job") -> str:
    fill(code, files)
    with small_limits():
        return store_code(store, code, job).digest


@pytest.fixture
def digests(store: MemoryStore, tmp_path: Path) -> list[str]:
    """Three bundles of one job, each with a pack of its own; the two later ones are differences to the first."""
    files = {f"{number:02}": noise(20_000, number) for number in range(30)}
    made = [change(store, tmp_path / "code", files)]
    made += [change(store, tmp_path / "code", {"00": noise(20_000, 100 + turn)}) for turn in range(2)]
    assert [read_contents(store, digest).base is not None for digest in made] == [False, True, True]
    return made


def sweep(store: MemoryStore, *keep: str, later: float = 2 * DAY) -> list[str]:
    """What was taken away."""
    found = [entry.key for entry in unused_code(store, keep, DAY, time.time() + later)]
    store.delete_all(found)
    return found


def test_what_a_run_needs_stays_and_comes_out_whole(store: MemoryStore, digests: list[str], tmp_path: Path) -> None:
    gone = sweep(store, digests[2])
    assert code_key(digests[1]) in gone
    assert code_key(digests[0]) not in gone
    assert len([key for key in gone if key.startswith("code/packs/")]) == 1
    assert latest_key("job") not in gone
    fetch_code(store, digests[2], tmp_path / "into")
    # The base may be found there by a launcher, so it must be whole as well.
    fetch_code(store, digests[0], tmp_path / "base")
    assert sweep(store, digests[2]) == []


def test_without_runs_all_goes_but_what_others_put_there(store: MemoryStore, digests: list[str]) -> None:
    store.put("code/notes.txt", b"mine")
    store.put(f"code/{digests[0]}/x", b"mine")
    sweep(store)
    assert [entry.key for entry in store.list()] == [f"code/{digests[0]}/x", "code/notes.txt"]


def test_what_is_young_stays_with_all_that_it_needs(store: MemoryStore, digests: list[str], tmp_path: Path) -> None:
    assert sweep(store, later=0) == []
    old = {key: (data, at - 2 * DAY) for key, (data, at) in store._kept.items()}
    store._kept.update(old)
    # A launcher has just put the newest bundle, whose run is not there yet.
    store.put(code_key(digests[2]), store.get(code_key(digests[2])))
    gone = sweep(store, later=0)
    assert code_key(digests[1]) in gone
    fetch_code(store, digests[2], tmp_path / "into")


def test_what_a_launcher_builds_on_stays_while_it_sends(store: MemoryStore, digests: list[str], tmp_path: Path) -> None:
    """It has touched the pointer, and sends packs; its bundle is not there yet."""
    store._kept.update({key: (data, at - 2 * DAY) for key, (data, at) in store._kept.items()})
    store.put(latest_key("job"), digests[1].encode())
    store.put("code/packs/" + "0" * 64, b"just sent")
    gone = sweep(store, later=0)
    assert code_key(digests[2]) in gone
    assert "code/packs/" + "0" * 64 not in gone
    fetch_code(store, digests[1], tmp_path / "into")


def test_a_launcher_that_sends_touches_what_it_builds_on(
    store: MemoryStore, digests: list[str], tmp_path: Path
) -> None:
    store._kept.update({key: (data, at - 2 * DAY) for key, (data, at) in store._kept.items()})
    seen: list[list[str]] = []

    def look(_done: int, _total: int) -> None:
        seen.append(sweep(store, later=0))

    fill(tmp_path / "code", {"01": noise(20_000, 1000)})
    with small_limits():
        digest = store_code(store, tmp_path / "code", "job", progress=look).digest
    assert code_key(digests[1]) in seen[0]
    assert scan(tmp_path / "code") == fetch_code(store, digest, tmp_path / "into")


def test_a_bundle_that_cannot_be_read_keeps_every_pack(store: MemoryStore, digests: list[str]) -> None:
    store.put(code_key(digests[2]), store.get(code_key(digests[2]))[:-5])
    packs = [entry.key for entry in store.list("code/packs/")]
    assert not set(sweep(store, digests[2])) & set(packs)


def test_a_run_whose_code_is_gone_keeps_nothing_else(store: MemoryStore, digests: list[str]) -> None:
    there = [entry.key for entry in store.list()]
    assert {code_key(digest) for digest in digests} < set(there)
    assert sweep(store, "0" * 64) == there
