"""A framework of its own, found by its entry point alone: ranks that know their number, and no library.

It makes tests of everything around a framework quick, and shows that a framework is one file.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster.frameworks.base import Command, Framework, Port, Scene
from muster.spec.job import Job


class Plain(Framework):
    name = "plain"
    module = "json"
    install = "pip install nothing"
    elastic = True

    def ports(self, job: Job, role: str) -> tuple[Port, ...]:
        return (Port("plain", 23456),)

    def scripts(self, scene: Scene) -> tuple[Command, ...]:
        own = next((member for member in scene.members if member.node == scene.node), None)
        first = own.first_rank if own else 0
        world = sum(member.processes for member in scene.members)
        return tuple(
            Command(
                f"rank {rank}",
                (scene.python, *scene.entry_argv()),
                {"RANK": str(rank), "WORLD_SIZE": str(world)},
                rank=rank,
                script=True,
            )
            for rank in range(first, first + scene.processes)
        )

    def complaint(self, tail: Sequence[str]) -> bool:
        return any("lost a peer" in line for line in tail)
