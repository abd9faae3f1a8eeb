"""What tests of real nodes have in common: nodes started by hand, and looks into a run's folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from tests.harness import Muster, eventually

FOREVER = "import time\nprint('here', flush=True)\ntime.sleep(600)\n"
HERE = {"MUSTER_ADDRESS": "127.0.0.1", "MUSTER_FREE_PORTS": "1"}
"""Several nodes share this machine, and no other is to be reached."""


def script_of(muster: Muster, text: str, name: str = "script.py") -> Path:
    """A script that is on this machine already, as in an image."""
    path = muster.folder / name
    path.write_text(text, encoding="utf-8")
    return path


def by_hand(muster: Muster, run: str, mode: str, script: Path, **env: str) -> subprocess.Popen[str]:
    """A node that no target started: the environment is all it has."""
    place = {"WORK_DIR": str(muster.runs), "CLUSTER_TYPE": "plain", "MODE": mode, "JOB_OCID": run}
    return muster.start("node", **{**HERE, **place, "ENTRY_POINT": str(script), **env})


def ended(*nodes: subprocess.Popen[str], within: float = 60.0) -> list[int]:
    """The exit codes, once all have ended."""
    return [node.wait(within) for node in nodes]


def read_json(path: Path) -> dict[str, Any]:
    """What stands in a file of the run, once it is there."""
    value: dict[str, Any] = json.loads(eventually(lambda: path.exists() and path.read_text()))
    return value


def result_of(muster: Muster, run: str) -> dict[str, Any]:
    return read_json(muster.runs / run / "result.json")


def record_of(muster: Muster, run: str, node: str) -> dict[str, Any]:
    return read_json(muster.runs / run / "nodes" / f"{node}.json")


def log_of(muster: Muster, run: str) -> list[dict[str, Any]]:
    """Every line that is in the folder now, node by node."""
    paths = sorted((muster.runs / run / "logs").rglob("*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def texts_of(muster: Muster, run: str, stream: str = "out") -> list[str]:
    return [line["text"] for line in log_of(muster, run) if line["stream"] == stream]


def heard(muster: Muster, run: str, text: str, times: int = 1) -> None:
    """Waits until the log has this line so often."""
    eventually(lambda: texts_of(muster, run).count(text) >= times, within=60)


def parent_of(pid: int) -> int:
    """A node program's parent is its guardian."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def kill_node(program: int) -> None:
    """Takes a node away without a word, as a machine that loses its power: program and guardian at once."""
    guardian = parent_of(program)
    # Else one of them would have the time to tell that the other was killed.
    os.kill(program, signal.SIGSTOP)
    os.kill(guardian, signal.SIGKILL)
    os.kill(program, signal.SIGKILL)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X") and pid != os.getpid()
