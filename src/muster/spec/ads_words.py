"""Shell words of an Oracle ADS file, taken apart without a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping

from .ads_lists import Said
from .problems import Problems, suggestion

_VARIABLE = re.compile(r"\\\$|\$(?:(\w+)|\{(\w+)(?::?-([^{}]*))?\}|(.?))", re.DOTALL)


def words(said: Iterable[Said], problems: Problems) -> list[str]:
    """The words of arguments. ADS hands them on as one line, so that an entry may hold several."""
    return [word for part in said for word in _split(part, problems)]


def start_words(said: Iterable[Said], variables: Mapping[str, str], problems: Problems) -> list[Said]:
    """The words of start options, with their variables filled in, each with the field that says it."""
    found: list[Said] = []
    for part in said:
        text = _expanded(part, variables, problems)
        found += [Said(word, part.path) for word in _split(Said(text, part.path), problems)]
    return found


def note(said: Said, message: str, fix: str, problems: Problems) -> None:
    """Notes a mistake, once: what the file says to the whole cluster is read for each of its programs."""
    if problems.clean(said.path):
        problems.add(said.path, message, fix)


def _split(said: Said, problems: Problems) -> list[str]:
    try:
        return shlex.split(said.text)
    except ValueError as error:
        fix = "Quotes come in pairs; write \\' or \\\" for one that is meant."
        note(said, f"expected words as a shell reads them: {str(error).lower()}", fix, problems)
        return []


def _expanded(said: Said, variables: Mapping[str, str], problems: Problems) -> str:
    """A text with `$name`, `${name}` and `${name:-default}` filled in."""
    if "`" in said.text:
        note(said, "a command in backquotes is not run", "Write what it would print.", problems)
        return ""
    return _VARIABLE.sub(_filler(said, variables, problems), said.text)


def _filler(said: Said, variables: Mapping[str, str], problems: Problems) -> Callable[[re.Match[str]], str]:
    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if found[0] == "\\$":
            return found[0]
        if name is None:
            fix = "Variables are written $name or ${name}; write \\$ for the sign itself."
            note(said, f"{found[0]!r} means nothing here: no shell reads it", fix, problems)
        elif name not in variables and found[3] is None:
            fix = f"{suggestion(name, sorted(variables))} Or give it a value in an env list."
            note(said, f"the variable ${name} is not known when the cluster starts", fix, problems)
        return variables.get(name or "", found[3] or "")

    return value
