"""The examples and what `muster init` writes: each runs as it is, learns something, and brings it home."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness import Muster

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Library:
    """One that stands on PyTorch, and what its example leaves."""

    name: str
    ranks: int
    measure: str
    least: float
    most: float
    checkpoint: str
    """The last that main keeps."""
    everywhere: bool
    """Each node keeps it, not main alone."""
    resumed: str
    """Where ranks go on that saw one checkpoint and died over the second."""


LIBRARIES = [
    Library("accelerate", 3, "accuracy", 0.95, 1, "epoch-012", True, "epoch 3"),
    Library("deepspeed", 2, "accuracy", 0.95, 1, "step-0150-of-2", True, "step 50"),
    Library("lightning", 2, "error", 0, 0.02, "epoch=007.ckpt", False, "epoch=001.ckpt"),
]

DIES = """
import os, pathlib, runpy, signal, sys

names = []

def look(event, words):
    if event == "os.rename" and pathlib.Path(words[1]).absolute().parent.name == "checkpoints":
        names.append(words[1])
        if len(names) == 2:
            os.kill(os.getpid(), signal.SIGKILL)

if os.environ["RANK"] == "0" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    sys.addaudithook(look)
runpy.run_path("train.py", run_name="__main__")
"""
"""The example's script, whose rank 0 is killed while it puts its second checkpoint in place, the first time."""

DEVICES = """
import os
print("rank", *(os.environ[name] for name in ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE", "MUSTER_NODE")))
"""

NAMES = """
import os
print("names", *os.environ)
"""

AGENTS_OWN = {
    "MUSTER_STREAMS",
    "TORCHELASTIC_ERROR_FILE",
    "TORCHELASTIC_SIGNALS_TO_HANDLE",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
}
"""What only a rank that has an agent above it has a use for, or that is torch's default anyway."""

TRAINER = """
import lightning
environment = lightning.Trainer(strategy="ddp", devices=1, num_nodes=2, logger=False).strategy.cluster_environment
print("Lightning is rank", environment.global_rank(), "of", environment.world_size())
print("It starts no others:", environment.creates_processes_externally)
"""


@pytest.fixture(params=LIBRARIES, ids=lambda library: library.name)
def library(request: pytest.FixtureRequest) -> Library:
    return installed(request.param)


def installed(library: Library) -> Library:
    if find_spec(library.name) is None:
        told = f"this test needs {library.name}"
        if os.environ.get("CI") == "true":
            pytest.fail(told)
        pytest.skip(told)
    return library


def example(muster: Muster, name: str, **fields: Any) -> Path:
    """The job file of an example, copied and changed."""
    folder = muster.folder / name
    shutil.copytree(EXAMPLES / name, folder)
    job = yaml.safe_load((folder / "job.yaml").read_text())
    (folder / "job.yaml").write_text(yaml.safe_dump({**job, **fields}))
    return folder / "job.yaml"


def brought_home(muster: Muster, tmp_path: Path) -> Path:
    """The outputs of the run that has just ended."""
    muster("outputs", muster.run_id(), "--to", tmp_path / "home-brought")
    return tmp_path / "home-brought"


def reported(muster: Muster) -> dict[str, Any]:
    """The last values that its script reported."""
    nodes = json.loads(muster("status", muster.run_id(), "--json").stdout)["nodes"]
    (values,) = [values for node in nodes for values in node["reported"].values()]
    return dict(values)


def test_with_dask_three_workers_learn_to_read_digits(muster: Muster, tmp_path: Path) -> None:
    import numpy as np

    done = muster("run", EXAMPLES / "dask" / "job.yaml")
    assert "3 workers: ['worker-1', 'worker-2', 'worker-3']" in done.stdout
    outputs = brought_home(muster, tmp_path)
    result = json.loads((outputs / "result.json").read_text())
    assert result["workers"] == 3
    assert result["accuracy"] > 0.9
    assert reported(muster) == {"step": 30, "loss": result["loss"]}
    with np.load(outputs / "model.npz") as model:
        assert {name: model[name].shape for name in model.files} == {
            "a": (7, 32),
            "b": (32,),
            "c": (32, 10),
            "d": (10,),
        }


def test_with_pytorch_two_ranks_learn_to_tell_spirals_apart(muster: Muster, tmp_path: Path) -> None:
    muster("run", EXAMPLES / "pytorch" / "job.yaml")
    outputs = brought_home(muster, tmp_path)
    result = json.loads((outputs / "result.json").read_text())
    assert result["ranks"] == 2
    assert result["accuracy"] > 0.9
    assert reported(muster)["epoch"] == 119
    assert reported(muster)["loss"] < 0.3
    assert (outputs / "model.pt").stat().st_size > 10_000
    assert list((muster.runs / muster.run_id() / "checkpoints" / "main").glob("*/files/last.pt"))


def test_scripts_of_libraries_on_pytorch_run_as_they_are(muster: Muster, library: Library, tmp_path: Path) -> None:
    muster("run", EXAMPLES / library.name / "job.yaml")
    learnt(muster, library, library.ranks, tmp_path)
    kept = (muster.runs / muster.run_id() / "checkpoints").glob(f"*/*/files/{library.checkpoint}")
    nodes = {path.parents[2].name for path in kept}
    assert nodes == {"main", *(f"worker-{rank}" for rank in range(1, library.ranks if library.everywhere else 1))}


