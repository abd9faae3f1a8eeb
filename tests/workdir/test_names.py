"""Names of runs and nodes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from muster.workdir.counting import CountingStore
from muster.workdir.folder import FolderStore
from muster.workdir.names import list_runs, new_run_id, node_order

pytestmark = pytest.mark.unit


def test_run_ids_carry_the_name_and_do_not_repeat() -> None:
    ids = {new_run_id("mnist") for _ in range(2000)}
    assert len(ids) == 2000
    assert all(re.fullmatch(r"mnist-[0-9a-hjkmnp-tv-z]{8}", one) for one in ids)


def test_nodes_sort_as_people_do() -> None:
    shuffled = ["ps-2", "worker-10", "evaluator", "worker-2", "main", "ps-1", "worker-1", "x-3"]
    expected = ["main", "worker-1", "worker-2", "worker-10", "ps-1", "ps-2", "evaluator", "x-3"]
    assert sorted(shuffled, key=node_order) == expected


def test_runs_are_found_without_walking_through_them(tmp_path: Path) -> None:
    store = CountingStore(FolderStore(tmp_path))
    for run in ("b-1", "a-1"):
        store.put(f"{run}/job.json", b"{}")
        for number in range(20):
            store.put(f"{run}/logs/main/{number:08}.jsonl", b"{}\n")
    store.put("code/abc", b"")
    store.put("half-made/key", b"")
    store.put("a file.txt", b"")
    store.reset()
    assert list(list_runs(store)) == ["a-1", "b-1"]
    assert store.counts == {"list_names": 1, "get": 5}


def test_a_work_dir_that_is_not_there_has_no_runs(tmp_path: Path) -> None:
    assert list(list_runs(FolderStore(tmp_path / "none"))) == []
