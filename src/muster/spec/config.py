"""`muster.toml`: the targets that a user has, by name, and which of them is the default."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import ConfigError, Problem
from .fields import Choice, Field, Section, Text
from .locations import absolute, local_path
from .nodes import Node, Scalar, Table, joined
from .oci_target import KIND as OCI
from .oci_target import TABLE, read_oci
from .problems import Problems, nearest, suggestion
from .table import WORK_DIR

FILE = "muster.toml"
LOCAL = "local"
LATER = ("aws", "pool")
"""Kinds of target that the design has and this version has not."""


@dataclass(frozen=True)
class Target:
    """Where nodes come from, as the user named it. `work_dir` is None where the target has one by itself."""

    name: str
    kind: str
    work_dir: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """The kind's own settings, as TOML gives them."""


@dataclass(frozen=True)
class Config:
    """What `muster.toml` says. Without a file there is the one target `local`."""

    targets: Mapping[str, Target]
    default: str = LOCAL
    file: str = ""
    lines: Mapping[str, int] = field(default_factory=dict)

    def target(self, name: str | None = None, own: Target | None = None) -> Target:
        """The target of this name, or the default one. Raises a `ConfigError` that says which there are.

        `own` is what the job's file says of one, as an Oracle ADS file does: it is taken where none has its name.
        """
        name = self.default if name is None else name
        target = self.targets.get(name, own if own and own.name == name else None)
        if target is None:
            raise ConfigError([self._unknown(name)])
        if target.kind in LATER:
            raise ConfigError([self._later(target)])
        return target

    def _unknown(self, name: str) -> Problem:
        guess = nearest(name, self.targets)
        meant = f"Did you mean `{guess}`? " if guess else ""
        where = self.file or f"a {FILE} beside the job file"
        fix = f"{meant}Targets are: {', '.join(self.targets)}. Add `[targets.{name}]` to {where} for a new one."
        if name == OCI:
            table = TABLE.format(name=name).replace("\n", "\n    ")
            fix = f"Write one into {where}, with your own OCIDs:\n    {table}"
        return Problem(f"there is no target {name!r}", fix, file=self.file)

    def _later(self, target: Target) -> Problem:
        path = joined("targets", target.name)
        message = f"targets of the kind {target.kind!r} are not in this version"
        fix = f"Use one that runs on this machine: `{LOCAL}`."
        return Problem(message, fix, field=path, file=self.file, line=self.lines.get(path, 0))


_LOCAL_TARGET = Section(
    (
        Field("kind", Choice((LOCAL, OCI, *LATER)), example='kind = "local"'),
        Field("work_dir", WORK_DIR),
        Field("python", Text()),
        Field("scratch", Text()),
    ),
    owner="in a local target",
)


def load_config(folder: str | os.PathLike[str]) -> Config:
    """The configuration for jobs of a folder: its own `muster.toml`, else the user's, else none."""
    file = next((path for path in (Path(folder) / FILE, _user_folder() / FILE) if path.is_file()), None)
    return _config_of(file) if file else Config({LOCAL: Target(LOCAL, LOCAL)})


def _user_folder() -> Path:
    given = os.environ.get("XDG_CONFIG_HOME", "")
    # A relative path there is to be ignored, says the XDG specification.
    return Path(given if given.startswith("/") else absolute("~/.config", Path("/"))) / "muster"


def _config_of(file: Path) -> Config:
    from .toml import parse

    problems = Problems(str(file))
    root = parse(file, problems)
    for name in (name for name in root.entries if name not in ("default", "targets")):
        problems.add(name, f"there is no such setting in {FILE}", suggestion(name, ("default", "targets")))
    targets = {LOCAL: Target(LOCAL, LOCAL), **_targets(root, file.absolute().parent, problems)}
    default = Text().read(root.entries.get("default", Scalar(LOCAL, LOCAL)), "default", problems)
    if isinstance(default, str) and default not in targets and problems.clean("targets"):
        problems.add("default", f"there is no target {default!r}", suggestion(default, targets, "Targets are"))
    if problems.found():
        raise ConfigError(problems.found())
    return Config(targets, str(default), str(file), problems.lines)


def _targets(root: Table, folder: Path, problems: Problems) -> dict[str, Target]:
    tables = root.entries.get("targets", Table({}))
    if not isinstance(tables, Table):
        problems.add("targets", "expected a table for each target", 'Write `[targets.NAME]` and `kind = "local"`.')
        return {}
    read = ((name, _target(name, table, folder, problems)) for name, table in tables.entries.items())
    return {name: target for name, target in read if target}


def _target(name: str, table: Node, folder: Path, problems: Problems) -> Target | None:
    kind = table.entries.get("kind") if isinstance(table, Table) else None
    if isinstance(kind, Scalar) and kind.value in LATER:
        return Target(name, str(kind.value))
    path = joined("targets", name)
    if isinstance(kind, Scalar) and kind.value == OCI:
        read = read_oci(table, path, problems)
        return Target(name, OCI, *read) if read else None
    values = _LOCAL_TARGET.read(table, path, problems)
    if not isinstance(values, dict) or not problems.clean(path):
        return None
    return Target(name, values.pop("kind"), **_resolved(values, folder))


def _resolved(values: dict[str, str], folder: Path) -> dict[str, Any]:
    """Paths as the file's folder sees them. A Python without a slash is a name to look up."""
    work_dir = values.pop("work_dir", None)
    path = local_path(work_dir, folder) if work_dir else None
    options = {
        name: text if name == "python" and "/" not in text else str(absolute(text, folder))
        for name, text in values.items()
    }
    return {"work_dir": str(path) if path else work_dir, "options": options}
