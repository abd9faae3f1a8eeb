"""Faults wait for the requests they fit, and are used up."""

from __future__ import annotations

import threading

import pytest

from muster.rehearsal.counts import Counted, Counts
from muster.rehearsal.faults import Fault, Faults
from tests.harness import eventually

pytestmark = pytest.mark.unit


def test_a_fault_is_met_so_often_and_by_what_fits() -> None:
    faults = Faults()
    faults.add(Fault(status=500, method="PUT", key=r"^runs/", times=2))
    assert faults.meet("GET", "get", "runs/1") is None
    assert faults.meet("PUT", "put", "code/1") is None
    met = [faults.meet("PUT", "put", "runs/1") for _ in range(3)]
    assert [fault.status if fault else None for fault in met] == [500, 500, None]
    assert faults.waiting() == []


def test_some_may_pass_first() -> None:
    faults = Faults()
    faults.add(Fault(kind="part", skip=2))
    assert [faults.meet("PUT", "part", "x") is None for _ in range(4)] == [True, True, False, True]


def test_a_fault_without_number_lasts_until_it_is_cleared() -> None:
    faults = Faults()
    faults.add(Fault(times=None))
    assert all(faults.meet("GET", "get", "x") for _ in range(5))
    faults.clear()
    assert faults.meet("GET", "get", "x") is None


def test_away_comes_before_all_else_and_uses_nothing_up() -> None:
    faults = Faults()
    faults.add(Fault(status=500))
    faults.set_away(Fault(way="close"))
    assert faults.meet("GET", "get", "x") == Fault(way="close")
    faults.set_away(None)
    assert faults.meet("GET", "get", "x") == Fault(status=500)


def test_many_threads_meet_a_fault_no_more_often_than_it_says() -> None:
    faults = Faults()
    faults.add(Fault(times=100))
    met: list[Fault] = []

    def ask() -> None:
        met.extend(filter(None, (faults.meet("GET", "get", "x") for _ in range(50))))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(met) == 100


def test_a_fault_travels_as_json() -> None:
    fault = Fault("cut", 500, "Name", "body", "GET", "get", "^x", None, 3)
    assert Fault(**fault.to_json()) == fault


def test_counts_are_by_method_and_kind_and_can_be_told_apart_from_earlier_ones() -> None:
    counts = Counts()
    counts.came("POST", "delete")
    counts.came("DELETE", "delete")
    counts.moved(10, 0)
    before = counts.so_far()
    counts.came("DELETE", "delete")
    counts.moved(5, 7)
    after = Counted.from_json(counts.so_far().to_json())
    assert (after.of("delete"), after.of("delete", method="POST"), after.total) == (3, 1, 3)
    assert after - before == Counted({("DELETE", "delete"): 1}, 5, 7)
    counts.reset()
    assert counts.so_far() == Counted({}, 0, 0)


def test_what_is_held_goes_on_when_it_is_let_go() -> None:
    faults = Faults()
    went_on = threading.Event()

    def request() -> None:
        faults.hold()
        went_on.set()

    thread = threading.Thread(target=request)
    thread.start()
    eventually(lambda: faults.held() == 1)
    assert not went_on.is_set()
    faults.let_go()
    thread.join(30)
    assert (went_on.is_set(), faults.held()) == (True, 0)


def test_a_fault_may_be_for_several_kinds() -> None:
    fault = Fault(kind="create_job|create_run")
    assert fault.fits("POST", "create_run", "")
    assert not fault.fits("POST", "create", "")
