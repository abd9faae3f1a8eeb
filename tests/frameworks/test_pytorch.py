"""PyTorch keeps the contract, at a fixed size and elastic, and what is its own: environment, retries, collectives."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.frameworks.contract import FrameworkContract, Tour, result_of
from tests.harness import Muster

TEAM = """
import os, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
RANK = dist.get_rank()
NAME, FIRST = f"rank {RANK}", RANK == 0

def took_part():
    ranks = torch.tensor([1, 10**RANK])
    dist.all_reduce(ranks)
    return ranks.tolist()

def everywhere(act):
    act(NAME)

def fail(act):
    if RANK == 1:
        act()
    while True:
        dist.all_reduce(torch.ones(1))
"""

CONTRACT = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "MASTER_ADDR",
    "TORCHELASTIC_RESTART_COUNT",
)

LATE = """
import sys, time
import torch.distributed as dist
import team

if team.RANK == 1:
    dist.destroy_process_group()  # the other loses its peer now, and is gone before the cause shows itself
    time.sleep(1)
    raise ValueError("the true cause")
dist.barrier()
"""

KILLED = """
import os, signal
import team
team.fail(lambda: os.kill(os.getpid(), signal.SIGKILL))
"""

RESUMED = """
import os, pathlib, signal
import torch, torch.distributed as dist
import muster, team

saved, died = pathlib.Path("checkpoints", "step"), pathlib.Path(os.environ["MEET"], "died")
begin = torch.tensor(int(saved.read_text()) if saved.exists() else 0)
dist.all_reduce(begin, dist.ReduceOp.MIN)
total = torch.tensor(0)
for step in range(begin, 6):
    if step == 3 and team.RANK == 1 and not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    mine = torch.tensor(step)
    dist.all_reduce(mine)
    total += mine
    saved.write_text(str(step + 1))
    muster.checkpoint(saved)
if team.FIRST:
    print(f"from {begin} on: {total / dist.get_world_size():.0f}")
"""

ENVIRONMENT = f"""
import json, os
names = {(*CONTRACT, "MASTER_PORT", "MUSTER_NODE", "OMP_NUM_THREADS")!r}
print("env " + json.dumps({{name: os.environ.get(name) for name in names}}))
"""

TWO_FAIL = """
import os, pathlib, signal, time
present = pathlib.Path(os.environ["MEET"], "present")
if os.environ["RANK"] == "0":
    while not present.exists():
        time.sleep(0.02)
    raise RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1")
if os.environ["RANK"] == "1":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # its agent asks it to end, for the other failed first
    present.touch()
    time.sleep(1)
    raise ValueError("the true cause")
time.sleep(600)
"""


def ranks(nodes: int, each: int) -> list[dict[str, str]]:
    """The environment that torch's scripts expect, of every rank of so many nodes with so many ranks each."""
    return [
        {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank % each),
            "WORLD_SIZE": str(nodes * each),
            "LOCAL_WORLD_SIZE": str(each),
            "GROUP_RANK": str(rank // each),
            "GROUP_WORLD_SIZE": str(nodes),
            "MASTER_ADDR": "127.0.0.1",
            "TORCHELASTIC_RESTART_COUNT": "0",
        }
        for rank in range(nodes * each)
    ]


class PyTorchContract(FrameworkContract):
    framework = "pytorch"
    team = TEAM
    culprit = "rank 1"
    watched = (*CONTRACT, "MASTER_PORT")

    def check_environment(self, tour: Tour) -> None:
        environments = sorted((record["env"] for record in tour.records), key=lambda env: int(env["RANK"]))
        assert [contract(env) for env in environments] == ranks(nodes=len(self.scripts), each=1)
        assert len({env["MASTER_PORT"] for env in environments}) == 1


