"""Insisting on an answer of a store that is out of reach for a while."""

from __future__ import annotations

import asyncio
import threading
from itertools import islice

import pytest

from muster.errors import AlreadyExists, StoreBusy, StoreError
from muster.node.asking import ask
from muster.node.waiting import delays, insist, persist

pytestmark = pytest.mark.unit


class Away:
    """A store that fails so many times before it answers."""

    def __init__(self, times: int, error: type[StoreError] = StoreError) -> None:
        self.times, self.error, self.asked = times, error, 0

    def __call__(self) -> str:
        self.asked += 1
        if self.asked <= self.times:
            raise self.error("away")
        return "here"


def test_a_store_that_comes_back_answers() -> None:
    store = Away(2)
    assert asyncio.run(insist(store)) == "here"
    assert store.asked == 3


def test_one_that_stays_away_is_an_error_in_the_end() -> None:
    store = Away(1000)
    with pytest.raises(StoreError, match="away"):
        asyncio.run(insist(store, within=0.3))
    assert 1 < store.asked < 20


def test_an_answer_that_will_not_change_is_taken_at_once() -> None:
    store = Away(1000, AlreadyExists)
    with pytest.raises(AlreadyExists):
        asyncio.run(insist(store))
    assert store.asked == 1


def test_one_that_never_answers_is_an_error_too() -> None:
    answer = threading.Event()
    with pytest.raises(StoreError, match="did not answer"):
        asyncio.run(insist(answer.wait, within=0.3))
    answer.set()


def test_long_work_is_tried_again_until_the_store_is_back_and_each_failure_is_told() -> None:
    store, told = Away(2, StoreBusy), list[StoreError]()
    assert asyncio.run(persist(store, told.append)) == "here"
    assert [str(error) for error in told] == ["away", "away"]


def test_long_work_that_fails_for_another_reason_is_not_tried_again() -> None:
    store = Away(1000)
    with pytest.raises(StoreError, match="away"):
        asyncio.run(persist(store))
    assert store.asked == 1


def test_long_work_that_gets_on_in_between_may_lose_the_store_for_so_long_each_time() -> None:
    store = Away(2, StoreBusy)
    assert asyncio.run(persist(store, progress=lambda: store.asked, within=0.0)) == "here"


def test_long_work_that_does_not_get_on_fails_when_the_store_stays_away() -> None:
    store = Away(2, StoreBusy)
    with pytest.raises(StoreBusy):
        asyncio.run(persist(store, within=0.0))
    assert store.asked == 2


def test_long_work_is_never_broken_off() -> None:
    assert asyncio.run(persist(lambda: threading.Event().wait(0.2), within=0.0)) is False


def test_requests_that_hang_keep_no_other_from_its_thread() -> None:
    answer = threading.Event()

    async def many() -> tuple[str, int]:
        hanging = [asyncio.ensure_future(ask(answer.wait)) for _ in range(100)]
        said, there = await ask(lambda: "here"), len([one for one in hanging if not one.done()])
        await asyncio.to_thread(answer.set)
        await asyncio.gather(*hanging)
        return said, there

    assert asyncio.run(many()) == ("here", 100)


def test_a_thread_carries_out_one_request_after_the_other() -> None:
    async def idents() -> set[int]:
        return {await ask(threading.get_ident) for _ in range(50)}

    assert len(asyncio.run(idents())) < 25


def test_waits_grow_to_their_bound() -> None:
    waits = list(islice(delays(slowest=1.0, first=0.1), 30))
    assert waits[0] <= 0.125
    assert all(0.75 <= wait <= 1.25 for wait in waits[-10:])
