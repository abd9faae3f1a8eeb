"""The framework of the tests keeps what the others keep: a plugin is a framework like any other."""

from __future__ import annotations

from typing import ClassVar

from tests.frameworks.contract import FrameworkContract, Tour

TEAM = """
import os, pathlib, sys, time

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
NAME, FIRST = f"rank {RANK}", RANK == 0
MEET = pathlib.Path(os.environ["MEET"])

def took_part():
    (MEET / f"here-{RANK}").touch()
    wait_for(lambda: len(list(MEET.glob("here-*"))) == WORLD)
    return WORLD

def everywhere(act):
    act(NAME)

def fail(act):
    if RANK == 1:
        (MEET / "gone").touch()
        time.sleep(1)
        act()
    wait_for((MEET / "gone").exists)
    sys.exit("lost a peer")

def wait_for(look):
    while not look():
        time.sleep(0.02)
"""


class TestPlain(FrameworkContract):
    framework = "plain"
    fields: ClassVar = {"workers": 1}
    team = TEAM
    took_part: ClassVar = 2
    scripts = speakers = frozenset({"rank 0", "rank 1"})
    culprit = "rank 1"
    watched = ("RANK", "WORLD_SIZE")

    def check_environment(self, tour: Tour) -> None:
        assert sorted(record["env"]["RANK"] for record in tour.records) == ["0", "1"]
        assert {record["env"]["WORLD_SIZE"] for record in tour.records} == {"2"}
