"""Environment variables in their three spellings, and what their texts can mean."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from .job import ROLES
from .locations import resolved_code
from .nodes import Scalar, shortened
from .problems import Problems
from .table import CODE, WORK_DIR
from .units import seconds

T = TypeVar("T")
D = TypeVar("D")

PREFIXES = ("MUSTER_", "OCI__", "")


class Variables:
    """An environment in which `MUSTER_X` beats `OCI__X` beats `X`.

    A variable that is set but empty counts as given, and means its default. Some have a second name; two
    names with two meanings are a mistake, never a choice. What is not asked for is never shown.
    """

    def __init__(self, env: Mapping[str, str], problems: Problems) -> None:
        self._env = env
        self._problems = problems

    def get(self, *names: str, read: Callable[[str], T], default: D, fix: str = "") -> T | D:
        """What a variable means, by whichever of its names it is set; the default if it is not."""
        spellings = list(filter(None, map(self._spelling, names)))
        values: list[T] = []
        try:
            values += [read(self._env[spelling].strip()) for spelling in spellings]
        except ValueError as error:
            self._problems.add(" or ".join(spellings), str(error), fix)
        if any(value != values[0] for value in values):
            message = "these are names of one setting, and say different things"
            self._problems.add(" and ".join(spellings), message, "Keep one of them.")
        return values[0] if values else default

    def need(self, name: str, read: Callable[[str], T], fix: str) -> T | None:
        """What a variable means that must be set. None once its absence or its mistake is noted."""
        if self._spelling(name) is None:
            self._problems.add(name, "not set", f"Set MUSTER_{name}, OCI__{name} or {name}. {fix}")
        return self.get(name, read=read, default=None, fix=fix)

    def _spelling(self, name: str) -> str | None:
        spellings = (prefix + name for prefix in PREFIXES)
        spelling = next((spelling for spelling in spellings if spelling in self._env), None)
        return spelling if spelling and self._env[spelling].strip() else None


def word(text: str) -> str:
    """A name that can stand in a path of the work dir."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,254}", text):
        expected = "expected letters, digits and . _ : - with a letter or digit in front"
        raise ValueError(f"{expected}, found {shortened(text)!r}")
    return text


def framework(text: str) -> str:
    """The name of a framework."""
    return word(text.lower())


def mode(text: str) -> str:
    """The role of a node."""
    if text.lower() not in ROLES:
        raise ValueError(f"expected MAIN, WORKER or PS, found {shortened(text)!r}")
    return text.lower()


def yes(text: str) -> bool:
    """Whether something is wanted. `None` is what a program writes that was told nothing: the default."""
    if text.lower() in ("none", "1", "true", "yes"):
        return True
    if text.lower() in ("0", "false", "no"):
        return False
    raise ValueError(f"expected 1 or 0, found {shortened(text)!r}")


def whole(least: int, most: int = 10**9) -> Callable[[str], int]:
    """Reads a whole number within bounds."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", text) or not least <= int(text) <= most:
            bounds = f"from {least} to {most}" if most < 10**9 else f"of at least {least}"
            raise ValueError(f"expected a whole number {bounds}, found {shortened(text)!r}")
        return int(text)

    return read


def processes(text: str) -> int | None:
    """A number of processes, or None for `auto`."""
    return None if text.lower() == "auto" else whole(1)(text)


def span(text: str) -> float:
    """The seconds of a duration above zero."""
    try:
        value = seconds(text)
    except ValueError:
        value = 0.0
    if not value:
        raise ValueError(f"expected a duration above zero, found {shortened(text)!r}")
    return value


def work_dir(text: str) -> str:
    """A path or URL that a work dir can have."""
    problems = Problems()
    WORK_DIR.read(Scalar(text, text), "", problems)
    for problem in problems.found():
        raise ValueError(problem.message)
    return text


def code(text: str) -> str:
    """Code to fetch, as a job file says it, with its path on this machine made absolute."""
    problems = Problems()
    CODE.read(Scalar(text, text), "", problems)
    for problem in problems.found():
        raise ValueError(problem.message)
    return resolved_code(text, Path.cwd())


def words(text: str) -> tuple[str, ...]:
    """A JSON array if it starts with `[`, else shell words. A mistake is told without the text."""
    if not text.startswith("["):
        try:
            return tuple(shlex.split(text))
        except ValueError as error:
            raise ValueError(f"expected words as a shell reads them: {str(error).lower()}") from None
    try:
        items = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        raise ValueError("starts with '[' and is not a JSON array") from None
    if not all(isinstance(item, str | bool) for item in items):
        raise ValueError("expected a JSON array of texts and numbers only")
    return tuple(item if isinstance(item, str) else str(item).lower() for item in items)
