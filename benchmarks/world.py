"""A Muster for measurements: a home of its own in a temporary folder, and jobs made of the scripts here."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .measuring import Start

SCRIPTS = Path(__file__).with_name("scripts")
_UNUSUAL = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONPROFILEIMPORTTIME")
"""Settings of developers that few users have, and that change what is measured."""


@dataclass(frozen=True)
class World:
    folder: Path
    env: dict[str, str]

    def start(self, *argv: str | Path, **env: str) -> Start:
        return Start(argv, {**self.env, **env}, self.folder)

    def python(self, *words: str | Path, **env: str) -> Start:
        """The interpreter that runs Muster, without Muster."""
        return self.start(sys.executable, *words, **env)

    def muster(self, *words: str | Path) -> Start:
        return self.start(tool("muster"), *words)

    def job(self, framework: str, script: str, **fields: Any) -> Path:
        """A job file for one of the scripts. What is JSON is YAML too."""
        path = self.folder / f"{framework}-{len(list(self.folder.iterdir()))}.yaml"
        whole = {"name": "bench", "framework": framework, "code": str(SCRIPTS), "entry": script, **fields}
        path.write_text(json.dumps(whole), encoding="utf-8")
        return path


@contextmanager
def world() -> Iterator[World]:
    folder = Path(tempfile.mkdtemp(prefix="muster-bench-"))
    unwanted = ("MUSTER_", "OCI_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(unwanted) and name not in _UNUSUAL}
    # Dask and torchrun leave things in the temporary folder.
    temporary = folder / "tmp"
    temporary.mkdir()
    try:
        yield World(folder, {**env, "MUSTER_HOME": str(folder / "home"), "TMPDIR": str(temporary)})
    finally:
        shutil.rmtree(folder)


def tool(name: str) -> Path:
    """A command that is installed beside the interpreter."""
    return Path(sysconfig.get_path("scripts")) / name


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
