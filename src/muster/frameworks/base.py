"""What a framework is to Muster: a handful of questions answered with values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from ..spec.job import Job
from ..workdir.records import MainConfig, Member

if TYPE_CHECKING:
    from ..spec.fields import Kind


class Certificates(NamedTuple):
    """Files on this node by which the processes of a cluster know each other, each its own and the others'."""

    authority: Path
    certificate: Path
    key: Path


@dataclass(frozen=True)
class Scene:
    """All that a framework may know of the node it is asked about."""

    run: str
    node: str
    role: str
    job: Job
    python: str
    code: Path
    folder: Path
    """The node's own folder, for what the framework has to put on a disk."""
    address: str
    ports: Mapping[str, int]
    main: MainConfig
    processes: int
    members: Sequence[Member] = ()
    """Every computing node; known only where the framework gathers."""
    fixed_ports: bool = True
    """False on one machine, where default ports would collide and every service takes a free one."""
    interface: str = ""
    """The name of the network interface that has the address, where it is known."""
    certificates: Certificates | None = None
    """Where the cluster speaks TLS."""

    @property
    def options(self) -> dict[str, object]:
        return self.job.options_of(self.role)

    def entry_argv(self) -> tuple[str, ...]:
        """The script and its arguments, each one word, for the script's Python."""
        if not self.job.entry:
            return ()
        return (str(self.code / self.job.entry), *self.job.args)


@dataclass(frozen=True)
class Command:
    """One process of a node."""

    process: str
    """Its name within the node: `scheduler`, `worker`, `script`, `rank 3`."""
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Variables that hold unless the job or the machine gives them another value."""
    rank: int | None = None
    script: bool = False
    """The user's script, whose end is the node's; otherwise a service, which must stay up."""
    streams: int = 0
    """How many ranks it starts by itself, each of which writes to a pipe of its own instead of to this process's."""
    conducts: bool = False
    """A launcher of the framework's own on main: it has processes started on the nodes, as `conductor.py` tells."""


@dataclass(frozen=True)
class HttpCount:
    """Ready when a JSON page's `field` has reached `least`."""

    url: str
    field: str
    least: int


@dataclass(frozen=True)
class PortsAnswer:
    """Ready when somebody listens at each of these, by the node's name: (address, port)."""

    places: Mapping[str, tuple[str, int]]


Probe: TypeAlias = HttpCount | PortsAnswer


@dataclass(frozen=True)
class Objection:
    """Something that a job asks for and its framework cannot do."""

    field: str
    message: str
    fix: str


@dataclass(frozen=True)
class Port:
    """A port that a node listens on, as the plan names it."""

    name: str
    number: int
    last: int = 0
    """The end of a range, where a service takes the first free one of it."""

    def __str__(self) -> str:
        return f"{self.number}-{self.last}" if self.last else str(self.number)


class Framework:
    """The questions. A framework of one's own is a subclass named by an entry point in `muster.frameworks`."""

    name: ClassVar[str]
    module: ClassVar[str]
    """What the script's Python must be able to import."""
    install: ClassVar[str]
    """The line that makes it so."""
    elastic: ClassVar[bool] = False
    roles: ClassVar[frozenset[str]] = frozenset({"main", "worker"})
    probed: ClassVar[bool] = False
    """Whether `ready` has something to ask."""
    probe_binds: ClassVar[bool] = True
    """Whether its answer must come within the job's timeout; not where it waits for the user's own code."""
    script_retried: ClassVar[bool] = False
    """Whether a script that main alone runs is started again when it failed, while the job has retries."""
    entry_needed: ClassVar[bool] = True
    """False where a cluster without a script is of use."""

    def options(self) -> Mapping[str, Kind]:
        """The options of its own that a job may give. Their kinds are imported here: no node needs them."""
        return {}

    def objections(self, job: Job) -> Iterable[Objection]:
        """What of this job it cannot do."""
        return ()

    def encrypts(self, job: Job, wished: bool) -> bool:
        """Whether its processes meet over TLS. `wished`: the target asks for it where the job leaves it open."""
        return False

    def certificate_files(self, job: Job, role: str) -> tuple[str, str, str] | None:
        """Authority, certificate and key that the job names, as seen from the code; None: the run's own serve."""
        return None

    def gathers(self, job: Job) -> bool:
        """Whether no node starts before all are known, because each must be told of the others.

        Where the size is elastic, all start anew, from their checkpoint, whenever it changes.
        """
        return True

    def survives_loss(self, job: Job) -> bool:
        """Whether the cluster goes on by itself when a worker is lost."""
        return False

    def restarts_itself(self, job: Job) -> bool:
        """Whether the framework's own engine uses the job's retries up, so that Muster must not."""
        return False

    def script_everywhere(self, job: Job) -> bool:
        """Whether every computing node runs the script, or main alone."""
        return True

    def main_computes(self, job: Job) -> bool:
        """Whether main does a worker's work beside its own."""
        return job.role("main").computes

    def awaited(self, job: Job) -> frozenset[str]:
        """The roles whose scripts must have ended before the run has; the others are ended then."""
        return frozenset({"main", "worker"})

    def processes(self, job: Job, gpus: int) -> int:
        """How many processes a node runs."""
        return job.processes or gpus or 1

    def ports(self, job: Job, role: str) -> tuple[Port, ...]:
        """What a node of this role listens on, in the order in which free ports are given to it."""
        return ()

    def open_ports(self, job: Job) -> str:
        """What the network must let through between the nodes, in words."""
        return ", ".join(str(port) for role in sorted(self.roles) for port in self.ports(job, role))

    def services(self, scene: Scene) -> tuple[Command, ...]:
        """What a node starts as soon as main is known."""
        return ()

    def scripts(self, scene: Scene) -> tuple[Command, ...]:
        """What runs the user's script on this node."""
        return ()

    def hired(self, scene: Scene, order: Mapping[str, Any]) -> Command:
        """A process on this node that the framework's own launcher ordered, which runs on main."""
        raise NotImplementedError(f"{self.name} starts no processes through main")

    def retire(self, scene: Scene, nodes: Sequence[str]) -> Command | None:
        """What main runs before these nodes leave, so that nothing of value goes with them."""
        return None

    def ready(self, scene: Scene, least: int) -> Probe | None:
        """What main asks, beside every node having started, before the cluster counts as ready."""
        return None

    def links(self, scene: Scene) -> dict[str, str]:
        """Pages worth showing to the user, by name."""
        return {}

    def complaint(self, tail: Sequence[str]) -> bool:
        """Whether a failed process's last lines only complain about a peer that was lost."""
        return False
