"""The work dir in memory keeps the same promises as any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.errors import StoreError
from muster.workdir.memory import MemoryStore
from muster.workdir.store import Store

from .store_contract import ConcurrencyContract, ListingContract, StoreContract

pytestmark = pytest.mark.unit


@pytest.fixture
def store() -> Store:
    return MemoryStore("contract")


class TestMemoryStore(StoreContract):
    pass


class TestMemoryListing(ListingContract):
    pass


class TestMemoryConcurrency(ConcurrencyContract):
    pass


def test_a_key_may_also_begin_others_as_in_a_bucket(store: Store) -> None:
    store.put("a", b"1")
    store.put("a/b", b"2")
    assert [entry.key for entry in store.list()] == ["a", "a/b"]
    assert list(store.list_names()) == ["a"]


def test_a_name_means_one_store_in_the_whole_process() -> None:
    MemoryStore.named("shared-by-name").put("a", b"1")
    assert MemoryStore.named("shared-by-name").get("a") == b"1"
    MemoryStore.named("shared-by-name").delete("a")


def test_files_that_cannot_be_read_or_written_are_told(store: Store, tmp_path: Path) -> None:
    store.put("a", b"1")
    with pytest.raises(StoreError, match="cannot read"):
        store.put_file("b", tmp_path)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="cannot write"):
        store.get_file("a", tmp_path / "file" / "below")
