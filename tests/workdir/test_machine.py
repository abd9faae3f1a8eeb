"""Which process is meant by a number."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from muster.workdir.machine import Process, this_machine
from tests.harness import eventually


@pytest.mark.unit
def test_we_ourselves_are_not_dead() -> None:
    assert not Process.here().dead


@pytest.mark.unit
def test_a_number_that_came_round_again_is_another_process() -> None:
    assert replace(Process.here(), started="1").dead


@pytest.mark.unit
def test_of_another_machine_nothing_is_known_from_here() -> None:
    assert not Process("elsewhere", 4_000_000, "1").dead
    assert not Process().dead


def test_one_that_has_ended_is_dead_though_nobody_has_asked_for_it_yet() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    fields = eventually(lambda: _stat(child.pid))
    process = Process(this_machine(), child.pid, fields[19])
    assert not process.dead
    child.kill()
    eventually(lambda: _stat(child.pid)[0] == "Z")
    assert process.dead
    child.communicate()
    assert process.dead


def _stat(pid: int) -> list[str]:
    with os.fdopen(os.open(f"/proc/{pid}/stat", os.O_RDONLY)) as stream:
        return stream.read().rpartition(")")[2].split()
