"""Finds the shape of a loaded string, -u'' = f, by conjugate gradients; each rank has a piece of it.

In every step neighbours exchange the ends of their pieces, and all add two numbers up.
"""

import argparse
import json
import math
from pathlib import Path

from mpi4py import MPI

import muster

ALL = MPI.COMM_WORLD


def piece(points):
    """The points of this rank: all but the two at which the string is held."""
    return range(ALL.rank * points // ALL.size, (ALL.rank + 1) * points // ALL.size)


def bent(values, width):
    """-u'' of this rank's piece, for which it must know a point of each neighbour."""
    left = ALL.rank - 1 if ALL.rank else MPI.PROC_NULL
    right = ALL.rank + 1 if ALL.rank + 1 < ALL.size else MPI.PROC_NULL
    before = ALL.sendrecv(values[-1], dest=right, source=left) or 0.0
    after = ALL.sendrecv(values[0], dest=left, source=right) or 0.0
    row = [before, *values, after]
    return [(2 * row[i] - row[i - 1] - row[i + 1]) / width**2 for i in range(1, len(row) - 1)]


def product(one, other):
    return ALL.allreduce(sum(a * b for a, b in zip(one, other)))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--points", type=int, default=300)
    points = arguments.parse_args().points
    if points < ALL.size:
        raise SystemExit(f"{points} points are too few for {ALL.size} ranks")

    width = 1 / (points + 1)
    places = [(number + 1) * width for number in piece(points)]
    load = [math.pi**2 * math.sin(math.pi * x) + x for x in places]
    shape = [0.0] * len(places)
    rest, way = load, load
    size = first = product(rest, rest)
    step = 0
    while size > 1e-20 * first and step < 2 * points:
        step += 1
        curve = bent(way, width)
        far = size / product(way, curve)
        shape = [u + far * w for u, w in zip(shape, way)]
        rest = [r - far * c for r, c in zip(rest, curve)]
        size, before = product(rest, rest), size
        way = [r + size / before * w for r, w in zip(rest, way)]
        if ALL.rank == 0:
            muster.report(step=step, residual=math.sqrt(size))

    exact = [math.sin(math.pi * x) + (x - x**3) / 6 for x in places]
    error = ALL.allreduce(max(abs(u - e) for u, e in zip(shape, exact)), op=MPI.MAX)
    whole = ALL.gather(shape)
    if ALL.rank == 0:
        print(f"{ALL.size} ranks found the shape in {step} steps; it is off by {error:.1e} at most")
        outputs = Path("outputs")
        outputs.mkdir(exist_ok=True)
        result = {"ranks": ALL.size, "steps": step, "error": error, "shape": [u for part in whole for u in part]}
        (outputs / "result.json").write_text(json.dumps(result))
    assert error < 1 / points**2, "it has not found the shape"


if __name__ == "__main__":
    main()
