"""Horovod: its own elastic launcher runs on main, and has its processes started on the run's nodes by Muster."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..spec.job import Job
from .base import Command, Framework, Objection, Port, Scene
from .tails import last_words

if TYPE_CHECKING:
    from ..spec.fields import Kind

_PORT = 12345
_START_TIMEOUT = 600.0
"""Seconds that the launcher waits for enough slots, at the start and after a loss: its own default."""
_TIMELINE = "timeline.json"
_LOST_PEER = re.compile(
    r"HorovodInternalError|Horovod has been shut down|gloo/(transport|rendezvous)|GLOO_TIMEOUT|HTTP request failed"
)
_MEANINGLESS = {
    "-np --num-proc --slots-per-host": "`workers` and `processes` say how many there are.",
    "--min-np --min-num-proc": "Use `options: {min_np: …}`.",
    "--max-np --max-num-proc": "Use `options: {max_np: …}`.",
    "--start-timeout": "Use `options: {start_timeout: …}`.",
    "-H --hosts -hostfile --hostfile --host-discovery-script": "The run's nodes are the hosts.",
    "-p --ssh-port -i --ssh-identity-file": "Nothing goes over ssh.",
    "--network-interface --network-interfaces": "Set HOROVOD_GLOO_IFACE and NCCL_SOCKET_IFNAME in `env`.",
    "--output-filename -prefix-timestamp --prefix-output-with-timestamp": "`muster logs` has every rank's lines.",
    "--mpi --jsrun --mpi-args --binding-args": "Processes meet over gloo.",
    "-v --version -cb --check-build -h --help": "It would end the run before it begins.",
}
"""What of `horovodrun`'s arguments means nothing here, and what to do instead."""


class Horovod(Framework):
    name = "horovod"
    module = "horovod"
    install = "muster setup horovod"
    elastic = True
    script_retried = True

    def options(self) -> Mapping[str, Kind]:
        from ..spec.fields import Boolean, Duration, Integer, TextList

        return {
            "min_np": Integer(min=1),
            "max_np": Integer(min=1),
            "start_timeout": Duration(),
            "start_args": TextList(),
            "timeline": Boolean(),
            "port": Integer(min=1, max=65535),
        }

    def objections(self, job: Job) -> Iterator[Objection]:
        options, computing = job.options_of("main"), int(job.role("main").computes)
        least, most = (options.get(name) for name in ("min_np", "max_np"))
        if least and most and least > most:
            yield Objection("options.min_np", f"min_np ({least}) is more than max_np ({most})", "Exchange them.")
        slots = (job.workers.max + computing) * (job.processes or 0)
        if least and slots and least > slots:
            yield Objection("options.min_np", f"min_np is {least}, and the nodes have {slots} slots", "Lower it.")
        if job.workers.max + computing == 0:
            yield Objection("workers", "nothing computes: there is no worker, and main does not", "Add a worker.")
        if options.get("timeline") and not job.outputs:
            yield Objection("options.timeline", "a timeline comes home with the outputs", "Name an outputs folder.")
        for word in options.get("start_args") or ():
            for names, fix in _MEANINGLESS.items():
                if word.partition("=")[0] in names.split():
                    yield Objection("options.start_args", f"`{word}` means nothing here", fix)

    def gathers(self, job: Job) -> bool:
        return False

    def survives_loss(self, job: Job) -> bool:
        return _elastic(job)

    def script_everywhere(self, job: Job) -> bool:
        return False

    def ports(self, job: Job, role: str) -> tuple[Port, ...]:
        if role != "main":
            return ()
        number = job.options_of("main").get("port")
        return (Port("rendezvous", number if isinstance(number, int) else _PORT),)

    def open_ports(self, job: Job) -> str:
        return f"{self.ports(job, 'main')[0]}, and all TCP between the nodes: gloo and NCCL pick random ports"

    def scripts(self, scene: Scene) -> tuple[Command, ...]:
        if scene.role != "main" or not scene.job.entry:
            return ()
        job, options = scene.job, scene.options
        timeline = ("--timeline-filename", _TIMELINE) if options.get("timeline") else ()
        settings = {
            "workers": job.workers.min,
            "nodes": job.workers.max + int(job.role("main").computes),
            "min_np": options.get("min_np"),
            "max_np": options.get("max_np"),
            "elastic": _elastic(job),
            # A fixed size has nobody to go on with after a loss: the run's own retries start all of it again.
            "retries": job.retries if _elastic(job) else 0,
            "timeout": options.get("start_timeout", _START_TIMEOUT),
            "address": scene.main.address,
            "port": scene.main.ports["rendezvous"],
            "args": [*_words(options.get("start_args")), *timeline],
        }
        argv = (scene.python, str(Path(__file__).with_name("_horovod.py")), json.dumps(settings))
        return (Command("horovod", argv, script=True, conducts=True),)

    def hired(self, scene: Scene, order: Mapping[str, Any]) -> Command:
        rank = int(order["rank"])
        env = {str(name): str(value) for name, value in order["env"].items()} | {"MUSTER_PROCESS": f"rank {rank}"}
        if scene.job.options_of("main").get("timeline") and scene.job.outputs:
            # Each knows a place of its own: only rank 0 writes, but another may have become it.
            env["HOROVOD_TIMELINE"] = str(scene.code / scene.job.outputs / _TIMELINE)
        return Command(f"rank {rank}", (scene.python, *scene.entry_argv()), env, _defaults(scene), rank=rank)

    def complaint(self, tail: Sequence[str]) -> bool:
        return any(_LOST_PEER.search(line) for line in last_words(tail))


def _elastic(job: Job) -> bool:
    """Whether the others go on when one is lost: the job has said with how few."""
    return job.workers.elastic or "min_np" in job.options_of("main")


def _words(given: object) -> Sequence[str]:
    return given if isinstance(given, (list, tuple)) else ()


def _defaults(scene: Scene) -> dict[str, str]:
    chosen = {}
    if scene.processes > 1:
        # Several ranks on a machine would each start a thread per core.
        chosen["OMP_NUM_THREADS"] = "1"
    if scene.interface:
        # Left alone, gloo listens on whatever address the machine's name stands for.
        chosen |= {"HOROVOD_GLOO_IFACE": scene.interface, "NCCL_SOCKET_IFNAME": scene.interface}
    return chosen
