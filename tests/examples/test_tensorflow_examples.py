"""TensorFlow's examples and what `muster init` writes for it: each runs as it is, learns, and goes on after a loss."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.examples.test_examples import EXAMPLES, brought_home, reported
from tests.harness import Muster

pytestmark = pytest.mark.slow

DIES = """
import os, pathlib, runpy, signal
import tensorflow as tf

save, died = tf.train.CheckpointManager.save, pathlib.Path(os.environ["MEET"], "died")
saved = []

def save_or_die(self, *args, **options):
    if len(saved) == 1 and os.environ["MUSTER_NODE"] == "main" and not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    saved.append(save(self, *args, **options))
    return saved[-1]

tf.train.CheckpointManager.save = save_or_die
runpy.run_path("train.py", run_name="__main__")
"""
"""The example's script, whose chief is killed where it should save for the second time, the first time."""


def dying(muster: Muster, name: str, tmp_path: Path) -> Path:
    """The job file of an example whose chief dies."""
    folder = muster.folder / name
    shutil.copytree(EXAMPLES / name, folder)
    (folder / "dies.py").write_text(DIES)
    job = yaml.safe_load((folder / "job.yaml").read_text())
    (folder / "job.yaml").write_text(yaml.safe_dump({**job, "entry": "dies.py", "env": {"MEET": str(tmp_path)}}))
    return folder / "job.yaml"


def kept(muster: Muster, node: str) -> set[str]:
    """The files of a node's checkpoints that came home."""
    found = (muster.runs / muster.run_id() / "checkpoints" / node).glob("*/files/*")
    return {path.name for path in found}


def test_two_ranks_learn_to_tell_moons_apart(muster: Muster, tmp_path: Path) -> None:
    muster("run", EXAMPLES / "tensorflow" / "job.yaml")
    outputs = brought_home(muster, tmp_path)
    result = json.loads((outputs / "result.json").read_text())
    assert result["ranks"] == 2
    assert result["accuracy"] > 0.95
    assert reported(muster)["step"] == 300
    assert reported(muster)["loss"] < 0.2
    assert (outputs / "model.index").exists()
    for node in ("main", "worker-1"):
        assert {"step-300.index", "step-300.data-00000-of-00001"} <= kept(muster, node)


def test_they_go_on_from_the_checkpoint_that_both_have(muster: Muster, tmp_path: Path) -> None:
    done = muster("run", dying(muster, "tensorflow", tmp_path))
    assert "generation 2: rank 0 on main ended with exit code 137" in done.stderr
    assert set(re.findall(r"^\[rank (\d)\] going on from step (\d+)$", done.stdout, re.MULTILINE)) == {
        ("0", "100"),
        ("1", "100"),
    }
    assert json.loads((brought_home(muster, tmp_path) / "result.json").read_text())["accuracy"] > 0.95


def test_with_a_parameter_server_two_workers_learn_tastes_and_go_on_from_the_chiefs_checkpoint(
    muster: Muster, tmp_path: Path
) -> None:
    done = muster("run", dying(muster, "tensorflow-ps", tmp_path))
    assert "generation 2: rank 0 on main ended with exit code 137" in done.stderr
    assert "[rank 0] going on from step 100" in done.stdout
    assert "what they learnt is on /job:ps/replica:0/task:0" in done.stdout
    outputs = brought_home(muster, tmp_path)
    result = json.loads((outputs / "result.json").read_text())
    assert result["workers"] == 2
    assert result["error"] < 0.1
    assert reported(muster)["step"] == 300
    assert (outputs / "model.index").exists()
    assert "checkpoint" in kept(muster, "main")


def test_the_example_with_a_parameter_server_runs_as_it_is(muster: Muster) -> None:
    done = muster("run", EXAMPLES / "tensorflow-ps" / "job.yaml")
    assert "ready: 4 nodes" in done.stderr
    assert reported(muster)["error"] < 0.1


def test_what_init_writes_for_tensorflow_runs_as_it_is(muster: Muster, tmp_path: Path) -> None:
    muster("init", "my-job", "-f", "tensorflow")
    done = muster("run", Path("my-job", "job.yaml"))
    slopes = dict(re.findall(r"^\[rank (\d)\] one of 2 ranks: y = ([\d.]+) x", done.stdout, re.MULTILINE))
    assert slopes.keys() == {"0", "1"}
    assert [float(slope) for slope in slopes.values()] == pytest.approx([3, 3], abs=0.1)
    assert reported(muster)["loss"] < 0.05
    assert (brought_home(muster, tmp_path) / "model.index").exists()
