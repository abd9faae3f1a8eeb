"""A thousand simulated nodes that meet through one bucket, each of whose requests takes 30 ms.

No node can do with less than one put, its name, and one get, where main is. To that comes what the simulator itself
needs for so many nodes in one process, which a bucket that answers at once shows in the same round.
"""

from __future__ import annotations

import sys

from .figures import Row
from .measuring import median
from .simulated import totals
from .store_requests import simulated
from .world import World

LATENCY = 0.03
_NODES, _FEW = 1000, 50
_ROUNDS = 3


def measure(world: World, rounds: int | None, quick: bool) -> list[Row]:
    nodes, limits, times, counts = _FEW if quick else _NODES, list[float](), list[float](), list[dict[str, int]]()
    for turn in range(1 if quick else rounds or _ROUNDS):
        print(f"  {nodes} nodes: round {turn + 1}", file=sys.stderr, flush=True)
        limits.append(float(simulated(world, nodes, 0.0)["seconds"]) + 2 * LATENCY)
        met = simulated(world, nodes, LATENCY)
        times.append(float(met["seconds"]))
        counts.append(totals(met["requests"]))
    return _rows(nodes, limits, times, counts)


def _rows(nodes: int, limits: list[float], times: list[float], counts: list[dict[str, int]]) -> list[Row]:
    name, taken = "meeting through a bucket", len(times)
    limit, time = median(limits), median(times)
    mains = [each.pop("main") for each in counts]
    workers = [count for each in counts for count in each.values()]
    whole = [main + sum(each.values()) for main, each in zip(mains, counts, strict=True)]
    unit = "requests"
    return [
        Row(name, "limit: one put and one get", limit, "s", taken, least=min(limits)),
        Row(name, f"{nodes} nodes until ready", time, "s", taken, least=min(times), ratio=time / limit, aim="1.0"),
        Row(name, f"{nodes} nodes: a worker", median(workers), unit, len(workers), min(workers), max(workers)),
        Row(name, f"{nodes} nodes: main", median(mains), unit, taken, min(mains), max(mains)),
        Row(name, f"{nodes} nodes: all", median(whole), unit, taken, min(whole), max(whole)),
    ]
