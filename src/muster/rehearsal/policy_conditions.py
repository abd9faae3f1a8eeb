"""The conditions of Oracle's policy language, which matching rules of dynamic groups are made of too.

>>> condition = read_condition(Tokens("all {target.bucket.name = 'training', request.permission != /*_DELETE/}"))
>>> condition.holds({"target.bucket.name": "training", "request.permission": "OBJECT_READ"})
True

As with the real ones, a variable that a request does not have makes its clause not hold, `!=` included; and upper
and lower case are the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Values = Mapping[str, str | Sequence[str]]
"""Variables by their names in lower case; several values where any of them may be meant."""

_TOKEN = re.compile(
    r"\s*(?:(?P<domain>'[^']*'/'[^']*')|(?P<text>'[^']*'|\"[^\"]*\")|(?P<pattern>/[^/]*/)"
    r"|(?P<mark>!=|[={}(),])|(?P<word>[^\s{}(),=!'\"/][^\s{}(),=!'\"]*))"
)
_LATER = ("before", "after", "between", "in")
_VARIABLE = re.compile(r"(?:request|target|resource|instance|tag)\.[\w.\-]+", re.IGNORECASE)


class NotPolicy(Exception):
    """This text is no statement, condition or rule of the language; or of the part that is rehearsed."""


class Tokens:
    """A text of the language, taken apart."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._found: list[tuple[str, str]] = []
        place, end = 0, len(text.rstrip())
        while place < end:
            match = _TOKEN.match(text, place)
            if match is None:
                raise NotPolicy(f"cannot read {text[place:].strip()[:40]!r} in: {text}")
            self._found.append((str(match.lastgroup), match.group().strip()))
            place = match.end()
        self._next = 0

    @property
    def kind(self) -> str:
        """What comes next: `word`, `text`, `pattern`, `mark`, `domain`; empty at the end."""
        return self._found[self._next][0] if self._next < len(self._found) else ""

    @property
    def word(self) -> str:
        """The next token in lower case; empty at the end."""
        return self._found[self._next][1].lower() if self._next < len(self._found) else ""

    def take(self) -> str:
        if not self.kind:
            raise NotPolicy(f"more was expected at the end of: {self.text}")
        self._next += 1
        return self._found[self._next - 1][1]

    def skip(self, *wanted: str) -> bool:
        """Goes past the next token if it is one of these."""
        if self.kind in ("word", "mark") and self.word in wanted:
            self._next += 1
            return True
        return False

    def expect(self, wanted: str) -> None:
        if not self.skip(wanted):
            found = f"{self.word!r}" if self.kind else "the end"
            raise NotPolicy(f"expected {wanted!r} instead of {found} in: {self.text}")


class Condition(Protocol):
    def holds(self, values: Values) -> bool: ...


@dataclass(frozen=True)
class Always:
    """No condition at all."""

    def holds(self, values: Values) -> bool:
        return True


@dataclass(frozen=True)
class Several:
    """`all {…}` or `any {…}`."""

    every: bool
    parts: tuple[Condition, ...]

    def holds(self, values: Values) -> bool:
        return (all if self.every else any)(part.holds(values) for part in self.parts)


@dataclass(frozen=True)
class Present:
    """A variable alone, as rules have it of tags: whatever its value is."""

    variable: str

    def holds(self, values: Values) -> bool:
        return self.variable in values


@dataclass(frozen=True)
class Compared:
    """`variable = 'value'`, and its like."""

    variable: str
    value: str
    kind: str
    """`text`, `pattern`, or `variable` where the value is that of another one."""
    equal: bool = True

    def holds(self, values: Values) -> bool:
        found, wanted = _of(values, self.variable), self._wanted(values)
        if found is None or wanted is None:
            return False
        return self.equal == any(re.fullmatch(one, each, re.IGNORECASE) for each in found for one in wanted)

    def _wanted(self, values: Values) -> list[str] | None:
        if self.kind == "variable":
            found = _of(values, self.value.lower())
            return None if found is None else [re.escape(each) for each in found]
        if self.kind == "pattern":
            return [".*".join(re.escape(part) for part in self.value.split("*"))]
        return [re.escape(self.value)]


def _of(values: Values, variable: str) -> list[str] | None:
    found = values.get(variable)
    if found is None:
        return None
    return [found] if isinstance(found, str) else list(found)


def read_condition(tokens: Tokens) -> Condition:
    """The condition that begins here, to its end."""
    word = tokens.word
    if tokens.skip("all", "any"):
        tokens.expect("{")
        parts = [read_condition(tokens)]
        while tokens.skip(","):
            parts.append(read_condition(tokens))
        tokens.expect("}")
        return Several(word == "all", tuple(parts))
    if tokens.kind != "word":
        raise NotPolicy(f"expected a variable instead of {tokens.word!r} in: {tokens.text}")
    return _read_clause(tokens.take().lower(), tokens)


def _read_clause(variable: str, tokens: Tokens) -> Condition:
    if tokens.word in _LATER:
        raise NotPolicy(f"conditions with {tokens.word!r} are not rehearsed: {tokens.text}")
    if variable.startswith("tag.") and tokens.word in ("", ",", "}"):
        return Present(variable)
    equal = not tokens.skip("!=")
    if equal:
        tokens.expect("=")
    kind, value = tokens.kind, tokens.take()
    if kind in ("text", "pattern"):
        return Compared(variable, value[1:-1], kind, equal)
    if kind == "word" and _VARIABLE.fullmatch(value):
        return Compared(variable, value, "variable", equal)
    raise NotPolicy(f"the value {value!r} wants quotation marks in: {tokens.text}")


def read_rule(text: str) -> Condition:
    """The matching rule of a dynamic group."""
    tokens = Tokens(text)
    rule = read_condition(tokens)
    if tokens.kind:
        raise NotPolicy(f"nothing was expected behind the rule, and there is {tokens.word!r}: {text}")
    return rule
