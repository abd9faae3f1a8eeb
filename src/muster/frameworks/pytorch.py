"""PyTorch: ranks started with torch's own environment contract, or by torchrun where the size is elastic."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..spec.job import Job
from .base import Command, Framework, Port, Scene
from .tails import last_words

if TYPE_CHECKING:
    from ..spec.fields import Kind

_PORT = 29400

_LOST_PEER = re.compile(
    r"gloo/transport|connectFullMesh|monitoredBarrier|Watchdog caught collective operation timeout"
    r"|ncclRemoteError|ncclSystemError|remote process exited"
    r"|Dist(Network|Store)Error|Rendezvous(Closed|Connection|Timeout)Error|SignalException"
    r"|RuntimeError: (Connection (closed|reset|refused)|Broken pipe|Socket Timeout)"
)
_PREFIX = re.compile(r"^\[rank\d+\]: ")
"""Torch puts it before each line of a rank's traceback."""
_FIRST_WORDS = 4
"""Lines of an exception that are its own; torch adds a trace in C++ that names gloo whatever went wrong."""


class PyTorch(Framework):
    name = "pytorch"
    module = "torch"
    install = 'pip install "musterpoint[pytorch]"'
    elastic = True

    def options(self) -> Mapping[str, Kind]:
        from ..spec.fields import Integer, TextList

        return {"port": Integer(min=1, max=65535), "start_args": TextList()}

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
        words = last_words([_PREFIX.sub("", line) for line in tail])[:_FIRST_WORDS]
        return any(_LOST_PEER.search(line) for line in words)


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
        # All of one role, as torchrun has it unless told otherwise.
        "ROLE_NAME": "default",
        "ROLE_WORLD_SIZE": str(world),
        # What libraries know by that the ranks are started already, and need not be by them.
        "TORCHELASTIC_RUN_ID": scene.run,
        "TORCHELASTIC_RESTART_COUNT": str(scene.main.generation - 1),
        "TORCHELASTIC_MAX_RESTARTS": str(scene.job.retries),
        # There is no agent that holds the store: rank 0 does.
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }
    return tuple(
        Command(
            f"rank {rank}",
            (scene.python, *scene.entry_argv()),
            {**shared, "RANK": str(rank), "ROLE_RANK": str(rank), "LOCAL_RANK": str(rank - own.first_rank)},
            _defaults(scene),
            rank=rank,
            script=True,
        )
        for rank in range(own.first_rank, own.first_rank + own.processes)
    )


def _agent(scene: Scene) -> Command:
    hosts_store = scene.role == "main"
    extra = scene.options.get("start_args", ())
    argv = (
        *(scene.python, str(_beside("_torchrun.py"))),
        # Just those who have met: when the size changes, all start anew in a generation of that size.
        f"--nnodes={len(scene.members)}",
        f"--nproc-per-node={scene.processes}",
        *("--rdzv-backend=c10d", f"--rdzv-id={scene.run}-{scene.main.generation}"),
        f"--rdzv-endpoint={scene.main.address}:{scene.main.ports['store']}",
        f"--rdzv-conf=is_host={int(hosts_store)}",
        f"--max-restarts={scene.job.retries}",
        # How soon a failed peer is noticed is what a restart costs.
        *("--monitor-interval=0.2", "--local-addr", scene.address),
        # Else it leaves a folder in the machine's temporary one.
        *("--log-dir", str(scene.folder / "torchrun")),
        *(extra if isinstance(extra, (list, tuple)) else ()),
        *("--no-python", scene.python),
        # Torchrun replaces `${local_rank}` in a rank's arguments, and takes two dollars for one.
        *(word.replace("$", "$$") for word in (str(_beside("_rank.py")), scene.python, *scene.entry_argv())),
    )
    # Sharing the rendezvous store with the ranks made most restarts fail to connect.
    env = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    return Command("torchrun", argv, env, _defaults(scene), script=True, streams=scene.processes)


def _store(scene: Scene) -> Command:
    argv = (scene.python, str(_beside("_torchstore.py")), scene.main.address, str(scene.main.ports["store"]))
    return Command("store", argv)


def _defaults(scene: Scene) -> dict[str, str]:
    chosen = {}
    if scene.processes > 1:
        # Several ranks on a machine would each start a thread per core; torchrun has the same default.
        chosen["OMP_NUM_THREADS"] = "1"
    if scene.interface:
        # Left alone, they listen on whatever address the machine's name stands for.
        chosen |= {"GLOO_SOCKET_IFNAME": scene.interface, "NCCL_SOCKET_IFNAME": scene.interface}
    return chosen


def _beside(name: str) -> Path:
    return Path(__file__).with_name(name)