class TestPyTorch(PyTorchContract):
    fields: ClassVar = {"workers": 1}
    took_part: ClassVar = [2, 11]
    scripts = speakers = frozenset({"rank 0", "rank 1"})

    def test_a_complaint_that_comes_first_is_not_taken_for_the_cause(self, muster: Muster) -> None:
        self.fails_visibly(muster, self.job(muster, LATE))

    def test_a_killed_rank_is_the_cause_though_only_its_peer_has_words(self, muster: Muster) -> None:
        done = muster("run", self.job(muster, KILLED), check=137)
        assert "rank 1 on worker-1 failed first, with exit code 137" in done.stderr
        assert "by peer" not in done.stderr

    def test_after_a_rank_died_all_start_again_from_the_checkpoint(self, muster: Muster, tmp_path: Path) -> None:
        job = self.job(muster, RESUMED, retries=1, env={"MEET": str(tmp_path)})
        done = muster("run", job)
        assert "from 3 on: 12" in done.stdout
        assert "generation 2: rank 1 on worker-1 ended with exit code 137" in done.stderr
        assert result_of(muster, muster.run_id())["generation"] == 2

    def test_a_main_that_does_not_compute_runs_no_rank(self, muster: Muster) -> None:
        done = muster("run", self.job(muster, ENVIRONMENT, workers=2, processes=2, main={"computes": False}))
        environments = environments_of(done.stdout)
        assert [env["MUSTER_NODE"] for env in environments] == ["worker-1", "worker-1", "worker-2", "worker-2"]
        assert [contract(env) for env in environments] == ranks(nodes=2, each=2)
        assert [env["OMP_NUM_THREADS"] for env in environments] == ["1"] * 4
        assert len({env["MASTER_PORT"] for env in environments}) == 1

    def test_the_threads_that_a_job_asks_for_are_what_it_gets(self, muster: Muster) -> None:
        done = muster("run", self.job(muster, ENVIRONMENT, processes=2, env={"OMP_NUM_THREADS": "3"}))
        assert [env["OMP_NUM_THREADS"] for env in environments_of(done.stdout)] == ["3"] * 4


class TestPyTorchElastic(PyTorchContract):
    fields: ClassVar = {"workers": {"min": 1, "max": 2}}
    took_part: ClassVar = [3, 111]
    scripts = speakers = frozenset({"rank 0", "rank 1", "rank 2"})

    @pytest.mark.slow
    @pytest.mark.parametrize(("wish", "code"), [(77, 77), (-signal.SIGKILL, 137)], ids=str)
    def test_the_exit_code_comes_through(self, muster: Muster, wish: int, code: int) -> None:
        super().test_the_exit_code_comes_through(muster, wish, code)

    @pytest.mark.slow
    def test_after_a_rank_died_torchrun_starts_all_again(self, muster: Muster, tmp_path: Path) -> None:
        job = self.job(muster, RESUMED, workers={"min": 0, "max": 1}, retries=1, env={"MEET": str(tmp_path)})
        done = muster("run", job)
        assert "from 3 on: 12" in done.stdout
        assert result_of(muster, muster.run_id())["generation"] == 1

    def test_of_two_ranks_under_one_agent_the_one_that_raised_is_the_cause(
        self, muster: Muster, tmp_path: Path
    ) -> None:
        few = {"workers": {"min": 0, "max": 1}, "processes": 2}
        self.fails_visibly(muster, self.job(muster, TWO_FAIL, **few, env={"MEET": str(tmp_path)}))

    def test_a_main_that_does_not_compute_runs_no_rank(self, muster: Muster) -> None:
        job = self.job(muster, ENVIRONMENT, processes=2, main={"computes": False})
        environments = environments_of(muster("run", job).stdout)
        nodes = [env["MUSTER_NODE"] for env in environments]
        assert nodes in (["worker-1"] * 2 + ["worker-2"] * 2, ["worker-2"] * 2 + ["worker-1"] * 2)
        assert [contract(env) for env in environments] == ranks(nodes=2, each=2)


def environments_of(seen: str) -> list[dict[str, Any]]:
    """What each rank printed of its environment, in the order of ranks."""
    told = [json.loads(line.partition("] env ")[2]) for line in seen.splitlines() if "] env {" in line]
    return sorted(told, key=lambda env: int(env["RANK"]))


def contract(env: dict[str, Any]) -> dict[str, Any]:
    return {name: env[name] for name in CONTRACT}
