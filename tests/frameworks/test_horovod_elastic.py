"""What an elastic training with Horovod lives through: killed ranks and nodes, a size that changes, too few left."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from tests.frameworks.horovod_runs import PATIENT_GLOO, TORCH_TRAINING, Training, needs_horovod, nodes_of
from tests.harness import Muster
from tests.node.hands import parent_of, record_of

pytestmark = pytest.mark.slow

RAISES = TORCH_TRAINING.replace(
    "        state.step += 1\n",
    """        state.step += 1
        if (meet / f"fail-{os.environ['MUSTER_NODE']}").exists():
            raise ValueError("the true cause")
""",
)


@pytest.fixture(autouse=True)
def _horovod() -> None:
    needs_horovod("torch")


def goes_on(training: Training, pid: int) -> None:
    """A process has taken every step once, one after the other: it never began anew."""
    steps = training.steps_of(pid)
    assert steps == list(range(len(steps)))


def test_when_a_rank_is_killed_the_others_go_on_from_the_last_commit(muster: Muster, tmp_path: Path) -> None:
    training = Training(muster, tmp_path)
    first, victim, other = training.until(3)
    os.kill(victim["pid"], signal.SIGKILL)
    left = training.until(2)
    assert [rank["pid"] for rank in left] == [first["pid"], other["pid"]]
    assert [rank["heads"] for rank in left] == [2, 2]
    goes_on(training, first["pid"])
    seen, told = training.leave()
    assert sorted(re.findall(r"\] done with (\d)", seen)) == ["2", "2"]
    assert "succeeded" in told


def test_while_retries_are_left_the_node_of_a_killed_rank_takes_part_again(muster: Muster, tmp_path: Path) -> None:
    training = Training(muster, tmp_path, retries=1)
    first, victim, _ = training.until(3)
    os.kill(victim["pid"], signal.SIGKILL)
    again = training.until(3, since=len(training.steps()))
    assert sorted(nodes_of(again)) == ["main", "worker-1", "worker-2"]
    (new,) = [rank for rank in again if rank["node"] == victim["node"]]
    assert new["pid"] != victim["pid"]
    assert training.steps_of(new["pid"])[0] > victim["step"], "it was told how far the others are"
    goes_on(training, first["pid"])
    # A second time it is not given another chance.
    os.kill(new["pid"], signal.SIGKILL)
    assert victim["node"] not in nodes_of(training.until(2, since=len(training.steps())))
    training.leave()


def test_when_main_s_own_rank_is_killed_another_becomes_the_first(muster: Muster, tmp_path: Path) -> None:
    training = Training(muster, tmp_path, retries=1)
    first, second, _ = training.until(3)
    os.kill(first["pid"], signal.SIGKILL)
    again = training.until(3, since=len(training.steps()))
    assert again[0]["pid"] == second["pid"], "who has computed longest tells the others where they are"
    assert again[2]["node"] == "main"
    training.leave()


def test_a_node_that_is_killed_is_no_longer_a_host_and_the_rest_goes_on(muster: Muster, tmp_path: Path) -> None:
    training = Training(muster, tmp_path)
    first, _, _ = training.until(3)
    program = record_of(muster, training.run, "worker-1")["pid"]
    for pid in (parent_of(program), program):
        os.kill(pid, signal.SIGKILL)
    assert nodes_of(training.until(2)) == ["main", "worker-2"]
    goes_on(training, first["pid"])
    _, told = training.leave()
    assert "worker-1 was lost: its connection broke; going on with 1" in told


def test_a_killed_node_that_is_started_again_takes_part_again(muster: Muster, tmp_path: Path) -> None:
    training = Training(muster, tmp_path, retries=1)
    first, _, _ = training.until(3)
    os.kill(record_of(muster, training.run, "worker-1")["pid"], signal.SIGKILL)
    again = training.until(3, since=len(training.steps()))
    assert nodes_of(again) == ["main", "worker-2", "worker-1"]
    assert training.steps_of(again[2]["pid"])[0] > 0
    goes_on(training, first["pid"])
    training.leave()


def test_a_scaled_run_goes_on_with_fewer_and_with_more(muster: Muster, tmp_path: Path) -> None:
    training = Training(muster, tmp_path, workers={"min": 1, "max": 3, "start": 2}, env=PATIENT_GLOO)
    first, _, last = training.until(3)
    assert last["node"] == "worker-2"

    assert "1 wanted, 1 here (worker-1)" in muster("scale", training.run, "1").stdout
    before = training.steps()
    assert nodes_of(training.until(2, since=len(before))) == ["main", "worker-1"]
    assert not [step for step in training.steps()[len(before) :] if step["node"] == "worker-2"]

    muster("scale", training.run, "3")
    more = training.until(4, since=len(before))
    assert nodes_of(more)[:2] == ["main", "worker-1"]
    assert sorted(nodes_of(more)[2:]) == ["worker-2", "worker-3"]
    for rank in more[2:]:
        assert training.steps_of(rank["pid"])[0] > before[-1]["step"], "it was told how far the others are"
    assert more[0]["pid"] == first["pid"]
    goes_on(training, first["pid"])
    seen, told = training.leave()
    assert "terminate called" not in seen + told
    assert "removed from elastic job" not in seen + told
    assert sorted(re.findall(r"\] done with (\d)", seen)) == ["4"] * 4


def test_the_error_of_the_rank_that_leaves_too_few_is_what_the_user_sees(muster: Muster, tmp_path: Path) -> None:
    training = Training(muster, tmp_path, RAISES)
    _, victim, _ = training.until(3)
    os.kill(victim["pid"], signal.SIGKILL)  # survived, and so not the cause
    left = training.until(2)
    (tmp_path / f"fail-{left[1]['node']}").touch()
    told = training.process.communicate(timeout=120)[1]
    assert training.process.returncode == 1
    assert f"on {left[1]['node']} failed first, with exit code 1" in told
    assert "ValueError: the true cause" in told
    assert "HorovodInternalError" not in told


def test_a_script_that_fails_everywhere_starts_again_while_retries_are_left(muster: Muster) -> None:
    done = muster("run", muster.job("raise SystemExit(7)", "horovod", workers={"min": 0, "max": 1}, retries=1), check=7)
    assert "generation 2: rank" in done.stderr
