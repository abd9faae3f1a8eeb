"""Insisting on an answer of a store that is out of reach for a while."""

from __future__ import annotations

import asyncio
from itertools import islice

import pytest

from muster.errors import AlreadyExists, StoreError
from muster.node.waiting import delays, insist

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


def test_waits_grow_to_their_bound() -> None:
    waits = list(islice(delays(slowest=1.0, first=0.1), 30))
    assert waits[0] <= 0.125
    assert all(0.75 <= wait <= 1.25 for wait in waits[-10:])
