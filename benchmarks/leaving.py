"""From the last line of a script to the end of `muster run`, against the same script as a plain process."""

from __future__ import annotations

import subprocess
import time
from functools import partial

from .figures import Row, compared
from .measuring import Sample, Start, interleaved, waited
from .world import SCRIPTS, World

_SCRIPT = "last_line.py"
_AIM = "0.3 s"


def measure(world: World, rounds: int | None, quick: bool) -> list[Row]:
    two = world.job("pytorch", _SCRIPT, workers=1)
    dask = world.job("dask", _SCRIPT, workers=3)
    starts = {
        "python script.py": world.python(SCRIPTS / _SCRIPT),
        "muster run, 2 nodes": world.muster("run", two),
        "muster run, dask with 3 workers": world.muster("run", dask),
    }
    cases = {case: partial(_left, start) for case, start in starts.items()}
    samples = interleaved(cases, rounds or (1 if quick else 9), warm=not quick)
    return compared("last line to end", samples, {case: _AIM for case in starts if case.startswith("muster")})


def _left(start: Start) -> Sample:
    process = start.popen(subprocess.PIPE)
    assert process.stdout is not None
    # Nobody need read meanwhile: a pipe holds these few short lines.
    cpu = waited(process)
    ended = time.time()
    with process.stdout as lines:
        return Sample(ended - max(float(line.split()[-1]) for line in lines), cpu)
