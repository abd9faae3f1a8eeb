"""Horovod keeps the contract at a fixed size, and what is its own: places of ranks, secrecy, retries, options."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.frameworks.contract import PATIENT, FrameworkContract, Tour, result_of
from tests.frameworks.horovod_runs import PATIENT_GLOO, needs_horovod
from tests.harness import Muster, eventually, marked
from tests.node.hands import by_hand, ended, record_of, script_of, texts_of

TEAM = """
import torch
import horovod.torch as hvd

hvd.init()
RANK = hvd.rank()
NAME, FIRST = f"rank {RANK}", RANK == 0

def took_part():
    return hvd.allreduce(torch.tensor([1, 10**RANK]), op=hvd.Sum).tolist()

def everywhere(act):
    act(NAME)

def fail(act):
    if RANK == 1:
        act()
    while True:
        hvd.allreduce(torch.ones(1))
"""

PLACES = (
    "HOROVOD_RANK",
    "HOROVOD_SIZE",
    "HOROVOD_LOCAL_RANK",
    "HOROVOD_LOCAL_SIZE",
    "HOROVOD_CROSS_RANK",
    "HOROVOD_CROSS_SIZE",
    "HOROVOD_HOSTNAME",
)

ENVIRONMENT = """
import json, os
print("env " + json.dumps({name: os.environ[name] for name in os.environ if name.startswith(("HOROVOD_", "OMP_"))}))
"""

LATE = """
import time
import torch, horovod.torch as hvd
import team

hvd.allreduce(torch.ones(1))
if team.RANK == 1:
    hvd.shutdown()  # the other loses its peer now, and is gone before the cause shows itself
    time.sleep(1)
    raise ValueError("the true cause")
while True:
    hvd.allreduce(torch.ones(1))
"""

KILLED = """
import os, signal
import team
team.fail(lambda: os.kill(os.getpid(), signal.SIGKILL))
"""

RESUMED = """
import os, pathlib, signal
import torch, horovod.torch as hvd
import muster, team

saved, died = pathlib.Path("checkpoints", "step"), pathlib.Path(os.environ["MEET"], "died")
mine = torch.tensor(int(saved.read_text()) if saved.exists() else 0)
begin = hvd.allreduce(mine, op=hvd.Min).item()
total = 0
for step in range(begin, 6):
    if step == 3 and team.RANK == 1 and not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    total += hvd.allreduce(torch.tensor(step), op=hvd.Sum).item()
    saved.write_text(str(step + 1))
    muster.checkpoint(saved)
if team.FIRST:
    print(f"from {begin} on: {total // hvd.size()}")
"""

SECRET = """
import hashlib, os, pathlib, time
print("secret", hashlib.sha256(os.environ["PASSWORD"].encode()).hexdigest(), os.environ["PLAIN"], flush=True)
while not pathlib.Path(os.environ["LEAVE"]).exists():
    time.sleep(0.05)
"""

WAITS = "import pathlib, os, time\nprint('here', flush=True)\ntime.sleep(600)\n"

TIMELINE = """
import torch, horovod.torch as hvd
import team
for step in range(3):
    hvd.allreduce(torch.ones(4), name="gradient")
