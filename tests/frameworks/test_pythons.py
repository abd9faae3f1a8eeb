"""The script's own Python: what it lacks is named with the line that installs it, and it needs no Muster of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import Muster


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with nothing but its standard library."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder / "bin" / "python"


@pytest.mark.parametrize(
    ("framework", "module", "extra"), [("dask", "distributed", "dask"), ("pytorch", "torch", "pytorch")]
)
def test_a_framework_that_is_not_installed_gets_the_line_that_installs_it(
    muster: Muster, bare: Path, framework: str, module: str, extra: str
) -> None:
    done = muster("run", muster.job("", framework, python=str(bare)), check=125)
    assert f"{bare} cannot import {module}, which framework {framework} needs" in done.stderr
    assert f'{bare} -m pip install "musterpoint[{extra}]"' in done.stderr
    assert "Traceback" not in done.stderr
    assert not muster.runs.exists()


def test_a_script_in_a_python_without_muster_reports_all_the_same(muster: Muster, bare: Path) -> None:
    script = "import muster, sys\nmuster.report(loss=0.5)\nprint('in', sys.prefix)\n"
    done = muster("run", muster.job(script, python=str(bare), workers=0))
    assert f"[rank 0] in {bare.parents[1]}" in done.stdout
    (node,) = json.loads(muster("status", muster.run_id(), "--json").stdout)["nodes"]
    assert node["reported"] == {"rank 0": {"loss": 0.5}}
