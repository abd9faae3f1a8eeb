"""PyTorch: ranks started with torch's own environment contract, or by torchrun where the size is elastic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from ..spec.fields import Integer, Kind, TextList
from ..spec.job import Job
from .base import Command, Framework, Port, Scene

_PORT = 29400

_LOST_PEER = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Connection refused",
    "Broken pipe",
    "Socket Timeout",
    "DistNetworkError",
    "DistStoreError",
    "TCPStore",
    "ncclRemoteError",
    "ncclSystemError",
    "Watchdog caught collective operation timeout",
    "SignalException",
)


class PyTorch(Framework):
    name = "pytorch"
    module = "torch"
    install = 'pip install "musterpoint[pytorch]"'
    elastic = True
    options: ClassVar[Mapping[str, Kind]] = {
        "port": Integer(min=1, max=65535),
        "start_args": TextList(),
    }

    def restarts_itself(self, job: Job) -> bool:
        return job.workers.elastic

    def ports(self, job: Job, role: str) -> tuple[Port, ...]:
        # Which node is rank 0 is known only when all have met, so each keeps a port for the store.
        number = job.options_of(role).get("port")
        return (Port("store", number if isinstance(number, int) else _PORT),)

    def open_ports(self, job: Job) -> str:
        return f"{self.ports(job, 'main')[0]}, and all TCP between the nodes: gloo and NCCL pick random ports"

    def services(self, scene: Scene) -> tuple[Command, ...]:
        if scene.role == "main" and scene.job.workers.elastic and not scene.job.role("main").computes:
            return (_store(scene),)
        return ()

    def scripts(self, scene: Scene) -> tuple[Command, ...]:
        if scene.role == "main" and not scene.job.role("main").computes:
            return ()
        return (_agent(scene),) if scene.job.workers.elastic else _ranks(scene)

    def complaint(self, tail: Sequence[str]) -> bool:
        # Only the exception itself counts: a traceback's frames quote code that may hold any of these words.
        said = [line for line in tail if line and not line[0].isspace()][-3:]
        return any(mark in line for line in said for mark in _LOST_PEER)


def _ranks(scene: Scene) -> tuple[Command, ...]:
    own = next(member for member in scene.members if member.node == scene.node)
    first = next(member for member in scene.members if member.first_rank == 0)
    world = sum(member.processes for member in scene.members)
    shared = {
        "MASTER_ADDR": first.address,
        "MASTER_PORT": str(first.ports["store"]),
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(own.processes),
        "GROUP_RANK": str(sorted(member.first_rank for member in scene.members).index(own.first_rank)),
        "GROUP_WORLD_SIZE": str(len(scene.members)),
        "TORCHELASTIC_RESTART_COUNT": str(scene.main.generation - 1),
    }
    if own.processes > 1:
        # Several ranks on a machine would each start a thread per core; torchrun has the same default.
        shared["OMP_NUM_THREADS"] = "1"
    return tuple(
        Command(
            f"rank {rank}",
            (scene.python, *scene.entry_argv()),
            {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank - own.first_rank)},
            rank=rank,
            script=True,
        )
        for rank in range(own.first_rank, own.first_rank + own.processes)
    )


def _agent(scene: Scene) -> Command:
    computing = 1 if scene.job.role("main").computes else 0
    workers = scene.job.workers
    hosts_store = scene.role == "main"
    extra = scene.options.get("start_args", ())
    argv = (
        *(scene.python, str(_beside("_torchrun.py"))),
        f"--nnodes={workers.min + computing}:{workers.max + computing}",
        f"--nproc-per-node={scene.processes}",
        *("--rdzv-backend=c10d", f"--rdzv-id={scene.run}"),
        f"--rdzv-endpoint={scene.main.address}:{scene.main.ports['store']}",
        f"--rdzv-conf=is_host={int(hosts_store)},last_call_timeout=2",
        f"--max-restarts={scene.job.retries}",
        # How soon a failed peer is noticed is what a restart costs.
        *("--monitor-interval=0.2", "--local-addr", scene.address),
        *(extra if isinstance(extra, (list, tuple)) else ()),
        *("--no-python", scene.python, str(_beside("_rank.py")), scene.python, *scene.entry_argv()),
    )
    # Sharing the rendezvous store with the ranks made most restarts fail to connect.
    env = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    return Command("torchrun", argv, env, script=True, streams=scene.processes)


def _store(scene: Scene) -> Command:
    argv = (scene.python, str(_beside("_torchstore.py")), scene.main.address, str(scene.main.ports["store"]))
    return Command("store", argv)


def _beside(name: str) -> Path:
    return Path(__file__).with_name(name)
