"""Which files are left out of a bundle, in the language of `.gitignore`.

Names are compared as bytes, as git does it, so that a `?` means the same to both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import PurePath
from typing import NamedTuple

ALWAYS = (
    *(".git", ".hg", ".svn", ".venv", "venv", ".tox", ".nox", "node_modules"),
    *("__pycache__", "*.pyc", "*.egg-info", ".mypy_cache", ".pytest_cache", ".ruff_cache"),
    *(".ipynb_checkpoints", ".DS_Store"),
)
"""What no script needs on another machine. A line such as `!node_modules` takes one back."""

_SPECIAL = frozenset(b"*?[\\")


class Rule(NamedTuple):
    """One line: whether it ignores or takes back, and what it applies to."""

    ignores: bool
    folders_only: bool
    whole_path: bool
    """Compared with the path from the top, else with the name alone."""
    literal: bytes
    """What the path or name must be, or begin with if there is a pattern."""
    pattern: bytes | None

    def matches(self, path: bytes, name: bytes, is_folder: bool) -> bool:
        text = path if self.whole_path else name
        if (self.folders_only and not is_folder) or not text.startswith(self.literal):
            return False
        rest = text[len(self.literal) :]
        if self.pattern is None:
            return not rest
        if self.pattern[:1] == b"*" and _SPECIAL.isdisjoint(self.pattern[1:]) and not self.whole_path:
            return rest.endswith(self.pattern[1:])
        regex = _regex(self.pattern, self.whole_path)
        return bool(regex and regex.match(rest))


class Rules:
    """Lines of an ignore file, of which the last that matches decides."""

    def __init__(self, lines: Iterable[str]) -> None:
        rules = (_rule(os.fsencode(line)) for line in lines)
        self._rules = [rule for rule in rules if rule][::-1]

    def ignored(self, path: str, is_folder: bool) -> bool:
        """Whether a path is left out, given that no folder above it is."""
        whole = os.fsencode(path)
        name = whole.rpartition(b"/")[2]
        for rule in self._rules:
            if rule.matches(whole, name, is_folder):
                return rule.ignores
        return False


def _rule(line: bytes) -> Rule | None:
    line = _without_trailing_spaces(line.removesuffix(b"\n").removesuffix(b"\r"))
    if not line or line.startswith(b"#"):
        return None
    takes_back = line.startswith(b"!")
    line = line[1:] if takes_back else line
    folders_only = line.endswith(b"/")
    line = line[:-1] if folders_only else line
    whole_path = b"/" in line
    line = line.removeprefix(b"/")
    start = next((place for place, byte in enumerate(line) if byte in _SPECIAL), len(line))
    if not whole_path and start < len(line):
        start = 0
    return Rule(not takes_back, folders_only, whole_path, line[:start], line[start:] or None)


def _without_trailing_spaces(line: bytes) -> bytes:
    kept = line.rstrip(b" ")
    backslashes = len(kept) - len(kept.rstrip(b"\\"))
    # An odd backslash at the end was there to keep the first of these spaces.
    return kept + b" " if backslashes % 2 and len(kept) < len(line) else kept


@lru_cache(maxsize=1024)
def _regex(pattern: bytes, whole_path: bool) -> re.Pattern[bytes] | None:
    """The pattern as a regular expression; None if it is malformed, and so matches nothing."""
    out: list[bytes] = []
    place = 0
    while place < len(pattern):
        byte = pattern[place : place + 1]
        if byte == b"*":
            text, place = _stars(pattern, place, whole_path)
        elif byte == b"[":
            found = _bracket(pattern, place)
            if found is None:
                return None
            text, place = _one_of(found[0] - {ord("/")} if whole_path else found[0]), found[1]
        elif byte == b"?":
            text, place = b"[^/]" if whole_path else b".", place + 1
        else:
            escaped = byte == b"\\"
            if escaped and place + 1 == len(pattern):
                return None
            text, place = re.escape(pattern[place + escaped : place + escaped + 1]), place + 1 + escaped
        out.append(text)
    return re.compile(b"".join(out) + rb"\Z", re.DOTALL)


def _stars(pattern: bytes, start: int, whole_path: bool) -> tuple[bytes, int]:
    end = start
    while pattern[end : end + 1] == b"*":
        end += 1
    if not whole_path:
        return b".*", end
    begins_name = start == 0 or pattern[start - 1 : start] == b"/"
    ends_name = end == len(pattern) or pattern[end : end + 1] == b"/" or pattern[end : end + 2] == b"\\/"
    if end - start == 1 or not begins_name or not ends_name:
        return b"[^/]*", end
    if pattern[end : end + 1] == b"/":
        return b"(?:.*/)?", end + 1
    return b".*", end


def _one_of(members: set[int]) -> bytes:
    return b"[" + b"".join(b"\\x%02x" % byte for byte in sorted(members)) + b"]" if members else b"(?!)"


def _bracket(pattern: bytes, start: int) -> tuple[set[int], int] | None:
    """The bytes that `[…]` at `start` stands for, and the place behind it; None if it never ends."""
    place = start + 1
    negated = pattern[place : place + 1] in (b"!", b"^")
    place += negated
    members: set[int] = set()
    previous = 0
    while True:
        step = _bracket_item(pattern, place, previous)
        if step is None:
            return None
        found, previous, place = step
        members |= found
        if pattern[place : place + 1] == b"]":
            return (set(range(256)) - members if negated else members), place + 1


def _bracket_item(pattern: bytes, place: int, previous: int) -> tuple[set[int], int, int] | None:
    """One character, range or class: its bytes, what a following `-` would start from, and the next place."""
    byte = pattern[place : place + 1]
    if not byte:
        return None
    if byte == b"-" and previous and pattern[place + 1 : place + 2] not in (b"", b"]"):
        end = place + 1 + (pattern[place + 1 : place + 2] == b"\\")
        if end >= len(pattern):
            return None
        return set(range(previous, pattern[end] + 1)), 0, end + 1
    if pattern[place : place + 2] == b"[:":
        close = pattern.find(b"]", place + 2)
        if close < 0:
            return None
        if close > place + 2 and pattern[close - 1 : close] == b":":
            members = _classes().get(pattern[place + 2 : close - 1])
            return (members, 0, close + 1) if members else None
    if byte == b"\\":
        place += 1
        if place >= len(pattern):
            return None
    return {pattern[place]}, pattern[place], place + 1


@lru_cache(maxsize=1)
def _classes() -> dict[bytes, set[int]]:
    digits, lower, upper = set(b"0123456789"), set(range(97, 123)), set(range(65, 91))
    printed = set(range(32, 127))
    return {
        b"alnum": digits | lower | upper,
        b"alpha": lower | upper,
        b"blank": set(b" \t"),
        b"cntrl": set(range(32)) | {127},
        b"digit": digits,
        b"graph": printed - {32},
        b"lower": lower,
        b"print": printed,
        b"punct": printed - {32} - digits - lower - upper,
        b"space": set(b" \t\n\r"),
        b"upper": upper,
        b"xdigit": digits | set(b"abcdefABCDEF"),
    }


def literal(folder: PurePath) -> str:
    """The line that ignores this one folder, whatever characters its name has."""
    return "/" + re.sub(r"([\\*?\[\]!# ])", r"\\\1", folder.as_posix()) + "/"
