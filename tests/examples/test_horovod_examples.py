"""The examples of Horovod and what `muster init` writes for it: each runs as it is, learns something, goes on."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.examples.test_examples import EXAMPLES, brought_home, reported
from tests.frameworks.contract import PATIENT
from tests.frameworks.horovod_runs import PATIENT_GLOO, needs_horovod
from tests.harness import Muster, eventually

pytestmark = pytest.mark.slow

DIES = """
import os, pathlib, runpy, signal, sys

names = []

def look(event, words):
    if event == "os.rename" and pathlib.Path(words[1]).absolute().parent.name == "checkpoints":
        names.append(words[1])
        if len(names) == 2:
            os.kill(os.getpid(), signal.SIGKILL)

died = pathlib.Path(os.environ["MEET"], "died")
if os.environ["HOROVOD_RANK"] == "0" and not died.exists():
    died.touch()
    sys.addaudithook(look)
runpy.run_path("train.py", run_name="__main__")
"""
"""The example's script, whose rank 0 is killed while it puts its second checkpoint in place, the first time."""


def example(muster: Muster, name: str, meet: Path, **fields: Any) -> Path:
    """The job file of an example, copied and changed, in a time that a busy machine can keep."""
    folder = muster.folder / name
    shutil.copytree(EXAMPLES / name, folder)
    job = yaml.safe_load((folder / "job.yaml").read_text())
    env = {**job.get("env", {}), **PATIENT_GLOO, "MEET": str(meet)}
    (folder / "job.yaml").write_text(yaml.safe_dump({**job, "env": env, **fields}))
    (folder / "dies.py").write_text(DIES)
    return folder / "job.yaml"


def test_with_horovod_two_ranks_learn_on_which_side_of_a_cross_a_point_lies(muster: Muster, tmp_path: Path) -> None:
    needs_horovod("torch")
    muster("run", example(muster, "horovod", tmp_path))
    outputs = brought_home(muster, tmp_path)
    result = json.loads((outputs / "result.json").read_text())
    assert result["ranks"] == 2
    assert result["accuracy"] > 0.95
    assert reported(muster)["epoch"] == 100
    assert (outputs / "model.pt").stat().st_size > 10_000
    assert list((muster.runs / muster.run_id() / "checkpoints" / "main").glob("*/files/last.pt"))


def _lines_with(muster: Muster, run: str, text: str) -> str:
    lines = muster("logs", run, check=None).stdout
    return lines if text in lines else ""


def ranks_are(muster: Muster, run: str, size: int) -> list[int]:
    """Waits until so many ranks train; the epochs at which they have begun so far."""
    seen = eventually(lambda: _lines_with(muster, run, f": world size {size}\n"), PATIENT)
    return [int(epoch) for epoch in re.findall(r"epoch (\d+): world size \d", seen)]


def test_it_learns_on_while_its_size_changes(muster: Muster, tmp_path: Path) -> None:
    needs_horovod("torch")
    process = muster.start("run", example(muster, "horovod", tmp_path, args=["--epochs", "3000"]))
    run = muster.run_id()
    ranks_are(muster, run, 2)
    for workers in (2, 0):
        muster("scale", run, str(workers))
        epochs = ranks_are(muster, run, workers + 1)
    assert epochs == sorted(epochs)
    assert len(set(epochs)) >= 3
    muster("stop", run)
    process.communicate(timeout=PATIENT)


def test_it_goes_on_from_the_checkpoint_when_all_start_again(muster: Muster, tmp_path: Path) -> None:
    needs_horovod("torch")
    done = muster("run", example(muster, "horovod", tmp_path, workers=1, entry="dies.py"))
    assert "generation 2: rank 0 on main ended with exit code 137" in done.stderr
    assert "[rank 0] going on from epoch 20" in done.stdout
    assert "[rank 0] epoch 20: world size 2" in done.stdout
    assert json.loads((brought_home(muster, tmp_path) / "result.json").read_text())["accuracy"] > 0.95


def test_with_horovod_and_tensorflow_two_ranks_learn_a_wave_and_go_on_from_the_checkpoint(
    muster: Muster, tmp_path: Path
) -> None:
    needs_horovod("tensorflow")
    done = muster("run", example(muster, "horovod-tensorflow", tmp_path, entry="dies.py"))
    assert "generation 2: rank 0 on main ended with exit code 137" in done.stderr
    assert sorted(re.findall(r"^\[rank (\d)\] rank \1 goes on from step 100$", done.stdout, re.MULTILINE)) == ["0", "1"]
    outputs = brought_home(muster, tmp_path)
    result = json.loads((outputs / "result.json").read_text())
    assert result["ranks"] == 2
    assert result["error"] < 0.01
    assert (outputs / "model.npz").stat().st_size > 4_000


def test_what_init_writes_for_horovod_runs_as_it_is(muster: Muster, tmp_path: Path) -> None:
    needs_horovod("torch")
    muster("init", "my-job", "-f", "horovod")
    done = muster("run", Path("my-job", "job.yaml"))
    slopes = dict(re.findall(r"^\[rank (\d)\] rank \1 of 2: y = ([\d.]+) x", done.stdout, re.MULTILINE))
    assert slopes.keys() == {"0", "1"}
    assert [float(slope) for slope in slopes.values()] == pytest.approx([3, 3], abs=0.1)
    assert reported(muster)["loss"] < 0.05
    assert (brought_home(muster, tmp_path) / "model.pt").exists()
