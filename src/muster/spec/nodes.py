"""A file of settings as a small tree of nodes, and the same tree made from Python values.

A scalar keeps its text as written beside the value it stands for, so that `0.10` can stay `0.10` where a
text is wanted. The line of each node is kept in `Problems.lines`, under the path of the node.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from numbers import Integral, Real
from typing import Any, TypeAlias

from .problems import Problems

MOST_NODES = 10_000
"""Aliases can make a short file expand without end; no settings need more values than this."""
DEEPEST = 40
"""Deeper nesting is a mistake, and the YAML parser written in C ends the process on it."""

LARGEST = 2**63
"""No setting needs a larger number, and Python refuses to print one of many thousand digits."""


@dataclass(frozen=True)
class Scalar:
    """One value: what it stands for, and its text as written."""

    value: bool | int | float | str | None
    raw: str


@dataclass(frozen=True)
class Items:
    """A list."""

    items: tuple[Node, ...]


@dataclass(frozen=True)
class Table:
    """A mapping. Its keys are text."""

    entries: Mapping[str, Node]


Node: TypeAlias = Scalar | Items | Table


class OvergrownError(Exception):
    """A tree is too deep or too large to be meant."""


def from_python(value: Any, problems: Problems) -> Node:
    """The tree of plain Python values. What no file could say is noted, and taken as nothing."""
    try:
        return _grown(value, problems, "", 0)
    except OvergrownError:
        limits = f"{DEEPEST} levels or more than {MOST_NODES:,} values"
        problems.add("", f"deeper than {limits}", "A value must not contain itself.")
        return Table({})


def _grown(value: Any, problems: Problems, path: str, depth: int) -> Node:
    problems.lines.setdefault(path, 0)
    if depth > DEEPEST or len(problems.lines) > MOST_NODES:
        raise OvergrownError
    value = _simplified(value)
    if value is None or isinstance(value, str):
        return Scalar(value, value or "")
    if isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < LARGEST):
        return Scalar(value, str(value))
    if isinstance(value, Mapping):
        return _table(value, problems, path, depth)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        children = enumerate(value)
        return Items(tuple(_grown(item, problems, f"{path}[{index}]", depth + 1) for index, item in children))
    what = "so large a number" if isinstance(value, int) else f"a value of the type {type(value).__name__}"
    message = f"{what} has no place here"
    problems.add(path, message, "Give text, numbers, booleans, lists and mappings of them.")
    return Scalar(None, "")


def _simplified(value: Any) -> Any:
    """Paths, other libraries' numbers and our own dataclasses as the plain values they stand for."""
    if is_dataclass(value) and not isinstance(value, type):
        pairs = ((item.name, getattr(value, item.name)) for item in fields(value))
        return {name: item for name, item in pairs if item is not None}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value


def _table(value: Mapping[Any, Any], problems: Problems, path: str, depth: int) -> Table:
    entries: dict[str, Node] = {}
    for key, item in value.items():
        if isinstance(key, str):
            entries[key] = _grown(item, problems, joined(path, key), depth + 1)
        else:
            problems.add(path, f"the key {key!r:.40} is not text", "Keys are text.")
    return Table(entries)


def joined(path: str, key: str) -> str:
    """The path of a key inside a mapping."""
    return f"{path}.{key}" if path else key


def plain(node: Node) -> Any:
    """The tree as Python values again."""
    if isinstance(node, Items):
        return [plain(item) for item in node.items]
    if isinstance(node, Table):
        return {key: plain(item) for key, item in node.entries.items()}
    return node.value


def described(node: Node) -> str:
    """What a node is, in words for a message."""
    if isinstance(node, Items):
        return "a list"
    if isinstance(node, Table):
        return "a mapping"
    if node.value is None:
        return "nothing"
    text = shortened(node.raw)
    if isinstance(node.value, bool):
        return f"the boolean {text}"
    return f"the text {text!r}" if isinstance(node.value, str) else f"the number {text}"


def shortened(text: str) -> str:
    """A text cut to what a message can bear."""
    return text if len(text) <= 60 else text[:57] + "..."
