"""Reads YAML text into the tree of nodes, noting keys given twice and keys that are no text.

This module brings PyYAML along: import it only where a file is about to be read.
"""

from __future__ import annotations

from typing import Any

import yaml

from . import syntax
from .nodes import DEEPEST, LARGEST, MOST_NODES, Items, Node, OvergrownError, Scalar, Table, described, joined
from .problems import Problems

_TAG = "tag:yaml.org,2002:"


def parse(text: str, problems: Problems) -> Node | None:
    """The tree of one YAML document; None if it is empty, or if a mistake that was noted hides all of it."""
    loader_class = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_depth(text, loader_class)
        return _composed(loader_class(text), problems)
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        syntax.note(error, text, problems)
    except OvergrownError as error:
        problems.add("", str(error), "Write the values out, with fewer aliases and levels.", line=1)
    return None


def _check_depth(text: str, loader_class: type[yaml.SafeLoader]) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=loader_class):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise OvergrownError(f"lists and mappings are nested more than {DEEPEST} levels deep")


def _composed(loader: yaml.SafeLoader, problems: Problems) -> Node | None:
    try:
        root = loader.get_single_node()
        return _Growth(loader, problems).node(root, "", 0) if root else None
    finally:
        loader.dispose()


class _Growth:
    """Turns the parser's graph into a tree: aliases and merge keys are written out, within bounds."""

    def __init__(self, loader: yaml.SafeLoader, problems: Problems) -> None:
        self._loader = loader
        self._problems = problems
        self._left = MOST_NODES

    def node(self, node: yaml.Node, path: str, depth: int) -> Node:
        self._spend(depth)
        self._problems.lines.setdefault(path, _line(node))
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if node.tag not in (f"{_TAG}seq", f"{_TAG}map"):
            self._note_tag(node, path)
        if isinstance(node, yaml.MappingNode):
            return self._table(node, path, depth)
        children = enumerate(node.value)
        return Items(tuple(self.node(child, f"{path}[{index}]", depth + 1) for index, child in children))

    def _spend(self, depth: int) -> None:
        self._left -= 1
        if self._left < 0:
            raise OvergrownError(f"the values of this file, its aliases written out, are more than {MOST_NODES:,}")
        if depth > DEEPEST:
            raise OvergrownError("an alias contains itself, or aliases are nested too deep")

    def _scalar(self, node: yaml.Node, path: str) -> Scalar:
        kind = str(node.tag).removeprefix(_TAG)
        if kind in ("null", "bool", "int", "float"):
            return Scalar(self._resolved(node), node.value)
        if kind not in ("str", "timestamp", "value", "merge"):
            self._note_tag(node, path)
        return Scalar(node.value, node.value)

    def _resolved(self, node: yaml.Node) -> Any:
        try:
            value = self._loader.construct_object(node)
        except (ValueError, LookupError, OverflowError, yaml.YAMLError):
            return node.value  # `0x_` and `!!int word` claim to be numbers and are none
        return node.value if isinstance(value, int) and abs(value) >= LARGEST else value

    def _note_tag(self, node: yaml.Node, path: str) -> None:
        tag = str(node.tag).replace(_TAG, "!!")
        self._problems.add(path, f"the tag {tag} means nothing here", "Take the tag out.", line=_line(node))

    def _table(self, node: yaml.Node, path: str, depth: int) -> Table:
        entries: dict[str, Node] = {}
        first: dict[str, int] = {}
        for key_node, child in node.value:
            key = None if _merges(key_node) else self._key(key_node, path)
            if key is None:
                continue
            inner, line = joined(path, key), _line(key_node)
            if key in first:
                message = f"given twice, on lines {first[key]} and {line}"
                self._problems.add(inner, message, "Keep one of the two.", line=line)
                continue
            first[key] = line
            self._problems.lines.setdefault(inner, line)
            entries[key] = self.node(child, inner, depth + 1)
        for source in self._underlays(node, path, depth):
            entries = {**self._table(source, path, depth + 1).entries, **entries}
        return Table(entries)

    def _underlays(self, node: yaml.Node, path: str, depth: int) -> list[yaml.Node]:
        """The mappings that `<<` lays underneath this one, the uppermost first."""
        found: list[yaml.Node] = []
        for key, value in node.value:
            if _merges(key):
                found += value.value if isinstance(value, yaml.SequenceNode) else [value]
        for source in found:
            self._spend(depth)
            if not isinstance(source, yaml.MappingNode):
                fix = "Write `<<: *name`, where `&name` marks a mapping."
                self._problems.add(path, "`<<` takes a mapping, or a list of them", fix, line=_line(source))
        return [source for source in found if isinstance(source, yaml.MappingNode)]

    def _key(self, node: yaml.Node, path: str) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self._problems.add(path, "a key is a list or a mapping", "Keys are plain text.", line=_line(node))
            return None
        scalar = self._scalar(node, path)
        if isinstance(scalar.value, str):
            return scalar.value
        message = f"YAML reads the key `{scalar.raw}` as {described(scalar)}, and a key is text"
        self._problems.add(path, message, f'Put it in quotes: "{scalar.raw}".', line=_line(node))
        return None


def _merges(key: yaml.Node) -> bool:
    return bool(key.tag == f"{_TAG}merge")


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
