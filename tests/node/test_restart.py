"""A node that is killed comes back while the job has retries, and the next generation finishes the work."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest

from tests.harness import Muster, eventually
from tests.node.hands import heard, log_of, record_of, result_of, texts_of

WORK = """
import os, pathlib, sys, time

print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} is here", flush=True)
while not pathlib.Path(os.environ["GO"]).exists():
    time.sleep(0.02)
print("finished", flush=True)
"""


@pytest.mark.parametrize("victim", ["worker-1", "main"])
def test_a_node_that_was_killed_is_started_again_and_the_run_succeeds(muster: Muster, victim: str) -> None:
    go = muster.folder / "go"
    launcher = muster.start("run", muster.job(WORK, workers=2, retries=1), GO=str(go))
    run = muster.run_id()
    for rank in range(3):
        heard(muster, run, f"rank {rank} of 3 is here")
    os.kill(record_of(muster, run, victim)["pid"], signal.SIGKILL)
    eventually(lambda: list(arrivals(muster, run).values()) == [2, 2, 2], within=90)
    go.touch()
    assert launcher.wait(90) == 0
    result = result_of(muster, run)
    assert (result["state"], result["generation"]) == ("succeeded", 2)
    assert arrivals(muster, run) == {f"rank {rank} of 3 is here": 2 for rank in range(3)}
    assert texts_of(muster, run).count("finished") == 3
    assert [record_of(muster, run, name)["incarnation"] for name in ("main", "worker-1", "worker-2")] == [
        2 if name == victim else 1 for name in ("main", "worker-1", "worker-2")
    ]
    numbers = Counter((line["node"], line["n"]) for line in log_of(muster, run))
    assert max(numbers.values()) == 1
    shown = muster("logs", run).stdout
    assert shown.count("is here") == 6


def both_began(muster: Muster, run: str, times: int) -> None:
    eventually(lambda: list(arrivals(muster, run).values()) == [times, times], within=60)


def arrivals(muster: Muster, run: str) -> dict[str, int]:
    """How often each rank began."""
    return dict(Counter(text for text in texts_of(muster, run) if text.endswith("is here")))


def test_a_node_is_started_again_only_as_often_as_the_job_allows(muster: Muster) -> None:
    launcher = muster.start("run", muster.job(WORK, workers=1, retries=1), GO="never")
    run = muster.run_id()
    for times in (1, 2):
        both_began(muster, run, times)
        os.kill(record_of(muster, run, "worker-1")["pid"], signal.SIGKILL)
    assert launcher.wait(60) == 124
    assert "worker-1 was lost" in result_of(muster, run)["detail"]


FAILS_ONCE = """
import os, pathlib, sys

print("rank", os.environ["RANK"], flush=True)
if os.environ["RANK"] == "1" and not pathlib.Path(os.environ["TRIED"]).exists():
    pathlib.Path(os.environ["TRIED"]).touch()
    raise RuntimeError("the first time")
"""


def test_a_rank_that_fails_once_costs_one_generation_and_its_words_stay(muster: Muster) -> None:
    done = muster("run", muster.job(FAILS_ONCE, workers=1, retries=1), TRIED=str(muster.folder / "tried"))
    run = muster.run_id()
    assert result_of(muster, run)["generation"] == 2
    assert "generation 2: rank 1 on worker-1 ended with exit code 1" in done.stderr
    assert "RuntimeError: the first time" in done.stdout
    assert texts_of(muster, run).count("rank 1") == 2
