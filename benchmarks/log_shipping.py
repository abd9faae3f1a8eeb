"""What it costs a node to ship the lines of eight ranks to a bucket, and that none is lost."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

from muster.rehearsal import s3

from .figures import Row
from .measuring import Start, median, waited
from .world import World

RANKS = 8
_PACE = 100_000
"""Lines per second of all ranks together."""
_BUCKET = "training"


@dataclass(frozen=True)
class _Taken:
    """CPU seconds of all processes but the ranks, and how fast the ranks got rid of their lines."""

    cpu: float
    pace: float


def measure(world: World, rounds: int | None, quick: bool) -> list[Row]:
    lines = 2_000 if quick else 1_000_000 // RANKS
    with s3.started(_BUCKET) as server:
        made = World(world.folder, {**world.env, **server.environment})
        turns = rounds or (1 if quick else 3)
        silent = [_run(made, 0) for _ in range(turns)]
        talking = [_run(made, lines) for _ in range(turns)]
    million = RANKS * lines / 1e6
    spent = [(one.cpu - median(two.cpu for two in silent)) / million for one in talking]
    paces = [one.pace for one in talking]
    name = f"log shipping, {RANKS} ranks"
    return [
        Row(name, "CPU per million lines", median(spent), "s", turns, min(spent)),
        Row(name, "lines per second taken", median(paces), "lines/s", turns, min(paces), aim=f"{_PACE:,}"),
    ]


def _run(world: World, lines: int) -> _Taken:
    """One run; an error if a single line is not in the bucket, or not in its place."""
    words = [str(lines), str(_PACE / RANKS)]
    job = world.job("pytorch", "chatter.py", workers=0, processes=RANKS, args=words, work_dir=f"s3://{_BUCKET}/runs")
    cpu = waited(world.muster("run", "--quiet", job).popen())
    found = _logged(world.muster("logs", "bench"))
    for rank in range(RANKS):
        numbers = [int(number) for number in re.findall(rf"^\[rank {rank}\] {rank} (\d+) epoch", found, re.MULTILINE)]
        if numbers != list(range(lines)):
            raise RuntimeError(f"rank {rank}: {len(numbers)} of {lines} lines arrived in their order")
    own = [(float(spent), float(took)) for spent, took in re.findall(r"cpu (\S+) took (\S+)", found)]
    return _Taken(cpu - sum(spent for spent, _ in own), RANKS * lines / max(took for _, took in own))


def _logged(start: Start) -> str:
    process = start.popen(subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as text:
        found = text.read()
    waited(process)
    return found
