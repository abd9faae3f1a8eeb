"""`muster scale`: an elastic run gets another size while it runs, in order, and goes on from where it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Muster, eventually
from tests.node.hands import heard, kill_node, record_of, result_of, texts_of

COUNTS = """
import os, pathlib, signal, sys, time

step = pathlib.Path(os.environ["MUSTER_CHECKPOINTS"], "step")
first = int(step.read_text()) if step.exists() else 0

def leave(*_):
    print(f"rank {os.environ['RANK']} was asked to end", flush=True)
    sys.exit(0)

signal.signal(signal.SIGTERM, leave)
print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}", flush=True)
for number in range(first + 1, 10**6):
    if os.environ["RANK"] == "0":
        draft = step.with_suffix(".tmp")
        draft.write_text(str(number))
        draft.rename(step)
    if pathlib.Path(os.environ["GO"]).exists():
        break
    time.sleep(0.05)
if os.environ["RANK"] == "0":
    print(f"began at {first}", flush=True)
"""

ELASTIC = {"min": 1, "max": 3, "start": 2}


@pytest.fixture
def go(muster: Muster) -> Path:
    """A file whose being there ends the script."""
    return muster.folder / "go"


def sizes(muster: Muster, run: str, count: int, times: int = 1) -> None:
    """Waits until all ranks of a cluster of so many nodes have begun."""
    for rank in range(count):
        heard(muster, run, f"rank {rank} of {count}", times)


def scaled(muster: Muster, run: str, workers: int) -> list[str]:
    """The workers that there are, as the command tells when it has done it."""
    told: dict[str, Any] = json.loads(muster("scale", run, str(workers), "--json").stdout)
    assert (told["run"], told["wanted"]) == (run, workers)
    return list(told["workers"])


def over(launcher: subprocess.Popen[str], go: Path) -> str:
    go.touch()
    _, told = launcher.communicate(timeout=60)
    assert launcher.returncode == 0, told
    return told


def test_down_and_up_again_all_go_on_from_the_checkpoint_at_the_new_size(muster: Muster, go: Path) -> None:
    launcher = muster.start("run", muster.job(COUNTS, workers=ELASTIC), GO=str(go))
    run = muster.run_id()
    sizes(muster, run, 3)
    assert scaled(muster, run, 1) == ["worker-1"]
    sizes(muster, run, 2)
    assert record_of(muster, run, "worker-2")["verdict"]["end"] == "released"
    assert scaled(muster, run, 3) == ["worker-1", "worker-2", "worker-3"]
    sizes(muster, run, 4)
    told = over(launcher, go)
    texts = texts_of(muster, run)
    # Nobody was torn away: each rank had time to save, at each change.
    assert [texts.count(f"rank {rank} was asked to end") for rank in range(3)] == [2, 2, 1]
    (last,) = [text for text in texts if text.startswith("began at ")]
    assert int(last.removeprefix("began at ")) > 1
    assert "scaled to 1 worker" in told
    assert "scaled to 3 workers" in told
    result = result_of(muster, run)
    assert (result["state"], result["exit_code"], result["generation"]) == ("succeeded", 0, 3)
    assert [record_of(muster, run, f"worker-{number}")["incarnation"] for number in (1, 2, 3)] == [1, 2, 1]


def test_a_detached_run_is_scaled_too(muster: Muster, go: Path) -> None:
    muster("run", "--detach", muster.job(COUNTS, workers=ELASTIC), GO=str(go))
    run = muster.run_id()
    sizes(muster, run, 3)
    assert scaled(muster, run, 3) == ["worker-1", "worker-2", "worker-3"]
    sizes(muster, run, 4)
    go.touch()
    assert result_of(muster, run)["state"] == "succeeded"


def test_a_worker_that_is_killed_leaves_the_rest_to_go_on_without_a_retry(muster: Muster, go: Path) -> None:
    launcher = muster.start("run", muster.job(COUNTS, workers=ELASTIC), GO=str(go))
    run = muster.run_id()
    sizes(muster, run, 3)
    kill_node(record_of(muster, run, "worker-2")["pid"])
    sizes(muster, run, 2)
    assert "worker-2 was lost: its connection broke; going on with 1 worker" in over(launcher, go)
    (last,) = [text for text in texts_of(muster, run) if text.startswith("began at ")]
    assert int(last.removeprefix("began at ")) > 1


def test_scaled_while_it_is_small_a_lost_worker_can_be_had_back(muster: Muster, go: Path) -> None:
    launcher = muster.start("run", muster.job(COUNTS, workers={"min": 0, "max": 2}), GO=str(go))
    run = muster.run_id()
    sizes(muster, run, 3)
    os.kill(record_of(muster, run, "worker-1")["pid"], signal.SIGKILL)
    sizes(muster, run, 2)
    assert scaled(muster, run, 1) == ["worker-2"]
    assert scaled(muster, run, 2) == ["worker-1", "worker-2"]
    sizes(muster, run, 3, times=2)
    over(launcher, go)


@pytest.mark.parametrize(
    ("workers", "wish", "told"),
    [
        (2, "3", "has a fixed size of 2 workers"),
        ({"min": 1, "max": 2}, "3", "Its job allows 1 to 2"),
        ({"min": 1, "max": 2}, "0", "Its job allows 1 to 2"),
    ],
)
def test_a_size_that_cannot_be_is_refused_and_changes_nothing(
    muster: Muster, go: Path, workers: Any, wish: str, told: str
) -> None:
    launcher = muster.start("run", muster.job(COUNTS, workers=workers), GO=str(go))
    run = muster.run_id()
    sizes(muster, run, 3)
    assert told in muster("scale", run, wish, check=2).stderr
    assert not (muster.runs / run / "scale").exists()
    over(launcher, go)
    assert "has ended" in muster("scale", run, "1", check=2).stderr


def test_a_cluster_cannot_start_outside_its_bounds(muster: Muster) -> None:
    job = muster.job(COUNTS, workers={"min": 1, "max": 2, "start": 3})
    told = muster("plan", job, check=2).stderr
    assert "the cluster cannot start with 3 workers" in told
    assert "Write a number from 1 to 2" in told


KEEPS = """
import os, pathlib, time
from distributed import Client, get_worker

