"""The kinds of value that a setting can have.

A kind reads a node of the tree into a value, or notes what is wrong with it; shows a value as a file would
say it; and describes itself as JSON Schema. A framework declares its own options with the same kinds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol

from . import units
from .nodes import Node, Scalar, described, shortened
from .problems import Problems, suggestion


class Wrong(Enum):
    """Stands for a value that could not be read; why was noted."""

    WRONG = "wrong"


WRONG: Final = Wrong.WRONG


class Kind(Protocol):
    """What a value may be."""

    @property
    def expected(self) -> str:
        """What a value must be, in words that follow 'expected'."""

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        """The value of a node, or `WRONG` once the mistake is noted."""

    def show(self, value: Any) -> Any:
        """A value as a file would say it, so that reading it gives the value again."""

    def schema(self) -> dict[str, Any]:
        """The same rule as JSON Schema."""


def refuse(kind: Kind, node: Node, path: str, problems: Problems, fix: str = "") -> Wrong:
    """Notes that a node is not what its kind takes."""
    if isinstance(node, Scalar) and node.value is None:
        if not problems.clean(path):
            return WRONG  # a value that no file could say was noted already, and stands here as nothing
        fix = "Give a value, or take the line out."
    problems.add(path, f"expected {kind.expected}, found {described(node)}", fix)
    return WRONG


class Shown:
    """A kind whose values are what a file says."""

    def show(self, value: Any) -> Any:
        return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class Rule:
    """A shape that a word must have. `mend` makes a fitting word of one that does not fit, where it can."""

    pattern: str
    expected: str
    mend: Callable[[str], str] | None = None

    def fits(self, word: str) -> bool:
        return re.fullmatch(self.pattern, word) is not None

    def fix(self, word: str) -> str:
        mended = self.mend(word) if self.mend else ""
        return f"Write `{mended}`." if mended and self.fits(mended) else ""


@dataclass(frozen=True)
class Text(Shown):
    """A text that is not empty."""

    expected: str = "a text"
    rule: Rule | None = None

    def read(self, node: Node, path: str, problems: Problems) -> str | Wrong:
        if not isinstance(node, Scalar) or not isinstance(node.value, str) or not node.value:
            number = isinstance(node, Scalar) and node.value is not None and node.raw
            return refuse(self, node, path, problems, f'Put it in quotes: "{number}".' if number else "")
        if not sendable(node.value, path, problems):
            return WRONG
        if self.rule and not self.rule.fits(node.value):
            message = f"expected {self.rule.expected}, found {shortened(node.value)!r}"
            problems.add(path, message, self.rule.fix(node.value))
            return WRONG
        return node.value

    def schema(self) -> dict[str, Any]:
        shape = {"pattern": f"^{self.rule.pattern}$"} if self.rule else {}
        return {"type": "string", "minLength": 1, **shape}


def sendable(text: str, path: str, problems: Problems) -> bool:
    """Whether a text can be handed to a process at all; notes it if not."""
    try:
        fits = b"\0" not in text.encode()
    except UnicodeEncodeError:
        fits = False
    if not fits:
        problems.add(path, "holds a character that no process can be given", "Take NUL and lone surrogates out.")
    return fits


@dataclass(frozen=True)
class Choice(Shown):
    """One of a few words."""

    words: tuple[str, ...]

    @property
    def expected(self) -> str:
        return " or ".join(filter(None, (", ".join(self.words[:-1]), self.words[-1])))

    def read(self, node: Node, path: str, problems: Problems) -> str | Wrong:
        if isinstance(node, Scalar) and node.value in self.words:
            return str(node.value)
        typed = node.value if isinstance(node, Scalar) and isinstance(node.value, str) else ""
        return refuse(self, node, path, problems, suggestion(typed, self.words) if typed else "")

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.words)}


@dataclass(frozen=True)
class Integer(Shown):
    """A whole number within bounds."""

    min: int | None = None
    max: int | None = None

    @property
    def expected(self) -> str:
        if self.min is not None and self.max is not None:
            return f"a whole number from {self.min} to {self.max}"
        if self.min is not None:
            return f"a whole number of at least {self.min}"
        return "a whole number" if self.max is None else f"a whole number of at most {self.max}"

    def read(self, node: Node, path: str, problems: Problems) -> int | Wrong:
        value = node.value if isinstance(node, Scalar) else None
        if not isinstance(value, int) or isinstance(value, bool):
            quoted = isinstance(value, str) and re.fullmatch(r"-?[0-9]+", value)
            return refuse(self, node, path, problems, f"Take the quotes off: {value}." if quoted else "")
        if (self.min is not None and value < self.min) or (self.max is not None and value > self.max):
            return refuse(self, node, path, problems)
        return value

    def schema(self) -> dict[str, Any]:
        bounds = {"minimum": self.min, "maximum": self.max}
        return {"type": "integer", **{key: bound for key, bound in bounds.items() if bound is not None}}


@dataclass(frozen=True)
class Boolean(Shown):
    """true or false."""

    expected: str = "true or false"

    def read(self, node: Node, path: str, problems: Problems) -> bool | Wrong:
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return node.value
        return refuse(self, node, path, problems, "Write true or false, without quotes.")

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True)
class Duration:
    """A span of time above zero; its value is seconds."""

    expected: str = "a duration above zero"

    def read(self, node: Node, path: str, problems: Problems) -> float | Wrong:
        value = _measured(self, node, path, problems, units.seconds, units.DURATION_HELP)
        return refuse(self, node, path, problems, units.DURATION_HELP) if value == 0 else value

    def show(self, value: Any) -> Any:
        if not isinstance(value, int | float) or value != value or not 0 < value < 1e12:
            return value
        text = units.duration_text(value)
        return text if units.seconds(text) == value else value

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "pattern": _TIME}]}


@dataclass(frozen=True)
class Size:
    """An amount of memory or disk above zero; its value is bytes."""

    expected: str = "a size above zero"

    def read(self, node: Node, path: str, problems: Problems) -> int | Wrong:
        value = _measured(self, node, path, problems, units.size, units.SIZE_HELP)
        return refuse(self, node, path, problems, units.SIZE_HELP) if value == 0 else value

    def show(self, value: Any) -> Any:
        if not isinstance(value, int) or value <= 0:
            return value
        text = units.size_text(value)
        return text if units.size(text) == value else value

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "string", "pattern": _BYTES}]}


_TIME = rf"^(?:{units.NUMBER}|{units.DURATION})$"
_BYTES = rf"^(?:[0-9]+|{units.SIZE})$"


def _measured(
    kind: Kind, node: Node, path: str, problems: Problems, measure: Callable[[str | float], Any], fix: str
) -> Any:
    value = node.value if isinstance(node, Scalar) else None
    if value is None or isinstance(value, bool):
        return refuse(kind, node, path, problems, fix)
    # YAML reads 1:30 as the number 90, which is hardly what was meant.
    written = node.raw if isinstance(node, Scalar) and ":" in node.raw else value
    try:
        return measure(written)
    except ValueError:
        return refuse(kind, node, path, problems, fix)


@dataclass(frozen=True)
class Maybe:
    """A value of another kind, or null, which is None."""

    kind: Kind

    @property
    def expected(self) -> str:
        return f"{self.kind.expected}, or null"

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        if isinstance(node, Scalar) and node.value is None:
            return None
        return self.kind.read(node, path, problems)

    def show(self, value: Any) -> Any:
        return None if value is None else self.kind.show(value)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.kind.schema(), {"type": "null"}]}
