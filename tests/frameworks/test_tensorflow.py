"""TensorFlow keeps the contract, and what is its own: TF_CONFIG, parameter servers, readiness, restarts as a whole."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

from tests.frameworks.contract import PATIENT, FrameworkContract, Tour, result_of, said_by
from tests.harness import Muster, eventually

TEAM = """
import json, os
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
cluster, task = (json.loads(os.environ["TF_CONFIG"])[part] for part in ("cluster", "task"))
RANK = task["index"] + (len(cluster.get("chief", [])) if task["type"] == "worker" else 0)
NAME, FIRST = f"rank {RANK}", RANK == 0

@tf.function
def add_up(values):
    def here(values):
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(values))
    return strategy.run(here, args=(values,))

def took_part():
    return add_up(tf.constant([1, 10**RANK])).numpy().tolist()

def everywhere(act):
    act(NAME)

def fail(act):
    took_part()
    if RANK == 1:
        act()
    while True:
        took_part()
"""

ORDER = """
import json, os, pathlib, socket, sys, time

config, meet, node = json.loads(os.environ["TF_CONFIG"]), pathlib.Path(os.environ["MEET"]), os.environ["MUSTER_NODE"]
kind, index = config["task"]["type"], config["task"]["index"]
host, _, port = config["cluster"][kind][index].rpartition(":")
turn = "again" if (meet / "again").exists() else "first"

def all_came():
    return len(list(meet.glob(f"{turn}-*"))) == 5

with socket.create_server((host, int(port))):  # nobody else has this place
    print("config " + json.dumps([turn, node, config]), flush=True)
    (meet / f"{turn}-{node}").touch()
    while not (all_came() and node == {"first": "worker-2", "again": "main"}[turn]):
        time.sleep(0.05)
if turn == "first":
    (meet / "again").touch()
    sys.exit(7)
"""

SERVED = """
import os, pathlib, sys, time
import tensorflow as tf

computing = pathlib.Path(os.environ["MEET"], "computing")
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    place = {"job_name": resolver.task_type, "task_index": resolver.task_id}
    server = tf.distribute.Server(resolver.cluster_spec(), protocol="grpc", **place)
    while resolver.task_type == "ps" and sys.argv[1] == "break":
        if computing.exists():
            raise ValueError("the true cause")
        time.sleep(0.05)
    server.join()

strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    total = tf.Variable(0.0)

@tf.function
def add():
    total.assign_add(1.0)

while not computing.exists() or sys.argv[1] == "break":
    for _ in range(20):
        coordinator.schedule(add)
    coordinator.join()
    computing.touch()
print("total", total.numpy(), "on", total.device, flush=True)
sys.exit(3)
"""

RESUMED = """
import os, pathlib, signal
import tensorflow as tf
import muster, team

died = pathlib.Path(os.environ["MEET"], "died")
with team.strategy.scope():
    step, total = tf.Variable(0), tf.Variable(0)
saved = tf.train.Checkpoint(step=step, total=total)
manager = tf.train.CheckpointManager(saved, "checkpoints", max_to_keep=2)
saved.restore(manager.latest_checkpoint)
begin = step.numpy()
while step < 6:
    if step == 3 and team.RANK == 1 and not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    total.assign_add(team.took_part()[0])
    step.assign_add(1)
    muster.checkpoint(manager.save())
print(f"from {begin} on: {total.numpy()}", flush=True)
"""

WAKE = """
import os, signal, sys, time
first, second = map(int, sys.argv[1:])
try:
    while not os.kill(first, 0):
        time.sleep(0.05)
except ProcessLookupError:
    os.kill(second, signal.SIGCONT)
"""

LATE = f"""
import os, pathlib, signal, subprocess, sys
import team

first = pathlib.Path(os.environ["MEET"], "first")
if team.FIRST:
    first.write_text(str(os.getpid()))
team.took_part()
if team.RANK == 1:
    # It says nothing more until its peer has given it up, and is gone.
    subprocess.Popen([sys.executable, "-c", {WAKE!r}, first.read_text(), str(os.getpid())])
    os.kill(os.getpid(), signal.SIGSTOP)
    raise ValueError("the true cause")
team.took_part()
"""

SLOW = """
import json, os, pathlib, time

config = json.loads(os.environ["TF_CONFIG"])
while config["task"]["index"] == 1 and not pathlib.Path(os.environ["MEET"], "go").exists():
    time.sleep(0.05)
