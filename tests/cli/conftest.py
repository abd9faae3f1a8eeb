"""A run that has ended, shared by the tests that only look at it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.harness import MARK, PLUGINS, Muster, marked

SCRIPT = """
import os, pathlib, sys, muster

rank = os.environ["RANK"]
print(f"first of {rank}", flush=True)
print(f"warning of {rank}", file=sys.stderr, flush=True)
if rank == "0":
    for number in range(3000):
        print(f"{number:05} " + "x" * 60)
muster.report(step=3, loss=0.5)
pathlib.Path("outputs", "same.txt").write_text("of all")
pathlib.Path("outputs", "own.txt").write_text(f"of rank {rank}")
pathlib.Path("outputs", "deep ä").mkdir()
pathlib.Path("outputs", "deep ä", f"{rank}.txt").write_text("deep")
print(f"last of {rank}", flush=True)
"""


@dataclass
class Finished:
    """The command in a world where one run of two ranks has ended well."""

    muster: Muster
    run: str


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    folder = tmp_path_factory.mktemp("finished")
    mark = f"{os.getpid()}-{folder.name}"
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MUSTER_", "OCI_"))}
    env |= {"MUSTER_HOME": str(folder / "home"), MARK: mark, "PYTHONPATH": str(PLUGINS)}
    (folder / "work").mkdir()
    muster = Muster(folder / "home", folder / "work", env)
    muster("run", muster.job(SCRIPT, name="done", workers=1))
    yield Finished(muster, muster.run_id())
    assert not marked(mark)


@pytest.fixture
def command() -> str:
    """The installed command itself, which shells complete for."""
    import sys

    return str(Path(sys.executable).with_name("muster"))
