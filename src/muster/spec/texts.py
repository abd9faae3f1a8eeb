"""Texts in a list or under names: arguments, environments, tags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .kinds import WRONG, Kind, Rule, Shown, Wrong, refuse, sendable
from .nodes import Items, Node, Scalar, Table, described, joined, shortened
from .problems import Problems

_WORD_SCHEMA = {"type": ["string", "number", "boolean"]}


def _word(node: Node, path: str, problems: Problems, fix: str) -> str | Wrong:
    """A text, or a number or boolean as it was written."""
    if isinstance(node, Scalar) and node.value is not None:
        return node.raw if sendable(node.raw, path, problems) else WRONG
    problems.add(path, f"expected a text, found {described(node)}", fix)
    return WRONG


@dataclass(frozen=True)
class TextList(Shown):
    """Texts in order. Numbers and booleans are taken as they were written."""

    rule: Rule | None = None
    expected: str = "a list of texts"

    def read(self, node: Node, path: str, problems: Problems) -> tuple[str, ...] | Wrong:
        if not isinstance(node, Items):
            return refuse(self, node, path, problems, _as_list(node))
        return tuple(word for word in self._words(node, path, problems) if not isinstance(word, Wrong))

    def _words(self, node: Items, path: str, problems: Problems) -> list[str | Wrong]:
        words: list[str | Wrong] = []
        for index, item in enumerate(node.items):
            inner = f"{path}[{index}]"
            word = _word(
                item,
                inner,
                problems,
                'Write "" for an empty text, and put null in quotes if you mean the word.',
            )
            if isinstance(word, str) and self.rule and not self.rule.fits(word):
                message = f"expected {self.rule.expected}, found {shortened(word)!r}"
                problems.add(inner, message, self.rule.fix(word))
            words.append(word)
        return words

    def schema(self) -> dict[str, Any]:
        item = {"type": "string", "pattern": f"^{self.rule.pattern}$"} if self.rule else _WORD_SCHEMA
        return {"type": "array", "items": item}


def _as_list(node: Node) -> str:
    import json
    import shlex

    if not isinstance(node, Scalar):
        return "Write it as a list: [first, second]."
    try:
        words = shlex.split(node.raw)
    except ValueError:
        words = [node.raw]
    return f"Write it as a list: {json.dumps([shortened(word) for word in words[:8]])}."


@dataclass(frozen=True)
class TextMap:
    """Texts by name. Numbers and booleans are taken as they were written."""

    names: Rule | None = None
    values: Kind | None = None
    expected: str = "a mapping of names to texts"
    fix: str = 'Write "" for an empty text.'

    def read(self, node: Node, path: str, problems: Problems) -> dict[str, str] | Wrong:
        if not isinstance(node, Table):
            return refuse(self, node, path, problems, "Write it as a mapping: {NAME: value}.")
        found: dict[str, str] = {}
        for name, item in node.entries.items():
            inner = joined(path, name)
            if self.names and not self.names.fits(name):
                problems.add(inner, f"expected {self.names.expected}", self.names.fix(name))
            value = self.values.read(item, inner, problems) if self.values else _word(item, inner, problems, self.fix)
            if isinstance(value, str):
                found[name] = value
        return found

    def show(self, value: Any) -> Any:
        return dict(value) if isinstance(value, Mapping) else value

    def schema(self) -> dict[str, Any]:
        names = {"propertyNames": {"pattern": f"^{self.names.pattern}$"}} if self.names else {}
        values = self.values.schema() if self.values else _WORD_SCHEMA
        return {"type": "object", "additionalProperties": values, **names}
