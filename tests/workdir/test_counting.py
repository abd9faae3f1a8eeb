"""The counting store keeps every promise of the store inside it, and counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.bucketlike import BUCKET, PAGE, BucketLike

from muster.workdir.counting import CountingStore
from muster.workdir.memory import MemoryStore
from muster.workdir.store import Store

from .store_contract import ListingContract, StoreContract

pytestmark = pytest.mark.unit


@pytest.fixture
def store() -> Store:
    return CountingStore(MemoryStore("counted"))


class TestCountingStore(StoreContract):
    pass


class TestCountingListing(ListingContract):
    pass


def test_each_call_is_counted_by_its_kind(tmp_path: Path) -> None:
    inside = MemoryStore("counted")
    store = CountingStore(inside)
    store.put("a", b"1")
    store.put("a", b"2")
    store.create("b", b"1")
    store.get_file("a", tmp_path / "a")
    store.put_file("c", tmp_path / "a")
    assert [entry.key for entry in store.list()] == list(store.list_names()) == ["a", "b", "c"]
    assert store.get("c") == b"2"
    store.delete("c")
    assert store.counts == {
        "put": 2,
        "create": 1,
        "get_file": 1,
        "put_file": 1,
        "list": 1,
        "list_names": 1,
        "get": 1,
        "delete": 1,
    }
    assert store.total == 9
    store.reset()
    assert store.counts == {}
    assert (store.url, store.capabilities) == (inside.url, inside.capabilities)


def test_a_listing_is_counted_as_a_bucket_bills_it() -> None:
    store = BucketLike(MemoryStore("counted"))
    for number in range(2 * PAGE + 1):
        store.put(f"a/{number:06}", b"")
    store.reset()
    assert len(list(store.list("a/"))) == 2 * PAGE + 1
    assert len(list(store.list("b/"))) == 0
    assert list(store.list_names()) == ["a"]
    assert store.counts == {"list": 3 + 1, "list_names": 1}
    assert store.capabilities == BUCKET
