"""Streams of lines in a place where nothing can be appended to."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.errors import StoreError
from muster.workdir.counting import CountingStore
from muster.workdir.folder import FolderStore
from muster.workdir.memory import MemoryStore
from muster.workdir.segments import (
    FIRST_WAIT,
    SEGMENT_BYTES,
    SegmentWriter,
    last_segment,
    read_backwards,
    read_segments,
    segments,
)

pytestmark = pytest.mark.unit

PREFIX = "run/logs/main"


class Flaky(CountingStore):
    """A store whose puts fail when told to, before or after they took effect."""

    def __init__(self) -> None:
        super().__init__(MemoryStore("flaky"))
        self.fails: str | None = None

    def put(self, key: str, data: bytes) -> None:
        if self.fails == "before":
            raise StoreError("no connection")
        super().put(key, data)
        if self.fails == "after":
            raise StoreError("the answer was lost")


def keys(store: CountingStore | MemoryStore | FolderStore) -> list[str]:
    return [entry.key for entry in store.list()]


def test_lines_become_numbered_segments() -> None:
    store = MemoryStore("s")
    writer = SegmentWriter(store, PREFIX)
    writer.flush()
    assert keys(store) == []
    writer.add(b"one")
    writer.add(b"")
    assert writer.pending() == [b"one", b""]
    writer.flush()
    writer.flush()
    writer.add(b"two")
    writer.flush()
    assert writer.pending() == []
    assert keys(store) == [f"{PREFIX}/00000001.jsonl", f"{PREFIX}/00000002.jsonl"]
    assert list(read_segments(store, PREFIX)) == [b"one", b"", b"two"]
    assert list(segments(store, PREFIX, after=1)) == [(2, [b"two"])]
    assert list(read_segments(store, PREFIX, after=2)) == []
    assert list(read_backwards(store, PREFIX)) == [[b"two"], [b"one", b""]]


def test_a_restarted_node_goes_on_behind_the_highest_number(tmp_path: Path) -> None:
    store = CountingStore(FolderStore(tmp_path))
    for number in (1, 2, 10):
        store.put(f"{PREFIX}/{number:08}.jsonl", b"old\n")
    store.put(f"{PREFIX}/notes.txt", b"no segment")
    assert last_segment(store, PREFIX) == 10
    writer = SegmentWriter(store, PREFIX)
    store.reset()
    for text in (b"new", b"newer"):
        writer.add(text)
        writer.flush()
    assert store.counts == {"list": 1, "put": 2}
    assert list(read_segments(store, PREFIX, after=10)) == [b"new", b"newer"]


def test_one_who_knows_the_first_number_need_not_look() -> None:
    store = CountingStore(MemoryStore("s"))
    writer = SegmentWriter(store, PREFIX, first=7)
    writer.add(b"x")
    writer.flush()
    assert store.counts == {"put": 1}
    assert keys(store) == [f"{PREFIX}/00000007.jsonl"]


@pytest.mark.parametrize("fails", ["before", "after"])
def test_a_failed_put_is_tried_again_with_the_same_lines(fails: str) -> None:
    store = Flaky()
    writer = SegmentWriter(store, PREFIX)
    writer.add(b"one")
    store.fails = fails
    with pytest.raises(StoreError):
        writer.flush()
    seen = list(segments(store, PREFIX))
    writer.add(b"two")
    with pytest.raises(StoreError):
        writer.flush()
    assert writer.pending() == [b"one", b"two"]
    store.fails = None
    writer.flush()
    assert list(segments(store, PREFIX)) == [(1, [b"one"]), (2, [b"two"])]
    assert seen in ([], [(1, [b"one"])])


def test_a_burst_is_cut_into_segments_of_bearable_size() -> None:
    store = MemoryStore("s")
    writer = SegmentWriter(store, PREFIX)
    lines = [b"%d" % number * (SEGMENT_BYTES // 3) for number in range(8)]
    for line in lines:
        writer.add(line)
    writer.flush()
    assert [len(found) for _, found in segments(store, PREFIX)] == [4, 4]
    assert list(read_segments(store, PREFIX)) == lines


def test_lines_wait_briefly_at_first_then_longer() -> None:
    writer = SegmentWriter(MemoryStore("s"), PREFIX, slowest=1.0)
    waits = []
    for _ in range(5):
        writer.add(b"x")
        waits.append(writer.wait())
        writer.flush()
    assert waits == [FIRST_WAIT, 0.4, 0.8, 1.0, 1.0]


def test_after_a_silence_lines_wait_briefly_again() -> None:
    writer = SegmentWriter(MemoryStore("s"), PREFIX, slowest=1.0)
    for _ in range(5):
        writer.add(b"x")
        writer.flush()
    assert writer.wait() == 1.0
    writer._flushed_at -= 1.1
    assert writer.wait() == FIRST_WAIT


def test_lines_for_which_memory_is_too_small_wait_in_a_file_and_come_in_their_order(tmp_path: Path) -> None:
    store, spill = Flaky(), tmp_path / "node" / "waiting"
    writer = SegmentWriter(store, PREFIX, spill=spill, most=1000)
    store.fails = "before"
    lines = [b"%06d" % number for number in range(1000)]
    for number, line in enumerate(lines):
        writer.add(line)
        if number % 100 == 0:
            with pytest.raises(StoreError):
                writer.flush()
    assert spill.exists()
    assert sum(map(len, writer.pending())) <= 1000
    store.fails = None
    writer.flush()
    assert list(read_segments(store, PREFIX)) == lines
    assert not spill.exists()
    for line in lines:
        writer.add(line)
    writer.flush()
    assert list(read_segments(store, PREFIX)) == [*lines, *lines]


def test_a_file_that_cannot_be_written_loses_no_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = MemoryStore("s")
    writer = SegmentWriter(store, PREFIX, spill=tmp_path / "file" / "waiting", most=10)
    lines = [b"%06d" % number for number in range(100)]
    for line in lines:
        writer.add(line)
    writer.flush()
    assert list(read_segments(store, PREFIX)) == lines


class Full(io.BytesIO):
    """A disk on which there is room for so much and no more."""

    room = 300

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self.room:
            super().write(data[: self.room - self.tell()])
            raise OSError(28, "No space left on device")
        return super().write(data)


def test_a_disk_that_fills_up_meanwhile_loses_no_line_and_mixes_none_up(tmp_path: Path) -> None:
    store = MemoryStore("s")
    writer = SegmentWriter(store, PREFIX, spill=tmp_path / "waiting", most=50)
    lines = [b"%06d" % number for number in range(200)]
    for line in lines[:10]:
        writer.add(line)
    assert writer._lines._file is not None
    written = (tmp_path / "waiting").read_bytes()
    writer._lines._file.close()
    writer._lines._file = Full(written)
    for line in lines[10:]:
        writer.add(line)
    writer.flush()
    assert list(read_segments(store, PREFIX)) == lines
    assert not (tmp_path / "waiting").exists()


def test_many_bytes_wait_for_nothing() -> None:
    writer = SegmentWriter(MemoryStore("s"), PREFIX)
    writer.add(b"x" * SEGMENT_BYTES)
    assert writer.wait() == 0.0
    writer.flush()
    assert writer.wait() > 0


def test_lines_added_while_another_thread_flushes_are_all_there_in_order() -> None:
    store = MemoryStore("s")
    writer = SegmentWriter(store, PREFIX)
    lines = [b"%d" % number for number in range(20_000)]
    done = threading.Event()

    def flush() -> None:
        while not done.is_set():
            writer.flush()

    flushers = [threading.Thread(target=flush) for _ in range(2)]
    for flusher in flushers:
        flusher.start()
    for line in lines:
        writer.add(line)
    done.set()
    for flusher in flushers:
        flusher.join()
    writer.flush()
    assert list(read_segments(store, PREFIX)) == lines


@given(st.lists(st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line), max_size=5), max_size=5))
def test_whatever_is_added_is_read_back(batches: list[list[bytes]]) -> None:
    store = MemoryStore("s")
    writer = SegmentWriter(store, PREFIX)
    for batch in batches:
        for line in batch:
            writer.add(line)
        writer.flush()
    assert list(read_segments(store, PREFIX)) == [line for batch in batches for line in batch]


def test_a_segment_that_is_taken_away_while_reading_is_left_out() -> None:
    store = MemoryStore("s")
    writer = SegmentWriter(store, PREFIX)
    for line in (b"1", b"2", b"3"):
        writer.add(line)
        writer.flush()
    found = read_segments(store, PREFIX)
    assert next(found) == b"1"
    store.delete(f"{PREFIX}/00000002.jsonl")
    assert list(found) == [b"3"]
    backwards = read_backwards(store, PREFIX)
    assert next(backwards) == [b"3"]
    store.delete(f"{PREFIX}/00000001.jsonl")
    assert list(backwards) == []
