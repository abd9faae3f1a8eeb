"""Nodes that were never started, for what a framework says without starting anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from muster.frameworks.base import Scene
from muster.spec.job import Job
from muster.workdir.records import MainConfig, Member


def scene(job: Job, node: str = "main", **fields: Any) -> Scene:
    """A node of `job` on a network of its own: main is 10.0.0.1, worker-1 is 10.0.0.2."""
    role, _, number = node.partition("-")
    ports = {"scheduler": 8786, "dashboard": 8787, "store": 29400}
    known: dict[str, Any] = {
        "run": "run-1",
        "node": node,
        "role": role,
        "job": job,
        "python": "/usr/bin/python3",
        "code": Path("/node/code"),
        "folder": Path("/node"),
        "address": f"10.0.0.{int(number or 0) + 1}",
        "ports": ports,
        "main": MainConfig("main", "10.0.0.1", 7000, 1, ports),
        "processes": job.processes or 1,
    }
    return Scene(**{**known, **fields})


def members(*nodes: str, processes: int = 1) -> tuple[Member, ...]:
    """These nodes as all know them, each with a store port of its own."""
    return tuple(
        Member(
            node,
            node.partition("-")[0],
            f"10.0.0.{int(node.partition('-')[2] or 0) + 1}",
            processes,
            index * processes,
            {"store": 29400 + index},
        )
        for index, node in enumerate(nodes)
    )
