"""How long a line takes from a script's `print` to whoever reads the launcher's standard output."""

from __future__ import annotations

import subprocess
import time
from dataclasses import replace
from functools import partial

from .figures import Row, compared
from .measuring import Sample, Start, interleaved, median, p95, waited
from .world import SCRIPTS, World, tool

_SCRIPT = "lines.py"


def measure(world: World, rounds: int | None, quick: bool) -> list[Row]:
    words = ("5" if quick else "60", "0.03")
    job = world.job("pytorch", _SCRIPT, workers=1, args=list(words))
    logs = ("--log-dir", world.folder / "torchrun-logs")
    torchrun = (*("--standalone", "--nnodes", "1", "--nproc-per-node", "2", "--tee", "3"), *logs)
    starts = {
        "plain pipe": world.python(SCRIPTS / _SCRIPT, *words),
        "muster run, 2 nodes": world.muster("run", job),
        # Without the variable torchrun keeps lines back until a buffer of its own is full.
        "torchrun --tee 3, unbuffered": world.start(
            tool("torchrun"), *torchrun, SCRIPTS / _SCRIPT, *words, PYTHONUNBUFFERED="1"
        ),
    }
    cases = {case: partial(_delays, start) for case, start in starts.items()}
    runs = interleaved(cases, rounds or (1 if quick else 3), warm=not quick)
    samples = {case: [sample for taken in turns for sample in taken] for case, turns in runs.items()}
    return [_in_milliseconds(row, samples[row.case]) for row in compared("line to screen", samples, {})]


def _in_milliseconds(row: Row, samples: list[Sample]) -> Row:
    delays = [sample.wall * 1e3 for sample in samples]
    return replace(row, value=median(delays), least=min(delays), p95=p95(delays), unit="ms")


def _delays(start: Start) -> list[Sample]:
    """A sample for each line, all with the CPU seconds of the whole run."""
    process = start.popen(subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as lines:
        # The stamp stands last, behind whatever a launcher puts in front of a line.
        delays = [time.time() - float(line.replace(":", " ").split()[-1]) for line in lines]
    cpu = waited(process)
    return [Sample(delay, cpu) for delay in delays]
