"""What Horovod's launcher makes of the run's nodes: names of hosts, their order, and how many processes there are."""

from __future__ import annotations

import sys
import warnings
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

import muster.frameworks
from tests.frameworks.horovod_runs import needs_horovod

pytestmark = pytest.mark.unit


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The launcher as a module. It runs in the script's Python otherwise."""
    needs_horovod("torch")
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec = spec_from_file_location("launcher", Path(muster.frameworks.__file__).parent / "_horovod.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Horovod's own code
        spec.loader.exec_module(module)
    return module


def test_main_comes_first_and_workers_by_number(launcher: Any) -> None:
    hosts = ["worker-10", "worker-2~1", "ghost", "worker-1", "worker-ab12", "main"]
    members = launcher.Members(0)
    ordered = ["main", "ghost", "worker-ab12", "worker-1", "worker-2~1", "worker-10"]
    assert sorted(hosts, key=members.order) == ordered


def test_a_node_that_went_away_comes_back_under_another_name(launcher: Any) -> None:
    members = launcher.Members(0)
    members.told({"main": 1, "worker-1": 2})
    assert members.find_available_hosts_and_slots() == {"main": 1, "worker-1": 2}
    members.told({"main": 1})
    members.told({"main": 1, "worker-1": 2})
    assert members.find_available_hosts_and_slots() == {"main": 1, "worker-1~1": 2}
    assert launcher.node_of("worker-1~1") == "worker-1"


def test_a_node_may_fail_as_often_as_the_job_has_retries(launcher: Any) -> None:
    members = launcher.Members(1)
    members.told({"main": 1, "worker-1": 2})
    members.failed("worker-1")
    members.failed("worker-1")  # its other process, in the same breath
    assert list(members.find_available_hosts_and_slots()) == ["main", "worker-1~1"]
    assert not members.failed_for_good
    members.failed("worker-1~1")
    assert list(members.find_available_hosts_and_slots()) == ["main", "worker-1~1"], "Horovod leaves it out by itself"
    assert members.failed_for_good == {"worker-1"}


def test_who_failed_for_good_counts_again_when_it_is_another_machine(launcher: Any) -> None:
    members = launcher.Members(0)
    members.told({"main": 1, "worker-1": 2})
    members.failed("worker-1")
    assert members.most(nodes=2) == 1
    members.told({"main": 1})
    assert members.most(nodes=2) == 2, "it may come back, with as many slots as those that are known"
    members.told({"main": 1, "worker-1": 2})
    assert members.most(nodes=2) == 3


def test_nodes_that_have_not_come_yet_could_still_run_processes(launcher: Any) -> None:
    members = launcher.Members(0)
    members.told({"main": 1, "worker-1": 2})
    assert members.most(nodes=4) == 7
    members.failed("worker-1")
    assert members.most(nodes=4) == 5


@pytest.mark.parametrize(
    ("workers", "slots", "options", "least"),
    [
        (1, {"main": 1, "worker-1": 1}, {}, 2),
        (2, {"main": 1, "worker-1": 2, "worker-2": 4}, {}, 7),
        (1, {"main": 1, "worker-1": 2, "worker-2": 4}, {}, 3),
        (3, {"main": 1, "worker-1": 2}, {}, 7),
        (1, {"worker-1": 2}, {}, 2),
        (0, {"main": 2, "worker-1": 2}, {}, 2),
        (0, {"worker-1": 2}, {}, 1),
        (1, {"main": 1, "worker-1": 1}, {"min_np": 3}, 3),
        (1, {"main": 1, "worker-1": 1}, {"max_np": 1}, 1),
        (1, {"main": 1, "worker-1": 1}, {"min_np": 5, "max_np": 9}, 5),
    ],
)
def test_how_many_processes_are_enough(
    launcher: Any, workers: int, slots: dict[str, int], options: dict[str, int], least: int
) -> None:
    settings = {"workers": workers, "min_np": None, "max_np": None, **options}
    assert launcher.least_processes(settings, slots) == least
