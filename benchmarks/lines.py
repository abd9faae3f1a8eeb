"""How long a line takes from a script's `print` to whoever reads the launcher's standard output."""

from __future__ import annotations

import subprocess
import time
from functools import partial

from .figures import Row
from .measuring import Start, interleaved, median, p95, waited
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
        "torchrun --tee 3": world.start(tool("torchrun"), *torchrun, SCRIPTS / _SCRIPT, *words),
    }
    cases = {case: partial(_delays, start) for case, start in starts.items()}
    samples = interleaved(cases, rounds or (1 if quick else 3), warm=not quick)
    return [_row(case, [delay for taken in runs for delay in taken]) for case, runs in samples.items()]


def _row(case: str, delays: list[float]) -> Row:
    return Row("line to screen", case, median(delays) * 1e3, "ms", len(delays), p95=p95(delays) * 1e3)


def _delays(start: Start) -> list[float]:
    process = start.popen(subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as lines:
        # The stamp stands last, behind whatever a launcher puts in front of a line.
        delays = [time.time() - float(line.replace(":", " ").split()[-1]) for line in lines]
    waited(process)
    return delays
