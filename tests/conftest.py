"""What every test may use: a Muster of its own, and a check that it leaves nothing behind."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.docker import docker as docker
from tests.docker import registry as registry
from tests.grouping import pytest_xdist_make_scheduler as pytest_xdist_make_scheduler
from tests.harness import MARK, PLUGINS, Muster, marked


@pytest.fixture
def mark(tmp_path: Path) -> str:
    return f"{os.getpid()}-{tmp_path.name}"


@pytest.fixture
def muster(tmp_path: Path, mark: str) -> Iterator[Muster]:
    """The command in a world of its own. Afterwards no process of it may be left, and no folder of a node."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MUSTER_", "OCI_"))}
    paths = [str(PLUGINS), *([env["PYTHONPATH"]] if env.get("PYTHONPATH") else [])]
    env.update({"MUSTER_HOME": str(tmp_path / "home"), MARK: mark, "PYTHONPATH": os.pathsep.join(paths)})
    folder = tmp_path / "work"
    folder.mkdir()
    made = Muster(tmp_path / "home", folder, env)
    yield made
    for process in made.started:
        process.kill()
        process.communicate()
    left: Mapping[int, str] = {}
    until = time.monotonic() + 15
    while (left := marked(mark)) and time.monotonic() < until:
        time.sleep(0.05)
    for pid in left:
        os.kill(pid, 9)
    assert not left, f"processes were left behind: {left}"
    nodes = tmp_path / "home" / "nodes"
    assert not nodes.exists() or not list(nodes.rglob("*")), f"files were left behind: {list(nodes.rglob('*'))}"
