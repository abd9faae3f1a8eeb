"""Sections: mappings with named settings, declared once for reading, messages and the published schema."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .kinds import WRONG, Boolean, Choice, Duration, Integer, Kind, Maybe, Rule, Shown, Size, Text, refuse
from .nodes import Node, Table, joined, plain
from .problems import Problems, suggestion
from .texts import TextList, TextMap

__all__ = [
    "Anything",
    "Boolean",
    "Choice",
    "Duration",
    "Field",
    "Integer",
    "Kind",
    "Maybe",
    "Rule",
    "Section",
    "Size",
    "Text",
    "TextList",
    "TextMap",
]


@dataclass(frozen=True)
class Anything(Shown):
    """A mapping of whatever was written: the options of a framework that is not known here."""

    expected: str = "a mapping"

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        return plain(node) if isinstance(node, Table) else refuse(self, node, path, problems)

    def schema(self) -> dict[str, Any]:
        return {"type": "object"}


@dataclass(frozen=True)
class Field:
    """One setting of a section."""

    name: str
    kind: Kind
    help: str = ""
    example: str = ""
    """Given where the setting must not be left out: a line that would do."""
    default: Any = None
    """Given where the section's model has no field of this name."""


@dataclass(frozen=True)
class Section:
    """A mapping with settings of its own.

    `model` is the dataclass that knows their defaults. The value is one of these, unless `build` makes
    another of what was read; without either it is a dict.
    """

    fields: tuple[Field, ...]
    model: type[Any] = dict
    build: Callable[..., Any] | None = None
    owner: str = "here"
    """Who has these settings, for the message about one it does not have."""
    expected: str = "a mapping"

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        if not isinstance(node, Table):
            return refuse(self, node, path, problems)
        known = {field.name: field for field in self.fields}
        values: dict[str, Any] = {}
        for name, child in node.entries.items():
            inner = joined(path, name)
            if name in known:
                values[name] = known[name].kind.read(child, inner, problems)
            else:
                problems.add(inner, f"there is no such setting {self.owner}", suggestion(name, list(known)))
        for field in self.fields:
            if field.example and field.name not in node.entries:
                problems.add(joined(path, field.name), "missing", f"Add it, such as `{field.example}`.")
        build = self.build or self.model
        return build(**{name: value for name, value in values.items() if value is not WRONG})

    def show(self, value: Any) -> Any:
        """Only what differs from the defaults."""
        if isinstance(value, Mapping):
            given = dict(value)
        elif dataclasses.is_dataclass(value):
            given = dict(vars(value))
        else:
            return value
        shown = {
            field.name: field.kind.show(given.pop(field.name))
            for field in self.fields
            if field.name in given and given[field.name] != self.default(field)
        }
        known = {field.name for field in self.fields}
        return {**shown, **{name: item for name, item in given.items() if name not in known}}

    def default(self, field: Field) -> Any:
        """What a setting is when it is left out; `MISSING` where it must not be."""
        if field.default is not None:
            return field.default
        own = getattr(self.model, "__dataclass_fields__", {}).get(field.name)
        if own is None:
            return dataclasses.MISSING
        return own.default if own.default_factory is dataclasses.MISSING else own.default_factory()

    def schema(self) -> dict[str, Any]:
        required = [field.name for field in self.fields if field.example]
        return {
            "type": "object",
            "properties": {field.name: self._property(field) for field in self.fields},
            **({"required": required} if required else {}),
            "additionalProperties": False,
        }

    def _property(self, field: Field) -> dict[str, Any]:
        default = self.default(field)
        about: dict[str, Any] = {"description": field.help} if field.help else {}
        if default is not dataclasses.MISSING:
            about["default"] = field.kind.show(default)
        return {**about, **field.kind.schema()}
