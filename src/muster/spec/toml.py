"""Reads a TOML file into the tree of nodes. The standard parser tells no lines, so a scan finds them."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

from ..errors import ConfigError
from .nodes import Table, from_python, joined
from .problems import Problems

# By name, since the type checker is told Python 3.10 and its own environment may be newer.
tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

_HEADER = re.compile(r"\s*\[\[?([^\[\]]+)\]")
_SETTING = re.compile(r"""\s*([A-Za-z0-9_.'" -]+?)\s*=""")


def parse(file: Path, problems: Problems) -> Table:
    """The tree of a TOML file. A file that cannot be read at all is a `ConfigError` at once."""
    try:
        text = file.read_bytes().decode("utf-8-sig")
        problems.lines.update(_lines(text))
        root = from_python(tomllib.loads(text.replace("\r\n", "\n")), problems)
        # What stands inside of an inline table or a list is told with the line of that.
        for path in [path for path, line in problems.lines.items() if not line]:
            del problems.lines[path]
        return root if isinstance(root, Table) else Table({})
    except tomllib.TOMLDecodeError as error:
        _note_syntax(str(error), problems)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        problems.add("", "not UTF-8 text", "Save the file as UTF-8.", line=line)
    except RecursionError:
        problems.add("", "nested too deep to be read", "Write `[targets.NAME]` tables of plain settings.")
    except OSError as error:
        problems.add("", f"cannot be read: {error.strerror}", "Check the permissions of the file.")
    raise ConfigError(problems.found())


def _note_syntax(message: str, problems: Problems) -> None:
    place = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", message)
    line = int(place[1] or 0) if place else 0
    reason = message[: place.start()] if place else message
    fix = 'Texts need quotes in TOML: kind = "local".'
    problems.add("", f"not valid TOML: {reason[:1].lower()}{reason[1:]}", fix, line=line)


def _lines(text: str) -> dict[str, int]:
    """Where each table and setting stands. A text of many lines can mislead it, but only about the line."""
    found: dict[str, int] = {"": 1}
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = _path(header[1])
            found.setdefault(table, number)
        elif setting := _SETTING.match(line):
            found.setdefault(joined(table, _path(setting[1])), number)
    return found


def _path(key: str) -> str:
    """A dotted key as a path: bare and quoted parts joined by dots."""
    parts = re.findall(r""""[^"]*"|'[^']*'|[^.\s"']+""", key)
    return ".".join(part.strip("\"'") for part in parts)
