"""The job as a value: what the user wrote, checked and with its defaults filled in.

The defaults of the whole product stand here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

ROLES = ("main", "worker", "ps")


@dataclass(frozen=True)
class Workers:
    """How many workers stand beside main. `min` differs from `max` where the cluster is elastic."""

    min: int = 1
    max: int = 1
    start: int | None = None
    """How many an elastic cluster begins with; None is `max`."""

    @property
    def elastic(self) -> bool:
        return self.min != self.max

    @property
    def first(self) -> int:
        """How many there are until the run is scaled."""
        return self.max if self.start is None else self.start


@dataclass(frozen=True)
class Input:
    """What is laid out for the script before it starts."""

    source: str
    """A path of this machine, or a URL."""
    shard: bool = False
    """Each computing node gets its own share of the files, instead of all of them."""


@dataclass(frozen=True)
class Resources:
    """What a node must have. `memory` and `disk` are bytes."""

    gpus: int | None = None
    gpu: str | None = None
    cpus: int | None = None
    memory: int | None = None
    disk: int | None = None


@dataclass(frozen=True)
class Role:
    """What one role has of its own. Its environment and options are laid over the job's."""

    computes: bool = True
    env: Mapping[str, str] = field(default_factory=dict)
    resources: Resources = Resources()
    image: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job file, or the same in Python."""

    name: str
    framework: str
    code: str | None = "."
    entry: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    workers: Workers = Workers()
    ps: int = 0
    processes: int | None = None
    """Per node; None is `auto`: one per GPU, else one."""
    python: str | None = None
    """The interpreter of the script; None is the one that runs Muster."""
    python_path: tuple[str, ...] = ()
    """Folders inside code that processes find modules in, behind the code folder itself."""
    resources: Resources = Resources()
    image: str | None = None
    requirements: str | None = None
    inputs: Mapping[str, Input] = field(default_factory=dict)
    outputs: str | None = "outputs"
    checkpoints: str | None = "checkpoints"
    ephemeral: bool = True
    timeout: float = 600.0
    """Seconds to become ready."""
    ttl: float | None = 24 * 3600.0
    """Seconds to the end, whatever happens."""
    retries: int = 0
    roles: Mapping[str, Role] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    work_dir: str | None = None

    def role(self, name: str) -> Role:
        return self.roles.get(name, Role())

    def options_of(self, role: str) -> dict[str, Any]:
        """The framework's options as one role sees them."""
        return {**self.options, **self.role(role).options}

    def env_of(self, role: str) -> dict[str, str]:
        """The script's environment as one role sees it."""
        return {**self.env, **self.role(role).env}

    def to_json(self) -> dict[str, Any]:
        """Plain values, ready for `json.dumps`, that `from_json` reads back as an equal job."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Job:
        """Reads what `to_json` wrote.

        Fields of a newer Muster are left out: the protocol's version guards meaning.
        """
        known = {key: item for key, item in value.items() if key in cls.__dataclass_fields__}
        known["args"] = tuple(known.get("args", ()))
        known["secrets"] = tuple(known.get("secrets", ()))
        known["python_path"] = tuple(known.get("python_path", ()))
        known["workers"] = Workers(**known.get("workers", {}))
        known["inputs"] = {name: Input(**one) for name, one in known.get("inputs", {}).items()}
        known["resources"] = Resources(**known.get("resources", {}))
        known["roles"] = {
            name: Role(**{**role, "resources": Resources(**role.get("resources", {}))})
            for name, role in known.get("roles", {}).items()
        }
        return cls(**known)
