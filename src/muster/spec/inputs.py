"""Inputs: what is laid out for the script, by name, and how it is shared out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .fields import Boolean, Field, Kind, Rule, Section
from .job import Input
from .kinds import Wrong, refuse
from .nodes import Node, Table, joined
from .problems import Problems


@dataclass(frozen=True)
class InputMap:
    """Places by name: `data: s3://bucket/set`, or `data: {from: s3://bucket/set, shard: true}`."""

    names: Rule
    places: Kind
    expected: str = "a mapping of names to places"

    def read(self, node: Node, path: str, problems: Problems) -> dict[str, Input] | Wrong:
        if not isinstance(node, Table):
            return refuse(self, node, path, problems, "Write it as a mapping: {data: s3://bucket/set}.")
        found: dict[str, Input] = {}
        for name, item in node.entries.items():
            inner = joined(path, name)
            if not self.names.fits(name):
                problems.add(inner, f"expected {self.names.expected}", self.names.fix(name))
            value = self._one(item, inner, problems)
            if isinstance(value, Input):
                found[name] = value
        return found

    def _one(self, node: Node, path: str, problems: Problems) -> Any:
        if isinstance(node, Table):
            return self._section.read(node, path, problems)
        place = self.places.read(node, path, problems)
        return Input(place) if isinstance(place, str) else place

    @property
    def _section(self) -> Section:
        return Section(
            (
                Field("from", self.places, "Where it is.", "from: s3://bucket/set"),
                Field("shard", Boolean(), "true: each computing node gets its own share of the files.", default=False),
            ),
            build=_build,
            owner="in an input",
        )

    def show(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {name: _shown(one) for name, one in value.items()}

    def schema(self) -> dict[str, Any]:
        values = {"anyOf": [self.places.schema(), self._section.schema()]}
        return {
            "type": "object",
            "additionalProperties": values,
            "propertyNames": {"pattern": f"^{self.names.pattern}$"},
        }


def _build(shard: bool = False, **own: Any) -> Input:
    """An input of what was read. A place that could not be read was noted."""
    return Input(own.get("from", ""), shard)


def _shown(value: Any) -> Any:
    if not isinstance(value, Input):
        return value
    return {"from": value.source, "shard": True} if value.shard else value.source
