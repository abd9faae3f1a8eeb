"""What a script needs, as a `requirements.txt` or a conda-style `env.yaml` lists it, read for an image."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import MusterError

_SPEC = re.compile(r"(?:[\w.-]+::)?(?P<name>[A-Za-z0-9_.-]+)\s*(?P<version>.*)")
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_OLDEST = 10
"""The node program needs a base image with Python 3.10; an older Python for the script comes beside it, from conda."""


@dataclass(frozen=True)
class Listed:
    """What is to be installed."""

    content: str = ""
    """Of the file that the build gets: for pip, or with `conda` for micromamba."""
    conda: bool = False
    python: str = ""
    """The version, where an `env.yaml` names one exactly: `3.11`."""
    names: frozenset[str] = frozenset()
    """The packages, as pip compares their names."""


def read_listed(path: Path) -> Listed:
    """The requirements in a file, by its kind."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise MusterError(
            f"requirements: cannot read {path}: {error.strerror}", "Name a file that is there."
        ) from error
    except UnicodeDecodeError as error:
        raise MusterError(f"requirements: {path} is not UTF-8 text: {error}") from error
    if path.suffix in (".yaml", ".yml"):
        return _environment(path, text)
    lines = _lines(path, text)
    return Listed("\n".join(lines) + "\n", names=_names(lines))


def _lines(path: Path, text: str, above: tuple[Path, ...] = ()) -> list[str]:
    """The lines for pip, with those of files that they include in their place: a build sees this file alone."""
    found: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        word, _, rest = line.strip().partition(" ")
        if word in ("-r", "--requirement"):
            inner = path.parent / rest.strip()
            if inner in above or not inner.is_file():
                raise MusterError(f"{path}:{number}: there is no file {inner} to include", "Mend the line.")
            found += _lines(inner, inner.read_text(encoding="utf-8"), (*above, path))
        elif word in ("-c", "--constraint", "-e", "--editable") or line.strip().startswith(("./", "../", "/", "file:")):
            raise MusterError(
                f"{path}:{number}: {line.strip()!r} names something beside the file, which a build does not see",
                "List packages by name and version. Code of your own goes into the job's `code`.",
            )
        else:
            found.append(line)
    return found


def _names(lines: list[str]) -> frozenset[str]:
    found = (_REQUIREMENT.match(line) for line in lines)
    return frozenset(re.sub(r"[-_.]+", "-", match[1]).lower() for match in found if match)


def _environment(path: Path, text: str) -> Listed:
    """What is pip's alone goes to pip; only an environment with packages of conda's own needs micromamba."""
    import yaml

    try:
        value = yaml.safe_load(text)
        entries: list[Any] = value["dependencies"]
    except (yaml.YAMLError, TypeError, KeyError):
        raise MusterError(
            f"requirements: {path} is no conda-style environment",
            "It has a list `dependencies`, such as:\n    dependencies: [python=3.11, pip, {pip: [dask]}]",
        ) from None
    pip = [str(line) for entry in entries if isinstance(entry, dict) for line in entry.get("pip") or ()]
    _lines(path, "\n".join(pip))
    specs = [_SPEC.fullmatch(str(entry)) for entry in entries if not isinstance(entry, dict)]
    packages = {match["name"].lower(): match["version"] for match in specs if match}
    exact = re.fullmatch(r"={1,2}\s*(3\.\d+)(\..*)?", packages.get("python", ""))
    names = _names([*pip, *packages])
    old = exact is not None and int(exact[1].partition(".")[2]) < _OLDEST
    if set(packages) <= {"python", "pip"} and not old:
        return Listed("\n".join(pip) + "\n", python=exact[1] if exact else "", names=names)
    return Listed(text, conda=True, python=exact[1] if exact else "", names=names)