import team

leads = team.strategy.extended.should_checkpoint
print("leads" if leads else "follows", list(config["cluster"]), team.took_part(), flush=True)
"""

SCALED = """
import os, pathlib, time
import tensorflow as tf
import muster, team

leave = pathlib.Path(os.environ["MEET"], "leave")
with team.strategy.scope():
    step = tf.Variable(0)
saved = tf.train.Checkpoint(step=step)
manager = tf.train.CheckpointManager(saved, "checkpoints", max_to_keep=2)
saved.restore(manager.latest_checkpoint)
begin, ranks, going = step.numpy(), team.strategy.num_replicas_in_sync, True
print(f"{ranks} ranks from {begin}", flush=True)
while going:
    # What the first of them knows counts for all, so that they leave together.
    known = tf.constant([step.numpy() + 1, not leave.exists()], tf.int32) * team.FIRST
    now, going = team.add_up(known).numpy().tolist()
    step.assign(now)
    muster.checkpoint(manager.save())
    muster.report(step=now)
    time.sleep(0.2)
print(f"{ranks} ranks to {now}", flush=True)
"""


class TestTensorFlow(FrameworkContract):
    framework = "tensorflow"
    # The contract's scripts tell ranks apart by a variable that TensorFlow does not have.
    fields: ClassVar = {"workers": 1, "main": {"env": {"RANK": "0"}}}
    team = TEAM
    took_part: ClassVar = [2, 11]
    scripts = speakers = frozenset({"rank 0", "rank 1"})
    culprit = "rank 1"
    watched = ("TF_CONFIG", "TF_CPP_MIN_LOG_LEVEL", "no_grpc_proxy")

    def check_environment(self, tour: Tour) -> None:
        chief, worker = (record["env"] for record in sorted(tour.records, key=lambda record: str(record["name"])))
        configs = [json.loads(env["TF_CONFIG"]) for env in (chief, worker)]
        assert configs[0] == {"cluster": configs[1]["cluster"], "task": {"type": "chief", "index": 0}}
        assert configs[1]["task"] == {"type": "worker", "index": 0}
        assert configs[0]["cluster"].keys() == {"chief", "worker"}
        (at_chief,), (at_worker,) = configs[0]["cluster"]["chief"], configs[0]["cluster"]["worker"]
        assert at_chief != at_worker
        assert {place.partition(":")[0] for place in (at_chief, at_worker)} == {"127.0.0.1"}
        for env in (chief, worker):
            assert (env["TF_CPP_MIN_LOG_LEVEL"], env["no_grpc_proxy"]) == ("1", "127.0.0.1")

    def test_all_know_the_same_order_which_a_new_generation_keeps_and_the_chiefs_end_ends_all(
        self, muster: Muster, tmp_path: Path
    ) -> None:
        job = self.job(muster, ORDER, workers=2, ps=2, retries=1, env={"MEET": str(tmp_path)})
        done = muster("run", job)
        assert "generation 2: rank 2 on worker-2 ended with exit code 7" in done.stderr
        told = [json.loads(line.partition("] config ")[2]) for line in done.stdout.splitlines() if "] config " in line]
        for turn in ("first", "again"):
            configs = {node: config for when, node, config in told if when == turn}
            assert {node: tuple(config["task"].values()) for node, config in configs.items()} == {
                "main": ("chief", 0),
                "worker-1": ("worker", 0),
                "worker-2": ("worker", 1),
                "ps-1": ("ps", 0),
                "ps-2": ("ps", 1),
            }
            (cluster,) = {json.dumps(config["cluster"]) for config in configs.values()}
            assert [(kind, len(places)) for kind, places in json.loads(cluster).items()] == [
                ("chief", 1),
                ("worker", 2),
                ("ps", 2),
            ]

    @pytest.mark.slow
    def test_with_a_parameter_server_the_run_ends_when_the_chief_does_with_its_exit_code(
        self, muster: Muster, tmp_path: Path
    ) -> None:
        job = self.job(muster, SERVED, workers=2, ps=1, args=["end"], env={"MEET": str(tmp_path)})
        done = muster("run", job, check=3)
        assert "ready: 4 nodes" in done.stderr
        assert "[rank 0] total 20.0 on /job:ps/replica:0/task:0" in done.stdout
        assert "rank 0 on main failed first, with exit code 3" in done.stderr

    @pytest.mark.slow
    def test_a_parameter_server_that_fails_ends_the_run_and_is_named(self, muster: Muster, tmp_path: Path) -> None:
        done = muster("run", self.job(muster, SERVED, ps=1, args=["break"], env={"MEET": str(tmp_path)}), check=1)
        assert "muster: ps-1 on ps-1 failed first, with exit code 1" in done.stderr
        assert "muster:   ValueError: the true cause" in done.stderr

    @pytest.mark.slow
    def test_after_a_worker_was_killed_all_start_again_from_the_checkpoint(
        self, muster: Muster, tmp_path: Path
    ) -> None:
        done = muster("run", self.job(muster, RESUMED, retries=1, env={"MEET": str(tmp_path)}))
        assert "generation 2: rank 1 on worker-1 ended with exit code 137" in done.stderr
        assert sorted(line for line in done.stdout.splitlines() if "] from " in line) == [
            "[rank 0] from 3 on: 12",
            "[rank 1] from 3 on: 12",
        ]
        assert result_of(muster, muster.run_id())["generation"] == 2

    @pytest.mark.slow
    def test_a_complaint_that_comes_first_is_not_taken_for_the_cause(self, muster: Muster, tmp_path: Path) -> None:
        self.fails_visibly(muster, self.job(muster, LATE, env={"MEET": str(tmp_path)}))

    @pytest.mark.slow
    def test_it_is_ready_when_every_port_answers_however_late_also_without_a_chief(
        self, muster: Muster, tmp_path: Path
    ) -> None:
        fields = {"workers": 2, "main": {"computes": False}, "timeout": "20s", "env": {"MEET": str(tmp_path)}}
        process = muster.start("run", self.job(muster, SLOW, **fields))
        assert "its service did not answer); all processes run" in said_by(process, "not ready within 20 s")
        assert "ready: " not in muster("logs", muster.run_id(), "--json").stdout
        (tmp_path / "go").touch()
        seen, told = process.communicate(timeout=PATIENT)
        assert process.returncode == 0, told
        assert "ready: 3 nodes" in told
        assert "not ready" not in told
        assert sorted(line for line in seen.splitlines() if line.startswith("[rank")) == [
            "[rank 0] leads ['worker'] [2, 11]",
            "[rank 1] follows ['worker'] [2, 11]",
        ]

    @pytest.mark.slow
    def test_at_another_size_all_start_again_from_the_checkpoint(self, muster: Muster, tmp_path: Path) -> None:
        process = muster.start(
            "run", self.job(muster, SCALED, workers={"min": 1, "max": 2}, env={"MEET": str(tmp_path)})
        )
        run = muster.run_id()
        eventually(partial(self.has_gone_on, muster, run, times=1), PATIENT)
        for workers in (1, 2):
            muster("scale", run, str(workers))
            eventually(partial(self.has_gone_on, muster, run, times=workers + 1), PATIENT)
        (tmp_path / "leave").touch()
        seen, told = process.communicate(timeout=PATIENT)
        assert process.returncode == 0, told
        first, second, third = began(muster, run)
        assert (first[0], second[0], third[0]) == (3, 2, 3)
        assert first[1] == 0
        assert first[1] + 3 <= second[1]
        assert second[1] + 3 <= third[1]
        assert began(muster, run, "rank 1") == [first, second, third]
        assert began(muster, run, "rank 2") == [first, third], "one that joins has the others' checkpoint"
        assert set(re.findall(r"^\[rank (\d)\] 3 ranks to", seen, re.MULTILINE)) == {"0", "1", "2"}

    def has_gone_on(self, muster: Muster, run: str, times: int) -> bool:
        """Whether rank 0 has begun so many times, and has done some steps since."""
        begun = began(muster, run)
        return len(begun) == times and step_of(muster, run) >= begun[-1][1] + 3


def began(muster: Muster, run: str, process: str = "rank 0") -> list[tuple[int, int]]:
    """With how many ranks, and from which step on, a rank has begun each time."""
    told = re.findall(rf"^\[{process}\] (\d) ranks from (\d+)$", muster("logs", run).stdout, re.MULTILINE)
    return [(int(ranks), int(step)) for ranks, step in told]


def step_of(muster: Muster, run: str) -> float:
    """The last step that rank 0 has reported."""
    nodes = json.loads(muster("status", run, "--json").stdout)["nodes"]
    found = [float(node["reported"]["rank 0"]["step"]) for node in nodes if "rank 0" in node["reported"]]
    return max(found, default=0)
