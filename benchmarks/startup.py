"""The command's own start: `muster --help`, and `muster ps` over finished runs, against a bare interpreter."""

from __future__ import annotations

from .figures import Row, compared
from .measuring import interleaved, timed
from .world import World

_RUNS = 20


def measure(world: World, rounds: int | None, quick: bool) -> list[Row]:
    job = world.job("pytorch", "last_line.py")
    for _ in range(1 if quick else _RUNS):
        timed(world.muster("run", job, "--quiet"))
    cases = {
        "python -c pass": lambda: timed(world.python("-c", "pass")),
        "muster --help": lambda: timed(world.muster("--help")),
        f"muster ps ({_RUNS} runs)": lambda: timed(world.muster("ps")),
    }
    samples = interleaved(cases, rounds or (1 if quick else 21), warm=not quick)
    return compared("start-up", samples, {"muster --help": "ratio 5", f"muster ps ({_RUNS} runs)": "ratio 8"})
