"""The plan as a value, and what every target can do with one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from ..spec.config import Target as TargetConfig
from ..spec.job import Job
from ..workdir.loglines import LogLine
from ..workdir.records import PROTOCOL

Say = Callable[[str], None]

RUN = "{run}"
"""Stands in a plan for the run's id, which is minted only at launch."""


@dataclass(frozen=True)
class CodePlan:
    """The code that will travel."""

    source: str
    """A path of this machine, or where it is fetched from; once it was, with the exact commit or checksum."""
    digest: str
    """Empty where the code comes from elsewhere: a plan is dry, so it is fetched only at launch."""
    files: int
    bytes: int
    ignored: tuple[str, ...] = ()
    """What stays behind beside what `.musterignore` says: a work dir inside the code, with all its runs."""


@dataclass(frozen=True)
class NodePlan:
    """One node that a launch will start."""

    name: str
    role: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    folder: str
    ports: Mapping[str, str]
    """Preferred; where the machine is shared a launch may move them, and records it."""


@dataclass(frozen=True)
class Resource:
    """One thing that a launch will create in a cloud."""

    kind: str
    """In the cloud's own words: `job`, `job run`."""
    name: str
    """Of a job run, its node."""
    payload: Mapping[str, Any]
    """What is sent to make it, in the names of the wire. `{run}` stands for the run's id, `{…}` for what is learnt
    only at launch."""


@dataclass(frozen=True)
class Sight:
    """A node as its cloud sees it."""

    node: str
    id: str
    state: str
    """In the cloud's own word."""
    final: bool
    """Whether nothing of it is left that costs."""
    detail: str = ""


@dataclass(frozen=True)
class Swept:
    """What a sweep found: a run's things in the cloud, and what became of them."""

    run: str
    resource: str
    """The thing's id in its cloud."""
    did: str
    """`kept`, `ended`, `deleted` or `failed`."""
    why: str


@dataclass(frozen=True)
class Plan:
    """The full list of what a launch will create. Nothing exists yet."""

    target: str
    kind: str
    job: Job
    work_dir: str
    code: CodePlan | None
    python: str
    requirements: str | None
    nodes: tuple[NodePlan, ...]
    network: str
    """What must be open between the nodes, in words."""
    protocol: int = PROTOCOL
    price_per_hour: float | None = None
    statements: tuple[str, ...] = ()
    """Permissions that the launch needs, as the target's cloud words them."""
    notes: tuple[str, ...] = ()
    """What the job asks for and this target will not do, or does otherwise."""
    resources: tuple[Resource, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the target's own options say, so that whoever finds the run can ask its cloud. No secret is among them."""

    def with_code(self, code: CodePlan) -> Plan:
        """The plan once its code was fetched. Its digest reaches every node apart from the work dir."""
        nodes = (replace(node, environment={**node.environment, "MUSTER_CODE": code.digest}) for node in self.nodes)
        return replace(self, code=code, nodes=tuple(nodes))

    def config(self) -> TargetConfig:
        """The target that this plan is for."""
        return TargetConfig(self.target, self.kind, self.work_dir, self.settings)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Plan:
        nodes = (NodePlan(**{**node, "command": tuple(node["command"])}) for node in value["nodes"])
        return cls(
            **{
                **value,
                "job": Job.from_json(value["job"]),
                "code": CodePlan(**{**value["code"], "ignored": tuple(value["code"]["ignored"])})
                if value["code"]
                else None,
                "nodes": tuple(nodes),
                "statements": tuple(value["statements"]),
                "notes": tuple(value["notes"]),
                "resources": tuple(Resource(**one) for one in value.get("resources", ())),
            }
        )


class Launched(Protocol):
    """The nodes of a launch, for as long as whoever launched them is there."""

    run: str

    def poll(self) -> bool:
        """Looks after the nodes; true when none is left."""

    def hurry(self) -> None:
        """Something has changed that is worth a look at the next poll, whenever the next look was to be."""

    def wait(self, seconds: float) -> None:
        """Waits until a node has ended, or for so long."""

    def end(self) -> None:
        """Ends all nodes now, with all that they started."""


class Target(Protocol):
    """Where nodes come from."""

    config: TargetConfig

    @property
    def remote(self) -> bool:
        """Whether a run goes on without its launcher."""

    def plan(self, job: Job) -> Plan:
        """What a launch would create. Touches nothing."""

    def logged_in(self, plan: Plan) -> AbstractContextManager[None]:
        """While code is fetched: whatever the target knows that git needs to log in."""

    def reach(self, work_dir: str) -> str:
        """The work dir as this machine opens it, with what it needs for that and the nodes do not."""

    def launch(self, plan: Plan, run: str, say: Say) -> Launched:
        """Does just what the plan says, all of it or nothing."""

    def observe(self, plan: Plan, run: str) -> list[Sight]:
        """The nodes of a run as the cloud sees them; none where there is no cloud to ask."""

    def said(self, plan: Plan, run: str, since: float) -> Iterator[LogLine]:
        """What nodes said to the cloud itself, which is all there is of one that never reached the work dir."""

    def finish(self, plan: Plan, run: str, say: Say) -> None:
        """Makes sure that nothing of a run is left which costs, and takes away what it leaves behind."""

    def scale(self, plan: Plan, run: str, workers: int) -> list[str]:
        """Starts the nodes that a larger size needs, where no launcher has to be there for it; their names."""

    def sweep(self, say: Say, dry: bool = False) -> list[Swept]:
        """Ends what nobody needs any more, found by its tags."""
