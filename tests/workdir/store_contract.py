"""What every store promises. A store's own test module subclasses these and gives the `store` fixture."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.errors import AlreadyExists, NotFound, StoreError
from muster.workdir.files import sha256_of
from muster.workdir.store import Store

ODD_KEYS = [
    "with space/and  two",
    "hash#mark",
    "tab\there",
    "line\nbreak",
    "Ünïcödé/文件/🚀",
    "per%20cent?query=1&x",
    "back\\slash",
    "quote'\"`$(x)",
    "-dash",
    "~home",
    ".hidden/..also",
    "trailing.",
    "trailing ",
    "*[?]",
]

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=20)
keys = st.lists(names.filter(lambda name: name not in (".", "..")), min_size=1, max_size=3).map("/".join)

# The store is one for all examples, each below a place of its own; the suite runs for several stores.
once_per_test = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    max_examples=60,
    deadline=None,
)
fresh = count()


class StoreContract:
    """Promises about one key, about listings, and about many who write at once."""

    def test_what_was_put_is_read_back_at_once(self, store: Store) -> None:
        store.put("run/nodes/main.json", b"one")
        assert store.get("run/nodes/main.json") == b"one"
        store.put("run/nodes/main.json", b"two")
        assert store.get("run/nodes/main.json") == b"two"

    def test_create_takes_a_key_only_once_and_leaves_the_first_content(self, store: Store) -> None:
        store.create("run/key", b"first")
        with pytest.raises(AlreadyExists, match="run/key"):
            store.create("run/key", b"second")
        assert store.get("run/key") == b"first"

    def test_a_key_that_was_put_cannot_be_created_and_one_deleted_can(self, store: Store) -> None:
        store.put("a", b"put")
        with pytest.raises(AlreadyExists):
            store.create("a", b"created")
        store.delete("a")
        store.create("a", b"created")
        assert store.get("a") == b"created"

    def test_a_missing_key_is_not_found(self, store: Store, tmp_path: Path) -> None:
        store.put("there/is/this", b"")
        for missing in ("nothing", "there", "there/is", "there/is/this/not", "there/is/no"):
            with pytest.raises(NotFound, match=missing):
                store.get(missing)
            with pytest.raises(NotFound, match=missing):
                store.get_file(missing, tmp_path / "copy")
        assert not (tmp_path / "copy").exists()

    def test_an_empty_object_is_an_object(self, store: Store) -> None:
        store.put("empty", b"")
        store.create("empty-too", b"")
        assert store.get("empty") == store.get("empty-too") == b""
        assert [(entry.key, entry.size) for entry in store.list()] == [("empty", 0), ("empty-too", 0)]

    def test_eight_megabytes_come_back_whole(self, store: Store) -> None:
        data = bytes(range(256)) * (8 * 4096)
        store.put("put", data)
        store.create("created", data)
        assert store.get("put") == store.get("created") == data
        assert [entry.size for entry in store.list()] == [len(data), len(data)]

    @pytest.mark.parametrize(
        ("start", "size", "found"),
        [
            (0, 4, b"0123"),
            (3, 4, b"3456"),
            (8, 4, b"89"),
            (10, 4, b""),
            (99, 1, b""),
            (4, 0, b""),
            (0, 99, b"0123456789"),
        ],
    )
    def test_a_range_is_what_there_is_of_it(self, store: Store, start: int, size: int, found: bytes) -> None:
        store.put("file", b"0123456789")
        assert store.get_range("file", start, size) == found

    def test_a_range_of_nothing_is_nothing_and_of_a_missing_key_not_found(self, store: Store) -> None:
        store.put("empty", b"")
        assert store.get_range("empty", 0, 10) == store.get_range("empty", 5, 10) == b""
        with pytest.raises(NotFound, match="nowhere"):
            store.get_range("nowhere", 0, 10)

    def test_a_large_file_comes_back_whole_and_in_ranges(self, store: Store, tmp_path: Path) -> None:
        source, target = tmp_path / "source", tmp_path / "target"
        block = hashlib.sha256(b"large").digest() * 32768
        with source.open("wb") as file:
            for number in range(24):
                file.write(bytes([number]) + block[1:])
            file.write(b"the end")
        store.put_file("large", source)
        store.get_file("large", target)
        assert sha256_of(target) == sha256_of(source)
        assert store.get_range("large", 23 << 20, 2 << 20) == bytes([23]) + block[1:] + b"the end"
        assert [entry.size for entry in store.list("large")] == [(24 << 20) + 7]

    def test_a_tag_changes_with_the_content_and_only_then(self, store: Store) -> None:
        store.put("a", b"one")
        store.put("b", b"other")
        tags = {entry.key: entry.tag for entry in store.list()}
        assert {entry.key: entry.tag for entry in store.list()} == tags
        store.put("a", b"two")
        now = {entry.key: entry.tag for entry in store.list()}
        assert now["b"] == tags["b"]
        assert now["a"] != tags["a"] or not tags["a"]

    def test_a_key_knows_when_it_was_written(self, store: Store) -> None:
        before = time.time()
        store.put("a", b"")
        (entry,) = store.list()
        assert before - 2 <= entry.modified <= time.time() + 2

    def test_files_go_in_and_come_out(self, store: Store, tmp_path: Path) -> None:
        data = bytes(range(251)) * 20_000
        source, target = tmp_path / "source", tmp_path / "new" / "folder" / "target"
        source.write_bytes(data)
        store.put_file("file", source)
        source.write_bytes(b"changed afterwards")
        store.get_file("file", target)
        assert target.read_bytes() == store.get("file") == data
        assert [path.name for path in target.parent.iterdir()] == ["target"]

    def test_a_file_is_replaced_by_what_comes_out(self, store: Store, tmp_path: Path) -> None:
        target = tmp_path / "target"
        target.write_bytes(b"a longer old content")
        store.put("file", b"new")
        store.get_file("file", target)
        assert target.read_bytes() == b"new"

    def test_a_source_that_is_not_there_puts_nothing(self, store: Store, tmp_path: Path) -> None:
        with pytest.raises(NotFound, match="no-such-file"):
            store.put_file("file", tmp_path / "no-such-file")
        assert list(store.list()) == []

    def test_delete_may_be_repeated(self, store: Store) -> None:
        store.put("run/a", b"")
        store.delete("run/a")
        store.delete("run/a")
        store.delete("never/there")
        assert list(store.list()) == []
        assert list(store.list_names()) == []

    def test_many_are_deleted_at_once_whether_they_are_there_or_not(self, store: Store) -> None:
        keys = [f"run/{number}/odd {number}?&<>%20" for number in range(25)]
        for key in keys:
            store.put(key, b"")
        store.put("stays", b"")
        store.delete_all(iter([*keys, "never/there"]))
        store.delete_all([])
        assert [entry.key for entry in store.list()] == ["stays"]

    def test_delete_of_what_only_begins_keys_takes_nothing(self, store: Store) -> None:
        store.put("run/a", b"kept")
        store.delete("run")
        store.delete("run/a/b")
        assert store.get("run/a") == b"kept"

    @pytest.mark.parametrize(
        "key",
        ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a/..", "nul\0", "lone\udc80surrogate"],
    )
    def test_what_is_no_key_is_refused_by_every_call(self, store: Store, key: str, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")
        calls: list[Callable[[], object]] = [
            lambda: store.create(key, b""),
            lambda: store.put(key, b""),
            lambda: store.put_file(key, tmp_path / "file"),
            lambda: store.get(key),
            lambda: store.get_file(key, tmp_path / "copy"),
            lambda: store.delete(key),
        ]
        for call in calls:
            with pytest.raises(StoreError, match="not a key"):
                call()

    @pytest.mark.parametrize("key", ODD_KEYS)
    def test_odd_names_are_names(self, store: Store, key: str) -> None:
        store.create(key, b"odd")
        store.put(f"folder/{key}", b"odd too")
        assert store.get(key) == b"odd"
        assert sorted([key, f"folder/{key}"]) == [entry.key for entry in store.list()]
        assert next(store.list(key)).key == key

    @given(found=st.dictionaries(keys, st.binary(max_size=100), max_size=6))
    @once_per_test
    def test_any_key_keeps_any_bytes(self, store: Store, found: dict[str, bytes]) -> None:
        # Below folders of their own, because a file cannot stand where another key needs a folder.
        place = f"{next(fresh)}"
        kept = {f"{place}/{number}/{key}": data for number, (key, data) in enumerate(found.items())}
        for key, data in kept.items():
            store.create(key, data)
        assert {entry.key: store.get(entry.key) for entry in store.list(f"{place}/")} == kept


class ListingContract:
    """Promises about what a listing shows, and in which order."""

    KEYS = ("a.txt", "a/b", "a/b.c", "a/c/d", "a0", "b", "ä/ö", "文", "🚀")

    def fill(self, store: Store) -> None:
        for key in reversed(self.KEYS):
            store.put(key, key.encode())

    def listed(self, store: Store, prefix: str = "", after: str = "") -> list[str]:
        return [entry.key for entry in store.list(prefix, after)]

    def test_an_empty_store_lists_nothing(self, store: Store) -> None:
        assert self.listed(store) == list(store.list_names()) == []

    def test_keys_come_in_the_order_of_their_bytes_with_their_sizes(self, store: Store) -> None:
        self.fill(store)
        assert self.listed(store) == sorted(self.KEYS, key=str.encode)
        assert all(entry.size == len(entry.key.encode()) for entry in store.list())

    @pytest.mark.parametrize(
        ("prefix", "found"),
        [
            ("a/", ["a/b", "a/b.c", "a/c/d"]),
            ("a", ["a.txt", "a/b", "a/b.c", "a/c/d", "a0"]),
            ("a/b", ["a/b", "a/b.c"]),
            ("a/c/d", ["a/c/d"]),
            ("a/c/d/", []),
            ("none", []),
            ("none/at/all", []),
            ("/", []),
            ("../", []),
            ("a//", []),
            ("ä", ["ä/ö"]),
            ("\0", []),
            ("a/\udc80", []),
        ],
    )
    def test_a_prefix_is_text_not_a_folder(self, store: Store, prefix: str, found: list[str]) -> None:
        self.fill(store)
        assert self.listed(store, prefix) == found

    @pytest.mark.parametrize(
        "after", ["", "a", "a.txt", "a/", "a/b", "a/b.", "a/c", "a/c/d", "a/~", "a0", "b/", "zz", "🚀"]
    )
    def test_after_starts_behind_a_key_that_need_not_exist(self, store: Store, after: str) -> None:
        self.fill(store)
        assert self.listed(store, "", after) == [key for key in self.KEYS if key.encode() > after.encode()]
        assert self.listed(store, "a/", after) == [
            key for key in self.KEYS if key.startswith("a/") and key.encode() > after.encode()
        ]

    @given(
        tree=st.lists(st.tuples(st.sampled_from("abc."), st.sampled_from("xy-/0é")), max_size=12),
        prefix=st.text("ab./", max_size=3),
        after=st.text("abc./-x", max_size=4),
    )
    @once_per_test
    def test_any_prefix_and_after_give_what_sorting_gives(
        self, store: Store, tree: list[tuple[str, str]], prefix: str, after: str
    ) -> None:
        place = f"{next(fresh)}/"
        wanted = sorted({f"{place}{first}_{last.replace('/', '_/_')}" for first, last in tree}, key=str.encode)
        for key in wanted:
            store.put(key, b"")
        found = self.listed(store, place + prefix, place + after)
        assert found == [key for key in wanted if key.startswith(place + prefix) and key > place + after]

    def test_names_one_level_down_each_once(self, store: Store) -> None:
        self.fill(store)
        assert list(store.list_names()) == ["a", "a.txt", "a0", "b", "ä", "文", "🚀"]
        assert list(store.list_names("a/")) == ["b", "b.c", "c"]
        assert list(store.list_names("a/c/")) == ["d"]
        assert list(store.list_names("none/")) == []
        assert list(store.list_names("../")) == []
        assert list(store.list_names("b/")) == []

    def test_names_below_something_that_is_no_level_are_refused(self, store: Store) -> None:
        with pytest.raises(StoreError, match="end in '/'"):
            store.list_names("a")

    def test_what_is_deleted_while_listing_is_left_out(self, store: Store) -> None:
        for number in range(50):
            store.put(f"run/{number:02}/segment", b"")
        for number, entry in enumerate(store.list()):
            assert entry.key == f"run/{number:02}/segment"
            store.delete(entry.key)
        assert self.listed(store) == []


class ConcurrencyContract:
    """Promises about many who write and read at the same time."""

    def test_of_64_who_create_one_key_exactly_one_wins(self, store: Store) -> None:
        together = threading.Barrier(64)

        def claim(number: int) -> bool:
            together.wait()
            try:
                store.create("run/generations/000001/MAIN_config.json", b"%d" % number * 1000)
            except AlreadyExists:
                return False
            return True

        with ThreadPoolExecutor(64) as pool:
            won = [number for number, one in enumerate(pool.map(claim, range(64))) if one]
        assert len(won) == 1 or (won and not store.capabilities.atomic_create)
        assert store.get("run/generations/000001/MAIN_config.json") in [b"%d" % number * 1000 for number in won]

    def test_a_reader_sees_the_old_or_the_new_never_a_part(self, store: Store) -> None:
        assert store.capabilities.whole_puts
        contents = [b"%d" % (number % 10) * 200_000 for number in range(60)]
        store.put("beat", contents[0])
        done = threading.Event()

        def write() -> None:
            for content in contents:
                store.put("beat", content)
            done.set()

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            while not done.is_set():
                seen = store.get("beat")
                assert len(seen) == 200_000
                assert seen == seen[:1] * 200_000
            writing.result()
        assert store.get("beat") == contents[-1]

    def test_one_who_finds_a_created_key_finds_all_of_it(self, store: Store) -> None:
        assert store.capabilities.whole_puts
        contents = [b"%d" % (number % 10) * 200_000 for number in range(60)]

        def look(number: int) -> bytes:
            while f"run/{number}" not in [entry.key for entry in store.list(f"run/{number}")]:
                pass
            return store.get(f"run/{number}")

        def make() -> None:
            for number, content in enumerate(contents):
                store.create(f"run/{number}", content)

        with ThreadPoolExecutor(1) as pool:
            making = pool.submit(make)
            assert [look(number) for number in range(60)] == contents
            making.result()

    def test_putting_beside_deleting_loses_nothing(self, store: Store) -> None:
        def come_and_go(number: int) -> None:
            for _ in range(50):
                store.put(f"run/nodes/{number}", b"x")
                assert store.get(f"run/nodes/{number}") == b"x"
                store.delete(f"run/nodes/{number}")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(come_and_go, range(8)))
        assert list(store.list()) == []
