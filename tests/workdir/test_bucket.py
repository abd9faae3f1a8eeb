"""What all buckets have in common, over the plainest bucket there can be."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from muster.errors import AccessDenied, AlreadyExists, NotFound, StoreBusy
from muster.workdir import again, bucket
from muster.workdir.bucket import DELETED_AT_ONCE, PART, BucketStore, Part
from muster.workdir.store import Capabilities, Entry, Store

from .store_contract import ConcurrencyContract, ListingContract, StoreContract

pytestmark = pytest.mark.unit


class PlainBucket:
    """Objects under a lock. `faults` are raised in turn, one by each call; `asked` has what was asked."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, str]] = {}
        self.faults: list[Exception | None] = []
        self.asked: list[str] = []
        self.done_before_fault = False
        self.page = 1000
        self._lock = threading.Lock()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(atomic_create=True, poll_seconds=0.05, parallel=4)

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.faults and (fault := self.faults.pop(0)):
            raise fault

    def put(self, name: str, data: bytes, mark: str | None = None) -> None:
        with self._lock:
            free = mark is None or name not in self.objects
            if free and (self.done_before_fault or not self.faults):
                self.objects[name] = bytes(data), mark or ""
        self._ask(f"put {name}")
        if not free:
            raise AlreadyExists(name)
        with self._lock:
            self.objects.setdefault(name, (bytes(data), mark or ""))

    def put_file(self, name: str, path: Path) -> None:
        self.put(name, path.read_bytes())

    def get(self, name: str, start: int, size: int, tag: str = "") -> Part:
        self._ask(f"get {name} {start}")
        try:
            data, _ = self.objects[name]
        except KeyError:
            raise NotFound(name) from None
        if tag and tag != self._tag(data):
            raise StoreBusy(f"{name} changed")
        return Part(data[start : start + size], len(data), self._tag(data))

    def mark(self, name: str) -> str:
        self._ask(f"mark {name}")
        return self.objects[name][1]

    def list(self, folder: str, after: str) -> Iterator[Entry]:
        for number, name in enumerate(
            sorted(name for name in list(self.objects) if name.startswith(folder) and name > after)
        ):
            if number % self.page == 0:
                self._ask(f"list {folder} {after}")
            data, _ = self.objects.get(name, (b"", ""))
            yield Entry(name, len(data), self._now(), self._tag(data))

    def names(self, folder: str) -> Iterable[str]:
        self._ask(f"names {folder}")
        return {name[len(folder) :].split("/")[0] for name in list(self.objects) if name.startswith(folder)}

    def delete(self, names: Sequence[str]) -> None:
        assert 0 < len(names) <= DELETED_AT_ONCE
        self._ask(f"delete {len(names)}")
        for name in names:
            self.objects.pop(name, None)

    @staticmethod
    def _tag(data: bytes) -> str:
        return f"{hash(data):x}"

    @staticmethod
    def _now() -> float:
        import time

        return time.time()


@pytest.fixture
def plain() -> PlainBucket:
    return PlainBucket()


@pytest.fixture
def store(plain: PlainBucket) -> BucketStore:
    return BucketStore("plain://bucket/team a/runs", plain, "team a/runs", patience=5.0)


class TestBucketStore(StoreContract):
    pass


class TestBucketListing(ListingContract):
    pass


class TestBucketConcurrency(ConcurrencyContract):
    pass


def test_names_are_below_the_prefix_and_nothing_else_is_seen(plain: PlainBucket, store: Store) -> None:
    plain.put("team a/runs-of-others/a", b"theirs")
    plain.put("team a/run", b"theirs")
    store.put("a\tb", b"ours")
    assert "team a/runs/a%09b" in plain.objects
    assert [entry.key for entry in store.list()] == [*store.list_names()] == ["a\tb"]
    store.delete_all(entry.key for entry in store.list())
    assert sorted(plain.objects) == ["team a/run", "team a/runs-of-others/a"]


