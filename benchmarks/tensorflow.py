"""Two processes of TensorFlow that join, add up one number and leave: by hand with `TF_CONFIG`, and under Muster.

Each turn is measured three times: until both listen, from the last line of the script on, and as a whole.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

from .figures import Row, compared
from .measuring import Sample, Start, cpu_of_trees, interleaved, waited
from .world import SCRIPTS, World, free_port

_SCRIPT = "mirrored.py"
_HERE = "127.0.0.1"
_PATIENCE = 300.0


@dataclass(frozen=True)
class Turn:
    ready: Sample
    leaving: Sample
    whole: Sample


def measure(world: World, rounds: int | None, quick: bool) -> list[Row]:
    cases = {"by hand": lambda: _by_hand(world), "muster run": lambda: _muster(world)}
    turns = interleaved(cases, rounds or (1 if quick else 9), warm=not quick)
    ready, leaving, whole = (
        {case: [getattr(turn, name) for turn in taken] for case, taken in turns.items()}
        for name in ("ready", "leaving", "whole")
    )
    return [
        *compared("tensorflow, 2 processes ready", ready, {}),
        *compared("tensorflow, last line to end", leaving, {}),
        *compared("tensorflow, 2 processes", whole, {}),
    ]


def _by_hand(world: World) -> Turn:
    chief, worker = free_port(), free_port()
    cluster = {"chief": [f"{_HERE}:{chief}"], "worker": [f"{_HERE}:{worker}"]}
    configs = [json.dumps({"cluster": cluster, "task": {"type": kind, "index": 0}}) for kind in cluster]
    # Muster has it say less, too.
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "1"}
    return _turn([world.python(SCRIPTS / _SCRIPT, TF_CONFIG=config, **quiet) for config in configs], (chief, worker))


def _muster(world: World) -> Turn:
    main, worker = free_port(), free_port()
    roles = {"main": {"options": {"port": main}}, "worker": {"options": {"port": worker}}}
    return _turn([world.muster("run", world.job("tensorflow", _SCRIPT, workers=1, **roles))], (main, worker))


def _turn(starts: Sequence[Start], ports: Sequence[int]) -> Turn:
    began = time.perf_counter()
    processes = [start.popen(subprocess.PIPE) for start in starts]
    try:
        _until_listening(began, ports, processes)
        ready = Sample(time.perf_counter() - began, cpu_of_trees(process.pid for process in processes))
        # Nobody need read meanwhile: a pipe holds these few short lines.
        cpu = sum(waited(process) for process in processes)
        wall, ended = time.perf_counter() - began, time.time()
        return Turn(ready, Sample(ended - max(map(_last_line, processes)), cpu), Sample(wall, cpu))
    finally:
        _end(processes)


def _until_listening(began: float, ports: Sequence[int], processes: Sequence[subprocess.Popen[str]]) -> None:
    for port in ports:
        while not _listens(port):
            if time.perf_counter() - began > _PATIENCE or any(process.poll() is not None for process in processes):
                raise RuntimeError("the cluster did not become ready")
            time.sleep(0.02)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((_HERE, port)) == 0


def _last_line(process: subprocess.Popen[str]) -> float:
    """When the last of the scripts came to its end, of all that this process shows."""
    assert process.stdout is not None
    return max(float(line.split()[-1]) for line in process.stdout if "last line at" in line)


def _end(processes: Sequence[subprocess.Popen[str]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()
