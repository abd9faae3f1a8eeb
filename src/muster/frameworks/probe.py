"""No framework for users: how `muster doctor --probe` has two nodes try the ports between them (`node/probing.py`)."""

from __future__ import annotations

from pathlib import Path

from ..spec.job import Job
from .base import Command, Framework, Scene

NAME = "muster-probe"
SECONDS = 20
"""For how long a port that does not answer is tried."""


class Probe(Framework):
    name = NAME
    module = "asyncio"
    install = "any Python has it"

    def main_computes(self, job: Job) -> bool:
        return True

    def processes(self, job: Job, gpus: int) -> int:
        return 1

    def scripts(self, scene: Scene) -> tuple[Command, ...]:
        """The job's arguments are the ports."""
        own, other = sorted(scene.members, key=lambda member: member.node != scene.node)
        served = ("--served", str(scene.main.control_port)) if scene.role == "main" else ()
        words = (own.node, own.address, other.node, other.address, *scene.job.args)
        # Isolated, so that nothing in the image's folders is taken for Python's own modules.
        script = str(Path(__file__).parents[1] / "node" / "probing.py")
        argv = (scene.python, "-I", script, *words, "--seconds", str(SECONDS), *served)
        return (Command("probe", argv, rank=own.first_rank, script=True),)