client = Client()
client.wait_for_workers(2)
calls = pathlib.Path(os.environ["CALLS"])

def made(number):
    calls.joinpath(f"{number}-{time.monotonic_ns()}").touch()
    return number * number

kept = client.map(made, range(20), pure=False)
client.gather(kept)

def names():
    return sorted(worker["name"] for worker in client.scheduler_info()["workers"].values())

seen = []
while len(seen) < 3:
    if names() != (seen[-1] if seen else None):
        seen.append(names())
        print(seen[-1], flush=True)
    time.sleep(0.05)
assert sum(client.gather(kept)) == sum(number * number for number in range(20))
"""


@pytest.mark.slow
def test_a_dask_worker_that_leaves_hands_over_what_it_has(muster: Muster, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    calls.mkdir()
    launcher = muster.start("run", muster.job(KEEPS, "dask", workers=ELASTIC), CALLS=str(calls))
    run = muster.run_id()
    eventually(lambda: "['worker-1', 'worker-2']" in texts_of(muster, run), within=90)
    assert scaled(muster, run, 1) == ["worker-1"]
    heard(muster, run, "['worker-1']")
    assert scaled(muster, run, 2) == ["worker-1", "worker-2"]
    assert launcher.wait(90) == 0
    # Each result was computed once: none went with the worker that held it.
    assert len(list(calls.iterdir())) == 20
    assert result_of(muster, run)["generation"] == 1


TRAINS = """
import os, pathlib, time
import torch, torch.distributed as dist

dist.init_process_group("gloo")
saved = pathlib.Path("checkpoints", "step")
begin = torch.tensor(int(saved.read_text()) if saved.exists() else 0)
dist.broadcast(begin, 0)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}", flush=True)
for step in range(int(begin) + 1, 10**6):
    over = torch.tensor(int(pathlib.Path(os.environ["GO"]).exists()))
    dist.all_reduce(over)
    if over:
        break
    if dist.get_rank() == 0:
        draft = saved.with_suffix(".tmp")
        draft.write_text(str(step))
        draft.rename(saved)
    time.sleep(0.05)
if dist.get_rank() == 0:
    print(f"began at {int(begin)}", flush=True)
# Left to the interpreter's end, gloo's threads now and then abort the process.
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_pytorch_goes_on_from_its_checkpoint_at_the_new_size(muster: Muster, go: Path) -> None:
    launcher = muster.start("run", muster.job(TRAINS, "pytorch", workers={"min": 0, "max": 2, "start": 1}), GO=str(go))
    run = muster.run_id()
    eventually(lambda: (muster.runs / run).exists())
    sizes_of_torch(muster, run, 2)
    assert scaled(muster, run, 2) == ["worker-1", "worker-2"]
    sizes_of_torch(muster, run, 3)
    assert scaled(muster, run, 0) == []
    sizes_of_torch(muster, run, 1)
    over(launcher, go)
    (last,) = [text for text in texts_of(muster, run) if text.startswith("began at ")]
    assert int(last.removeprefix("began at ")) > 1


def sizes_of_torch(muster: Muster, run: str, count: int) -> None:
    texts = [f"rank {rank} of {count}" for rank in range(count)]
    eventually(lambda: set(texts) <= set(texts_of(muster, run)), within=120)
