"""The query of a log search, as far as it is known here. Pure.

::

    SEARCH "compartment/group/log" "compartment/group" | WHERE source = '*run' AND subject = 'x' | SORT BY datetime DESC

Streams may stand with commas between them. Conditions compare with `=`, `!=`, `<`, `<=`, `>` and `>=`, and `and` binds
them closer than `or`; `*` stands for anything. What else the service's language has is refused, and not ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from .routing import Refusal

_STAGE = re.compile(r"""\|(?=(?:[^'"]|'[^']*'|"[^"]*")*$)""")
_STREAM = re.compile(r'"([^"]+)"')
_CONDITION = re.compile(r"""\s*([\w.\-]+)\s*(=|!=|<=|>=|<|>)\s*(?:'([^']*)'|"([^"]*)"|([\w.\-]+))\s*""")
_SORT = re.compile(r"([\w.]+)(?:\s+(asc|desc))?", re.IGNORECASE)
_OR = re.compile(r"""\bor\b(?=(?:[^'"]|'[^']*'|"[^"]*")*$)""", re.IGNORECASE)
_AND = re.compile(r"""\band\b(?=(?:[^'"]|'[^']*'|"[^"]*")*$)""", re.IGNORECASE)


@dataclass(frozen=True)
class Stream:
    """A compartment, a log group in it, a log in that. Empty: all."""

    compartment: str
    group: str = ""
    log: str = ""


@dataclass(frozen=True)
class Condition:
    field: str
    sign: str
    value: str

    def holds(self, row: Mapping[str, Any]) -> bool:
        found = look_up(row, self.field)
        if self.sign in ("=", "!="):
            alike = found is not None and fnmatchcase(str(found), _pattern(self.value))
            return alike == (self.sign == "=")
        if found is None:
            return False
        left, right = (float(found), float(self.value)) if _is_number(found, self.value) else (str(found), self.value)
        return _compared(left, right, self.sign)


@dataclass(frozen=True)
class Query:
    streams: tuple[Stream, ...]
    conditions: tuple[tuple[tuple[Condition, ...], ...], ...] = ()
    """All of them must hold; of each, any alternative; of an alternative, all of it."""
    sort_by: str = "datetime"
    falling: bool = True

    def takes(self, row: Mapping[str, Any]) -> bool:
        return all(
            any(all(condition.holds(row) for condition in alternative) for alternative in stage)
            for stage in self.conditions
        )


def parse(text: str) -> Query:
    """The query, or the service's 400."""
    first, *stages = (stage.strip() for stage in _STAGE.split(text))
    word, _, rest = first.partition(" ")
    streams = tuple(Stream(*said.split("/")[:3]) for said in _STREAM.findall(rest))
    if word.lower() != "search" or not streams or _STREAM.sub("", rest).strip(" ,"):
        raise _unknown(first)
    query = Query(streams)
    for stage in stages:
        query = _with(query, stage)
    return query


def _with(query: Query, stage: str) -> Query:
    words = stage.split(None, 2)
    if len(words) > 1 and words[0].lower() == "where":
        return Query(query.streams, (*query.conditions, _alternatives(stage[5:])), query.sort_by, query.falling)
    if len(words) > 2 and [word.lower() for word in words[:2]] == ["sort", "by"]:
        match = _SORT.fullmatch(words[2].strip())
        if match:
            return Query(query.streams, query.conditions, match[1], (match[2] or "asc").lower() == "desc")
    raise _unknown(stage)


def _alternatives(text: str) -> tuple[tuple[Condition, ...], ...]:
    return tuple(_conditions(part) for part in _OR.split(text))


def _conditions(text: str) -> tuple[Condition, ...]:
    found = []
    for part in _AND.split(text):
        match = _CONDITION.fullmatch(part)
        if match is None:
            raise _unknown(part.strip())
        found.append(Condition(match[1], match[2], next(group for group in match.groups()[2:] if group is not None)))
    return tuple(found)


def look_up(row: Mapping[str, Any], name: str) -> Any:
    """A field of a row. What stands in `logContent` can be named without that."""
    for whole in (row, row.get("logContent", {})):
        found: Any = whole
        for part in name.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        if found is not None:
            return found
    return None


def _pattern(value: str) -> str:
    return re.sub(r"([\[?])", r"[\1]", value)


def _is_number(*values: Any) -> bool:
    try:
        return all(float(value) == float(value) for value in values)
    except (TypeError, ValueError):
        return False


def _compared(left: Any, right: Any, sign: str) -> bool:
    if sign in ("<=", ">=") and left == right:
        return True
    return bool(left < right) if sign.startswith("<") else bool(left > right)


def _unknown(part: str) -> Refusal:
    return Refusal(400, "InvalidParameter", f"Error parsing the query at: {part}")
