"""The examples and what `muster init` writes: each runs as it is, learns something, and brings it home."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Muster

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.slow


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
