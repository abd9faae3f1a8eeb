"""One page of a list of names, by prefix and delimiter, as Oracle's object storage gives it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Wanted:
    """What a list is to hold. `start` is the first name, `start_after` the last before it, `end` the first beyond."""

    prefix: str = ""
    start: str = ""
    start_after: str = ""
    end: str | None = None
    limit: int = 1000
    delimiter: str = ""


@dataclass
class Page:
    names: list[str] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)
    next_start: str | None = None
    """Where the next page starts; None on the last."""


def page(names: Sequence[str], wanted: Wanted) -> Page:
    """The page of these names, which are in order. Python's order of texts is that of their UTF-8 bytes."""
    found = Page()
    at = bisect_left(names, max(wanted.prefix, wanted.start))
    if wanted.start_after:
        at = max(at, bisect_right(names, wanted.start_after))
    while at < len(names) and _belongs(names[at], wanted):
        if len(found.names) + len(found.prefixes) == wanted.limit:
            found.next_start = names[at]
            return found
        group = _group(names[at], wanted)
        if group:
            found.prefixes.append(group)
            at = bisect_left(names, group[:-1] + chr(ord(group[-1]) + 1))
        else:
            found.names.append(names[at])
            at += 1
    return found


def _belongs(name: str, wanted: Wanted) -> bool:
    return name.startswith(wanted.prefix) and (wanted.end is None or name < wanted.end)


def _group(name: str, wanted: Wanted) -> str:
    """The name up to the delimiter that follows the prefix, or nothing."""
    if not wanted.delimiter:
        return ""
    rest = name[len(wanted.prefix) :]
    head, found, _ = rest.partition(wanted.delimiter)
    return wanted.prefix + head + found if found else ""
