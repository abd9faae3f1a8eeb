"""Requests on the work dir until a cluster is ready, by the number of its nodes. A count, so one run is enough."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from .figures import Row
from .measuring import median, p95
from .simulated import totals
from .world import World

_SIZES = (1, 10, 100, 1000)


def measure(world: World, rounds: int | None, quick: bool) -> list[Row]:
    rows: list[Row] = []
    for nodes in _SIZES[:-1] if quick else _SIZES:
        print(f"  {nodes} nodes", file=sys.stderr, flush=True)
        rows += _rows(simulated(world, nodes))
    return rows


def simulated(world: World, nodes: int, latency: float | None = None) -> dict[str, Any]:
    """What `benchmarks.simulated` counted, in a process of its own because of the thousands of open sockets."""
    start = world.python("-m", "benchmarks.simulated", str(nodes), *([] if latency is None else [str(latency)]))
    done = subprocess.run(start.argv, env=start.env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    value: dict[str, Any] = json.loads(done.stdout)
    return value


def _rows(counted: dict[str, Any]) -> list[Row]:
    nodes, requests = counted["nodes"], totals(counted["requests"])
    main = requests.pop("main")
    name = "requests until ready"
    rows = [Row(name, f"{nodes} nodes: main", main, "requests", 1, aim="not by nodes")]
    if requests:
        taken = list(requests.values())
        rows.append(
            Row(
                name,
                f"{nodes} nodes: a worker",
                median(taken),
                "requests",
                len(taken),
                min(taken),
                p95(taken),
                aim="constant",
            )
        )
    return rows