def test_they_run_with_several_processes_on_a_node(muster: Muster, library: Library, tmp_path: Path) -> None:
    muster("run", example(muster, library.name, workers=0, processes=2))
    learnt(muster, library, 2, tmp_path)


def test_they_run_elastic(muster: Muster, library: Library, tmp_path: Path) -> None:
    muster("run", example(muster, library.name, workers={"min": 1, "max": 2}))
    learnt(muster, library, 3, tmp_path)


def test_they_go_on_from_the_checkpoint_when_a_rank_was_killed(
    muster: Muster, library: Library, tmp_path: Path
) -> None:
    job = example(muster, library.name, workers=1, entry="dies.py")
    (job.parent / "dies.py").write_text(DIES)
    done = muster("run", job)
    assert "generation 2: rank 0 on main ended with exit code 137" in done.stderr
    resumed = set(re.findall(r"^\[rank (\d)\] rank \1 goes on from (.+)$", done.stdout, re.MULTILINE))
    assert resumed == {("0", library.resumed), ("1", library.resumed)}
    learnt(muster, library, 2, tmp_path)


def learnt(muster: Muster, library: Library, ranks: int, tmp_path: Path) -> None:
    outputs = brought_home(muster, tmp_path)
    result = json.loads((outputs / "result.json").read_text())
    assert result["ranks"] == ranks
    assert library.least <= result[library.measure] <= library.most
    assert (outputs / "model.pt").stat().st_size > 10_000


def test_lightning_knows_its_rank_and_the_size_from_the_cluster(muster: Muster) -> None:
    installed(LIBRARIES[-1])
    done = muster("run", muster.job(TRAINER, "pytorch", workers=1))
    assert set(re.findall(r"Lightning is rank (\d) of (\d)", done.stdout)) == {("0", "2"), ("1", "2")}
    assert done.stdout.count("It starts no others: True") == 2


def test_whatever_torchrun_tells_a_rank_is_told_at_a_fixed_size_too(muster: Muster) -> None:
    elastic = names_of(muster, {"min": 0, "max": 1})
    assert "TORCHELASTIC_RUN_ID" in elastic
    assert elastic - names_of(muster, 1) == AGENTS_OWN


def names_of(muster: Muster, workers: Any) -> set[str]:
    """The variables that the first rank to speak has."""
    done = muster("run", muster.job(NAMES, "pytorch", workers=workers))
    return set(re.findall(r"\] names (.+)$", done.stdout, re.MULTILINE)[0].split())


def test_a_node_starts_a_rank_for_each_of_its_gpus(muster: Muster) -> None:
    done = muster("run", muster.job(DEVICES, "pytorch", workers=1, resources={"gpus": 2}))
    told = re.findall(r"rank (\d) (\d) (\d) (\d) (\S+)$", done.stdout, re.MULTILINE)
    assert sorted(told) == [
        ("0", "0", "2", "4", "main"),
        ("1", "1", "2", "4", "main"),
        ("2", "0", "2", "4", "worker-1"),
        ("3", "1", "2", "4", "worker-1"),
    ]


def test_a_role_may_have_other_gpus_than_the_job_says(muster: Muster) -> None:
    few = {"gpus": 1}
    job = muster.job(DEVICES, "pytorch", workers=1, resources={"gpus": 2}, main={"resources": few})
    told = re.findall(r"rank (\d) (\d) (\d) (\d) (\S+)$", muster("run", job).stdout, re.MULTILINE)
    assert sorted(told) == [
        ("0", "0", "1", "3", "main"),
        ("1", "0", "2", "3", "worker-1"),
        ("2", "1", "2", "3", "worker-1"),
    ]


def test_a_script_for_gpus_learns_on_the_cpu_where_there_is_none(muster: Muster, tmp_path: Path) -> None:
    job = example(muster, "pytorch-gpu", resources={"gpus": 2})
    # As if this machine had none, whatever it has.
    done = muster("run", job, CUDA_VISIBLE_DEVICES="")
    told = set(re.findall(r"rank (\d) of 2 is local rank (\d), on (\S+) \(no GPU\)$", done.stdout, re.MULTILINE))
    assert told == {("0", "0", "cpu"), ("1", "1", "cpu")}
    result = json.loads((brought_home(muster, tmp_path) / "result.json").read_text())
    assert result["ranks"] == 2
    assert result["devices"] == ["cpu", "cpu"]
    assert result["accuracy"] > 0.9
    assert reported(muster)["step"] == 300


def test_what_init_writes_for_dask_runs_as_it_is(muster: Muster, tmp_path: Path) -> None:
    muster("init", "my-job", "-f", "dask")
    muster("run", Path("my-job", "job.yaml"))
    line = json.loads((brought_home(muster, tmp_path) / "line.json").read_text())
    assert line == {"slope": pytest.approx(3, abs=0.1), "height": pytest.approx(-1, abs=0.1)}


def test_what_init_writes_for_pytorch_runs_as_it_is(muster: Muster, tmp_path: Path) -> None:
    muster("init", "my-job", "-f", "pytorch")
    done = muster("run", Path("my-job", "job.yaml"))
    slopes = dict(re.findall(r"^\[rank (\d)\] rank \1 of 2: y = ([\d.]+) x", done.stdout, re.MULTILINE))
    assert slopes.keys() == {"0", "1"}
    assert [float(slope) for slope in slopes.values()] == pytest.approx([3, 3], abs=0.1)
    assert reported(muster)["loss"] < 0.05
    assert (brought_home(muster, tmp_path) / "model.pt").exists()