def test_a_whole_bucket_may_be_a_work_dir(plain: PlainBucket) -> None:
    store = BucketStore("plain://bucket", plain, "")
    store.put("a/b", b"1")
    assert plain.objects["a/b"][0] == b"1"
    assert [entry.key for entry in store.list("a")] == ["a/b"]


def test_what_may_pass_is_asked_again_and_what_will_not_is_told_at_once(plain: PlainBucket, store: Store) -> None:
    plain.faults = [StoreBusy("slow down"), StoreBusy("slow down")]
    store.put("a", b"1")
    assert plain.asked == ["put team a/runs/a"] * 3
    plain.asked.clear()
    plain.faults = [AccessDenied("not you")]
    with pytest.raises(AccessDenied):
        store.get("a")
    assert len(plain.asked) == 1


def test_patience_ends(plain: PlainBucket) -> None:
    store = BucketStore("plain://bucket", plain, "", patience=0.0)
    plain.faults = [StoreBusy("slow down")] * 9
    for call in (lambda: store.put("a", b""), lambda: list(store.list()), lambda: store.delete("a")):
        plain.objects["x"] = b"", ""
        plain.asked.clear()
        with pytest.raises(StoreBusy, match="slow down"):
            call()
        assert len(plain.asked) == 1


def test_a_create_that_was_done_though_it_failed_is_ours(plain: PlainBucket, store: Store) -> None:
    plain.done_before_fault, plain.faults = True, [StoreBusy("lost")]
    store.create("a", b"ours")
    assert plain.asked == ["put team a/runs/a", "put team a/runs/a", "mark team a/runs/a"]
    plain.faults = [StoreBusy("lost")]
    with pytest.raises(AlreadyExists, match="plain://bucket/team a/runs"):
        store.create("a", b"ours")


def test_a_listing_that_fails_in_the_middle_goes_on_behind_what_it_has_shown(plain: PlainBucket, store: Store) -> None:
    keys = [f"n/{number:03}" for number in range(30)]
    for key in keys:
        store.put(key, b"")
    plain.page, plain.faults = 10, [None, StoreBusy("slow down"), None, None, StoreBusy("slow down")]
    plain.asked.clear()
    assert [entry.key for entry in store.list("n/")] == keys
    assert plain.asked[1:3] == ["list team a/runs/n/ ", "list team a/runs/n/ team a/runs/n/009"]


@pytest.mark.parametrize(("prefix", "last"), [("n/5", "n/4\U0010fffd"), ("n/!", ""), ("n/", ""), ("n/\ue000", "")])
def test_a_prefix_is_not_searched_from_the_start_of_its_folder(
    plain: PlainBucket, store: Store, prefix: str, last: str
) -> None:
    store.put(f"{prefix}x", b"")
    plain.asked.clear()
    assert [entry.key for entry in store.list(prefix)] == [f"{prefix}x"]
    assert plain.asked == [f"list team a/runs/n/ {f'team a/runs/{last}' if last else ''}"]


def test_large_objects_come_in_parts_of_one_version(plain: PlainBucket, store: Store, tmp_path: Path) -> None:
    data = bytes(2 * PART + 5)
    store.put("large", data)
    plain.asked.clear()
    assert store.get("large") == data
    store.get_file("large", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == data
    assert sorted(plain.asked) == sorted([f"get team a/runs/large {start}" for start in (0, PART, 2 * PART)] * 2)


def test_many_are_deleted_a_thousand_at_a_time(plain: PlainBucket, store: Store) -> None:
    store.delete_all(f"{number}" for number in range(2 * DELETED_AT_ONCE + 1))
    assert plain.asked == ["delete 1000", "delete 1000", "delete 1"]


def test_waits_grow_and_are_not_the_same_for_two_who_wait() -> None:
    one, other = ([wait for wait, _ in zip(again.waits(), range(9), strict=False)] for _ in range(2))
    assert one != other
    assert all(0.05 <= wait <= 6.0 for wait in one)
    assert max(one[:2]) < min(one[-2:])
    assert sum(one[:4]) < bucket.PATIENCE
