"""Names of runs and nodes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from muster.errors import RunNotFound
from muster.workdir.counting import CountingStore
from muster.workdir.folder import FolderStore
from muster.workdir.names import find_run, new_run_id, node_order

pytestmark = pytest.mark.unit


def test_run_ids_carry_the_name_and_do_not_repeat() -> None:
    ids = {new_run_id("mnist") for _ in range(2000)}
    assert len(ids) == 2000
    assert all(re.fullmatch(r"mnist-[0-9a-hjkmnp-tv-z]{8}", one) for one in ids)


def test_nodes_sort_as_people_do() -> None:
    shuffled = ["ps-2", "worker-10", "evaluator", "worker-2", "main", "ps-1", "worker-1", "x-3"]
    expected = ["main", "worker-1", "worker-2", "worker-10", "ps-1", "ps-2", "evaluator", "x-3"]
    assert sorted(shuffled, key=node_order) == expected


def test_a_run_is_found_by_as_much_of_its_id_as_is_its_own(tmp_path: Path) -> None:
    store = CountingStore(FolderStore(tmp_path))
    for run in ("mnist-aaaa", "mnist-abbb", "other-cccc"):
        store.put(f"{run}/job.json", b"{}")
    store.put("other/no-run", b"")
    store.reset()
    assert find_run(store, "mnist-aaaa") == "mnist-aaaa"
    assert store.counts == {"get": 1}
    assert find_run(store, "mnist-ab") == "mnist-abbb"
    assert find_run(store, "other") == "other-cccc"
    with pytest.raises(RunNotFound, match="'mnist' could be any of mnist-aaaa, mnist-abbb"):
        find_run(store, "mnist")
    for wish in ("nobody", "", "mnist-aaaa/job.json"):
        with pytest.raises(RunNotFound, match="no run is called"):
            find_run(store, wish)
