"""What nodes say to each other: small values that travel the control channel as JSON and drive the state machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

from ..workdir.records import Failure, MainConfig, Member, Verdict

# --- from a node to main ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hello:
    """I am here, for this generation."""

    node: str
    role: str
    generation: int
    address: str = ""
    processes: int = 1
    ports: Mapping[str, int] = field(default_factory=dict)
    incarnation: int = 1
    """Tells a node that was started anew from one whose connection broke."""


@dataclass(frozen=True)
class Started:
    """My processes of this generation run."""

    node: str
    generation: int


@dataclass(frozen=True)
class Done:
    """My part of the script has ended well."""

    node: str
    generation: int


@dataclass(frozen=True)
class Failed:
    """One of my processes has ended badly."""

    node: str
    generation: int
    failure: Failure
    script: bool = False


@dataclass(frozen=True)
class HireEnded:
    """A process that main had me start has ended."""

    node: str
    generation: int
    hire: str
    exit_code: int
    failure: Failure | None = None


@dataclass(frozen=True)
class Left:
    """I am gone for good, and this is why."""

    node: str
    verdict: Verdict
    at: float = 0.0
    """Seconds since the epoch."""


# --- from main to a node ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class MainSeen:
    """Main is here, at the head of this generation."""

    config: MainConfig
    patient: bool = False
    """The processes of the generation before have time to save: nothing failed."""


@dataclass(frozen=True)
class Members:
    """All are here; these are the nodes of this generation and their ranks."""

    generation: int
    members: tuple[Member, ...]


@dataclass(frozen=True)
class Go:
    """The cluster is ready: the script may start where it waits for that."""

    generation: int


@dataclass(frozen=True)
class Again:
    """Start your processes once more."""

    generation: int


@dataclass(frozen=True)
class Hire:
    """Start this process for the framework's launcher, which runs on main."""

    generation: int
    hire: str
    order: Mapping[str, Any]


@dataclass(frozen=True)
class Dismiss:
    """End a process that you were told to start."""

    generation: int
    hire: str


@dataclass(frozen=True)
class Conclude:
    """It is over, and this is why."""

    verdict: Verdict


ToMain: TypeAlias = Hello | Started | Done | Failed | HireEnded | Left
ToNode: TypeAlias = MainSeen | Members | Go | Again | Hire | Dismiss | Conclude

TO_MAIN = (Hello, Started, Done, Failed, HireEnded, Left)
TO_NODE = (MainSeen, Members, Go, Again, Hire, Dismiss, Conclude)
_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (*TO_MAIN, *TO_NODE)}
_NESTED: dict[str, Any] = {
    "failure": lambda value: Failure.from_json(value) if value else None,
    "verdict": Verdict.from_json,
    "config": MainConfig.from_json,
    "members": lambda items: tuple(Member.from_json(item) for item in items),
}


def to_wire(message: ToMain | ToNode) -> dict[str, Any]:
    return {"kind": type(message).__name__, **asdict(message)}


def from_wire(value: Mapping[str, Any]) -> ToMain | ToNode | None:
    """The message, or None for a kind that this version does not know."""
    kind = _KINDS.get(str(value.get("kind")))
    if kind is None:
        return None
    fields = {
        name: _NESTED[name](item) if name in _NESTED else item
        for name, item in value.items()
        if name in kind.__dataclass_fields__
    }
    made: ToMain | ToNode = kind(**fields)
    return made