hvd.shutdown()
"""


@pytest.fixture(autouse=True)
def _horovod() -> None:
    needs_horovod("torch")


class TestHorovod(FrameworkContract):
    framework = "horovod"
    fields: ClassVar = {"workers": 1}
    team = TEAM
    took_part: ClassVar = [2, 11]
    scripts = speakers = frozenset({"rank 0", "rank 1"})
    culprit = "rank 1"
    watched = (*PLACES, "HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT", "RANK")

    def job(self, muster: Muster, script: str, **fields: Any) -> Path:
        # The contract's scripts ask for a rank by torch's name for it.
        own = script.replace('os.environ.get("RANK"', 'os.environ.get("HOROVOD_RANK"')
        return super().job(muster, own, **{**fields, "env": {**PATIENT_GLOO, **fields.get("env", {})}})

    def check_environment(self, tour: Tour) -> None:
        environments = sorted((record["env"] for record in tour.records), key=lambda env: int(env["HOROVOD_RANK"]))
        assert [places(env) for env in environments] == expected("main", "worker-1", each=1)
        assert {env["HOROVOD_GLOO_RENDEZVOUS_ADDR"] for env in environments} == {"127.0.0.1"}
        assert len({env["HOROVOD_GLOO_RENDEZVOUS_PORT"] for env in environments}) == 1
        assert {env["RANK"] for env in environments} == {None}

    def test_a_complaint_that_comes_first_is_not_taken_for_the_cause(self, muster: Muster) -> None:
        self.fails_visibly(muster, self.job(muster, LATE))

    def test_a_killed_rank_is_the_cause_though_only_its_peer_has_words(self, muster: Muster) -> None:
        done = muster("run", self.job(muster, KILLED), check=137)
        assert "rank 1 on worker-1 failed first, with exit code 137" in done.stderr
        assert "HorovodInternalError" not in done.stderr

    def test_after_a_rank_died_all_start_again_from_the_checkpoint(self, muster: Muster, tmp_path: Path) -> None:
        done = muster("run", self.job(muster, RESUMED, retries=1, env={"MEET": str(tmp_path)}))
        assert "from 3 on: 12" in done.stdout
        assert "generation 2: rank 1 on worker-1 ended with exit code 137" in done.stderr
        assert result_of(muster, muster.run_id())["generation"] == 2

    def test_a_timeline_comes_back_with_the_outputs(self, muster: Muster, tmp_path: Path) -> None:
        options = {"timeline": True, "start_args": ["--timeline-mark-cycles"]}
        muster("run", self.job(muster, TIMELINE, options=options))
        muster("outputs", muster.run_id(), "--to", tmp_path / "fetched")
        events = json.loads((tmp_path / "fetched" / "timeline.json").read_text())
        assert {"NEGOTIATE_ALLREDUCE", "ALLREDUCE", "CYCLE_START"} <= {event.get("name") for event in events}


def test_processes_are_slots_and_ranks_have_the_same_places_in_every_run(muster: Muster) -> None:
    job = muster.job(ENVIRONMENT, "horovod", workers=2, processes=2)
    for _ in range(2):
        found = environments_of(muster("run", job).stdout)
        assert [places(env) for env in found] == expected("main", "worker-1", "worker-2", each=2)
        assert [env["OMP_NUM_THREADS"] for env in found] == ["1"] * 6


def test_a_main_that_does_not_compute_runs_no_rank(muster: Muster) -> None:
    job = muster.job(ENVIRONMENT, "horovod", workers=2, main={"computes": False})
    found = environments_of(muster("run", job).stdout)
    assert [places(env) for env in found] == expected("worker-1", "worker-2", each=1)


def test_roles_may_have_different_numbers_of_slots(muster: Muster) -> None:
    job = muster.job(ENVIRONMENT, "horovod", workers=1, resources={"gpus": 2}, main={"resources": {"gpus": 1}})
    found = environments_of(muster("run", job).stdout)
    assert [env["HOROVOD_HOSTNAME"] for env in found] == ["main", "worker-1", "worker-1"]


def test_secrets_and_environment_are_on_no_command_line(muster: Muster, mark: str, tmp_path: Path) -> None:
    password, plain = "pa55-of-the-test", "plain-of-the-test"
    env = {"PLAIN": plain, "LEAVE": str(tmp_path / "leave")}
    job = muster.job(SECRET, "horovod", workers=1, secrets=["PASSWORD"], env=env)
    process = muster.start("run", job, PASSWORD=password)
    run = muster.run_id()
    line = f"secret {hashlib.sha256(password.encode()).hexdigest()} {plain}"
    eventually(lambda: texts_of(muster, run).count(line) == 2, PATIENT)
    lines = marked(mark)
    assert any("_horovod.py" in words for words in lines.values())
    assert len([words for words in lines.values() if "script.py" in words]) == 2
    assert not [words for words in lines.values() if password in words or plain in words]
    (tmp_path / "leave").touch()
    assert process.wait(PATIENT) == 0


def test_the_loss_of_a_node_ends_a_run_of_fixed_size_that_has_no_retries(muster: Muster) -> None:
    process = muster.start("run", muster.job(WAITS, "horovod", workers=2))
    run = muster.run_id()
    eventually(lambda: texts_of(muster, run).count("here") == 3, PATIENT)
    os.kill(record_of(muster, run, "worker-2")["pid"], signal.SIGKILL)
    told = process.communicate(timeout=PATIENT)[1]
    assert process.returncode == 124
    assert "worker-2 was lost" in told
    assert "going on" not in told


def test_arguments_of_horovodrun_reach_the_ranks(muster: Muster) -> None:
    words = ["--fusion-threshold-mb", "32", "--cycle-time-ms=3", "--gloo-timeout-seconds", "77"]
    done = muster("run", muster.job(ENVIRONMENT, "horovod", workers=0, options={"start_args": words}))
    (env,) = environments_of(done.stdout)
    assert env["HOROVOD_FUSION_THRESHOLD"] == str(32 << 20)
    assert env["HOROVOD_CYCLE_TIME"] == "3.0"
    assert env["HOROVOD_GLOO_TIMEOUT_SECONDS"] == "77"


def test_a_word_that_is_no_option_of_horovodrun_is_told(muster: Muster) -> None:
    job = muster.job(ENVIRONMENT, "horovod", workers=0, options={"start_args": ["--autotune", "now"]})
    assert "'now' is no argument of horovodrun" in muster("run", job, check=2).stderr


def test_the_names_that_ads_gives_reach_the_launcher(muster: Muster) -> None:
    script = script_of(muster, ENVIRONMENT)
    env = {
        "CLUSTER_TYPE": "horovod",
        "SLOTS": "2",
        "MAX_NP": "3",
        "MIN_NP": "3",
        "HOROVOD_ARGS": "--cycle-time-ms 3",
    }
    nodes = [by_hand(muster, "names", mode, script, **env) for mode in ("MAIN", "WORKER")]
    assert ended(*nodes, within=PATIENT) == [0, 0]
    told = [json.loads(text.removeprefix("env ")) for text in texts_of(muster, "names") if text.startswith("env ")]
    found = sorted(told, key=lambda env: int(env["HOROVOD_RANK"]))
    assert [(env["HOROVOD_RANK"], env["HOROVOD_LOCAL_RANK"], env["HOROVOD_SIZE"]) for env in found] == [
        ("0", "0", "3"),
        ("1", "1", "3"),
        ("2", "0", "3"),
    ]
    assert {env["HOROVOD_CYCLE_TIME"] for env in found} == {"3.0"}


def test_too_few_slots_within_start_timeout_are_a_clear_end(muster: Muster) -> None:
    script = script_of(muster, ENVIRONMENT)
    env = {"CLUSTER_TYPE": "horovod", "MIN_NP": "4", "MAX_NP": "5", "START_TIMEOUT": "1", "WORKER_COUNT": "1"}
    nodes = [by_hand(muster, "few", "MAIN", script, **env), by_hand(muster, "few", "WORKER", script, RANK="1", **env)]
    assert ended(*nodes, within=PATIENT) == [121, 121]
    (text,) = record_of(muster, "few", "main")["verdict"]["failure"]["tail"]
    assert text == "muster: only 2 of 4 slots were there (main 1, worker-1 1) after 1 s, the job's start_timeout"
    assert not [text for text in texts_of(muster, "few") if text.startswith("env ")]


def environments_of(seen: str) -> list[dict[str, str]]:
    """What each rank printed of its environment, in the order of ranks."""
    told = [json.loads(line.partition("] env ")[2]) for line in seen.splitlines() if "] env {" in line]
    return sorted(told, key=lambda env: int(env["HOROVOD_RANK"]))


def places(env: dict[str, Any]) -> dict[str, Any]:
    return {name: env[name] for name in PLACES}


def expected(*nodes: str, each: int) -> list[dict[str, str]]:
    """The places of every rank of these nodes with so many ranks each."""
    return [
        {
            "HOROVOD_RANK": str(index * each + local),
            "HOROVOD_SIZE": str(len(nodes) * each),
            "HOROVOD_LOCAL_RANK": str(local),
            "HOROVOD_LOCAL_SIZE": str(each),
            "HOROVOD_CROSS_RANK": str(index),
            "HOROVOD_CROSS_SIZE": str(len(nodes)),
            "HOROVOD_HOSTNAME": node,
        }
        for index, node in enumerate(nodes)
        for local in range(each)
    ]
