"""Several things at once."""

from __future__ import annotations

import threading

import pytest

from muster.workdir.parallel import at_once

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("workers", [0, 1, 3, 50])
def test_each_is_done_once(workers: int) -> None:
    assert sorted(at_once(workers, lambda number: number * 2, range(10))) == list(range(0, 20, 2))
    assert list(at_once(workers, lambda number: number, [])) == []


def test_as_many_go_at_once_as_were_asked_for() -> None:
    together = threading.Barrier(3, timeout=30)
    assert len(list(at_once(3, lambda _number: together.wait(), range(6)))) == 6


def test_the_first_error_ends_it_and_what_was_not_begun_is_left() -> None:
    begun: list[int] = []
    failed, never = threading.Event(), threading.Event()

    def work(number: int) -> int:
        begun.append(number)
        if number == 0:
            failed.set()
            raise ValueError("broken")
        assert failed.wait(30)
        # All of them would take ten seconds: the error is told of long before the last has begun.
        assert not never.wait(0.01)
        return number

    with pytest.raises(ValueError, match="broken"):
        list(at_once(2, work, range(1000)))
    assert len(begun) < 1000
