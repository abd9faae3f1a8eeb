"""TensorFlow: every node runs the script with `TF_CONFIG`; main is the chief, and `ps` nodes hold the variables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING

from ..spec.job import Job
from ..workdir.records import Member
from .base import Command, Framework, Objection, Port, PortsAnswer, Scene

if TYPE_CHECKING:
    from ..spec.fields import Kind

_PORT = 12345
_TASKS = {"main": "chief", "worker": "worker", "ps": "ps"}

_LOST = re.compile(r"tensorflow\.[\w.]+\.((PS)?Unavailable|Aborted|Cancelled|DeadlineExceeded)Error: ")
"""How TensorFlow names what it raises when a peer is gone; a bucket that does not answer has the same names."""
_PEER = re.compile(
    r"Collective ops is aborted by: |Collective has timed out"
    r"|(remote target|Error reported from) /job:|coordination service"
)
"""What it says of it then."""
_LOG_LINE = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d|(INFO|WARNING|ERROR|FATAL):tensorflow:")


class TensorFlow(Framework):
    name = "tensorflow"
    module = "tensorflow"
    install = 'pip install "musterpoint[tensorflow]"'
    elastic = True
    roles = frozenset({"main", "worker", "ps"})
    probed = True
    # A server listens when the script makes its strategy, and it may read data for an hour before that.
    probe_binds = False

    def options(self) -> Mapping[str, Kind]:
        from ..spec.fields import Integer

        return {"port": Integer(min=1, max=65535)}

    def objections(self, job: Job) -> Iterator[Objection]:
        if job.processes not in (None, 1):
            why = "tensorflow runs one process per node, which uses all of the node's GPUs"
            yield Objection("processes", why, "Take processes out; for more processes, raise workers.")
        if job.ps and not job.role("main").computes:
            why = "parameter servers need a chief, and main is the chief"
            yield Objection("main.computes", why, "Take `computes: false` out of main.")
        if job.ps and not job.workers.min:
            why = "parameter servers need a worker that computes: the chief only hands out the work"
            yield Objection("workers", why, "Write at least 1, or take ps out.")

    def awaited(self, job: Job) -> frozenset[str]:
        # With parameter servers only the chief has a script that ends: a server's `join()` never returns.
        return frozenset({"main"}) if job.ps else super().awaited(job)

    def processes(self, job: Job, gpus: int) -> int:
        return 1

    def ports(self, job: Job, role: str) -> tuple[Port, ...]:
        number = job.options_of(role).get("port")
        return (Port("server", number if isinstance(number, int) else _PORT),)

    def open_ports(self, job: Job) -> str:
        return f"{self.ports(job, 'worker')[0]} between the nodes"

    def scripts(self, scene: Scene) -> tuple[Command, ...]:
        own = next((member for member in scene.members if member.node == scene.node), None)
        if own is None:
            return ()  # a main that does not compute
        rank = None if own.role == "ps" else _rank(own, scene.members)
        process = own.node if rank is None else f"rank {rank}"
        env = {
            "TF_CONFIG": json.dumps({"cluster": _cluster(scene.members), "task": _task(own, scene.members)}),
            # Peers are reached directly; TensorFlow would go through a proxy of the environment otherwise.
            "no_grpc_proxy": ",".join(sorted({member.address for member in scene.members})),
            # It has no RANK that a report could be told apart by.
            "MUSTER_PROCESS": process,
        }
        # Left alone, each process tells some ten lines of itself.
        defaults = {"TF_CPP_MIN_LOG_LEVEL": "1"}
        return (Command(process, (scene.python, *scene.entry_argv()), env, defaults, rank=rank, script=True),)

    def ready(self, scene: Scene, least: int) -> PortsAnswer | None:
        return PortsAnswer({member.node: (member.address, member.ports["server"]) for member in scene.members})

    def complaint(self, tail: Sequence[str]) -> bool:
        words = _first_exception(tail)
        return bool(words) and bool(_LOST.match(words[0])) and any(_PEER.search(line) for line in words)


def _first_exception(tail: Sequence[str]) -> list[str]:
    """The lines of an exception and its message, without frames, which quote code, and without log lines: whatever
    a process ends for, TensorFlow tells of lost peers meanwhile. Of a chain it is the one that led to the others.
    """
    begins = [number for number, line in enumerate(tail) if line.startswith("Traceback (most recent call last)")]
    if begins:
        words = dropwhile(lambda line: not line or line[0].isspace(), tail[begins[0] + 1 :])
    else:
        words = dropwhile(lambda line: not _LOST.match(line), tail)  # the beginning of a long one may be lost
    return list(takewhile(lambda line: not (line.startswith("Traceback") or _LOG_LINE.match(line)), words))


def _cluster(members: Sequence[Member]) -> dict[str, list[str]]:
    """Who is where, in the order of ranks, which is the same on every node and in every generation of one size."""
    cluster: dict[str, list[str]] = {}
    for member in members:
        cluster.setdefault(_TASKS[member.role], []).append(f"{member.address}:{member.ports['server']}")
    return cluster


def _task(own: Member, members: Sequence[Member]) -> dict[str, object]:
    same = [member.node for member in members if member.role == own.role]
    return {"type": _TASKS[own.role], "index": same.index(own.node)}


def _rank(own: Member, members: Sequence[Member]) -> int:
    """Chief and workers count as ranks; a parameter server computes nothing."""
    return [member.node for member in members if member.role != "ps"].index(own.node)
