"""Two ranks of Horovod that join, add up one number and leave: under its own `horovodrun`, and under Muster.

Each turn is measured three times: until both have joined, from the last line of the script on, and as a whole.
"""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass

from .figures import Row, compared
from .measuring import Sample, Start, cpu_of_trees, interleaved, waited
from .world import SCRIPTS, World, tool

_SCRIPT = "horovod_allreduce.py"
_RANKS = 2


@dataclass(frozen=True)
class Turn:
    ready: Sample
    leaving: Sample
    whole: Sample


def measure(world: World, rounds: int | None, quick: bool) -> list[Row]:
    # Its checks are kept for an hour in the user's home otherwise.
    words = ("--gloo", "--disable-cache", "-np", str(_RANKS), tool("python"), SCRIPTS / _SCRIPT)
    own = world.start(tool("horovodrun"), *words)
    job = world.job("horovod", _SCRIPT, workers=_RANKS - 1)
    cases = {"horovodrun": lambda: _turn(own), "muster run": lambda: _turn(world.muster("run", job))}
    turns = interleaved(cases, rounds or (1 if quick else 9), warm=not quick)
    ready, leaving, whole = (
        {case: [getattr(turn, name) for turn in taken] for case, taken in turns.items()}
        for name in ("ready", "leaving", "whole")
    )
    return [
        *compared("horovod, 2 ranks joined", ready, {"muster run": "ratio 1.1"}),
        *compared("horovod, last line to end", leaving, {"muster run": "0.3 s"}),
        *compared("horovod, 2 ranks", whole, {"muster run": "ratio 1.1"}),
    ]


def _turn(start: Start) -> Turn:
    began = time.time()
    process = start.popen(subprocess.PIPE)
    try:
        joined = _times(process, "joined at")
        ready = Sample(max(joined) - began, cpu_of_trees([process.pid]))
        last = _times(process, "last line at")
        cpu = waited(process)
        ended = time.time()
        return Turn(ready, Sample(ended - max(last), cpu), Sample(ended - began, cpu))
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _times(process: subprocess.Popen[str], mark: str) -> list[float]:
    """When each of the ranks said this."""
    assert process.stdout is not None
    found: list[float] = []
    while len(found) < _RANKS:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"only {len(found)} of {_RANKS} ranks said {mark!r}")
        if mark in line:
            found.append(float(line.split()[-1]))
    return found
