"""How many: the workers, parameter servers and processes of a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .fields import Field, Integer, Maybe, Section
from .job import Role, Workers
from .kinds import Wrong, refuse
from .nodes import Node, Scalar, Table
from .problems import Problems


@dataclass(frozen=True)
class WorkerCount:
    """A number of workers, or the bounds of an elastic cluster."""

    expected: str = "a whole number of at least 0, or {min: 1, max: 8}"

    def read(self, node: Node, path: str, problems: Problems) -> Workers | Wrong:
        if isinstance(node, Table):
            workers: Workers = _BOUNDS.read(node, path, problems)
            if workers.min > workers.max and problems.clean(path):
                fix = f"Write {{min: {workers.max}, max: {workers.min}}}."
                problems.add(path, f"min ({workers.min}) is more than max ({workers.max})", fix)
            elif not workers.min <= workers.first <= workers.max and problems.clean(path):
                message = f"the cluster cannot start with {workers.first} workers"
                problems.add(f"{path}.start", message, f"Write a number from {workers.min} to {workers.max}.")
            return workers
        count = Integer(0).read(node, path, problems) if _is_number(node) else refuse(self, node, path, problems)
        return count if isinstance(count, Wrong) else Workers(count, count)

    def show(self, value: Any) -> Any:
        if not isinstance(value, Workers):
            return value
        if not value.elastic:
            return value.min
        start = {} if value.start is None else {"start": value.start}
        return {"min": value.min, "max": value.max, **start}

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [Integer(0).schema(), _BOUNDS.schema()]}


_BOUNDS = Section(
    (
        Field("min", Integer(0), "With fewer workers than this the cluster is not ready.", "min: 1"),
        Field("max", Integer(1), "No more workers than this join.", "max: 8"),
        Field("start", Maybe(Integer(0)), "How many there are at first. Left out: max."),
    ),
    model=Workers,
    owner="in workers",
)


@dataclass(frozen=True)
class ProcessCount:
    """A number of processes per node, or auto, whose value is None."""

    expected: str = "a whole number of at least 1, or auto"

    def read(self, node: Node, path: str, problems: Problems) -> int | Wrong | None:
        if isinstance(node, Scalar) and node.value == "auto":
            return None
        return Integer(1).read(node, path, problems) if _is_number(node) else refuse(self, node, path, problems)

    def show(self, value: Any) -> Any:
        return "auto" if value is None else value

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [Integer(1).schema(), {"const": "auto"}]}


@dataclass(frozen=True)
class ParameterServers:
    """What `ps:` says: how many, and what the role has of its own."""

    count: int = 0
    role: Role | None = None


@dataclass(frozen=True)
class ServerCount:
    """A number of parameter servers, or a mapping with `count` and the role's own settings."""

    section: Section
    expected: str = "a whole number of at least 0, or {count: 1, env: {}}"

    def read(self, node: Node, path: str, problems: Problems) -> ParameterServers | Wrong:
        if isinstance(node, Table):
            found: ParameterServers = self.section.read(node, path, problems)
            return found
        count = Integer(0).read(node, path, problems) if _is_number(node) else refuse(self, node, path, problems)
        return count if isinstance(count, Wrong) else ParameterServers(count)

    def show(self, value: Any) -> Any:
        if not isinstance(value, ParameterServers):
            return value
        if value.role is None:
            return value.count
        return {"count": value.count, **self.section.show(value.role)}

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [Integer(0).schema(), self.section.schema()]}


def _is_number(node: Node) -> bool:
    return isinstance(node, Scalar) and isinstance(node.value, int) and not isinstance(node.value, bool)
