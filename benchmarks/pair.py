"""Two processes of PyTorch that join, allreduce and leave: by hand, under Muster, under torchrun."""

from __future__ import annotations

from .figures import Row, compared
from .measuring import Sample, interleaved, timed
from .world import SCRIPTS, World, free_port, tool

_SCRIPT = "allreduce.py"


def measure(world: World, rounds: int | None, quick: bool) -> list[Row]:
    job = world.job("pytorch", _SCRIPT, workers=1)
    torchrun = (tool("torchrun"), "--standalone", "--nnodes", "1", "--nproc-per-node", "2", SCRIPTS / _SCRIPT)
    cases = {
        "by hand": lambda: _by_hand(world),
        "muster run": lambda: timed(world.muster("run", job)),
        "torchrun": lambda: timed(world.start(*torchrun)),
    }
    samples = interleaved(cases, rounds or (1 if quick else 9), warm=not quick)
    return compared("pytorch, 2 processes", samples, {"muster run": "ratio 1.15"})


def _by_hand(world: World) -> Sample:
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
    return timed(*(world.python(SCRIPTS / _SCRIPT, RANK=str(rank), **shared) for rank in range(2)))
