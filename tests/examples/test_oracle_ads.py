"""The example for people who come from Oracle's ADS: their file runs as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness import Muster

EXAMPLE = Path(__file__).parents[2] / "examples" / "oracle-ads"

pytestmark = pytest.mark.slow


def test_two_workers_find_that_the_points_lie_on_a_cubic(muster: Muster, tmp_path: Path) -> None:
    done = muster("run", EXAMPLE / "train.yaml")
    assert "degree 3 is best of 9, found by 2 workers" in done.stdout
    muster("outputs", muster.run_id(), "--to", tmp_path / "brought")
    best = json.loads((tmp_path / "brought" / "best.json").read_text())
    assert best.pop("error") < 0.004
    assert best == {"degree": 3, "workers": 2, "folds": 5}
