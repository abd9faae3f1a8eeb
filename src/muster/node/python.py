"""The script's Python: the one that is named, or an environment made from requirements, once per content.

Never the node program's own: what a script needs is not installed into Muster.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ..errors import PythonError
from ..frameworks.base import Framework
from ..workdir.home import environments_folder

Say = Callable[[str], None]


class _Ended(PythonError):
    """An installer was ended before it was done."""


def interpreter(wish: str | None) -> str:
    """The full path of the Python that `python:` names; else the image's, or the one that runs Muster."""
    if wish is None:
        return os.environ.get("MUSTER_SCRIPT_PYTHON") or sys.executable
    found = shutil.which(wish)
    if found is None:
        raise PythonError(
            f"python: {wish} is not a program on this machine",
            "Give the path of an interpreter, or leave `python` out to use the one that runs Muster.",
        )
    return found


def check_framework(python: str, framework: Framework) -> None:
    """An error with the line that installs the framework, where the script's Python lacks it."""
    if not can_import(python, framework.module):
        line = framework.install.replace("pip install", f"{python} -m pip install", 1)
        raise PythonError(
            f"{python} cannot import {framework.module}, which framework {framework.name} needs",
            f"Install it there with:  {line}\n    or name it in the job's `requirements`.",
        )


def can_import(python: str, module: str) -> bool:
    if python == sys.executable:
        return importlib.util.find_spec(module) is not None
    look = "import importlib.util as u, sys; sys.exit(u.find_spec(sys.argv[1]) is None)"
    return subprocess.run([python, "-c", look, module], capture_output=True, check=False).returncode == 0


def environment(name: str, content: bytes, python: str, say: Say) -> str:
    """The Python of the environment with these requirements; made if this machine has none yet.

    Nodes of one machine share it: the first makes it while the others wait, and a half-made one is made again.
    """
    digest = hashlib.sha256(b"\0".join([name.encode(), content, os.path.realpath(python).encode()])).hexdigest()[:20]
    folder = environments_folder() / digest
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = folder / "made-by-muster"
    if not made.exists():
        asked_at = time.time()
        with folder.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                _make_once(folder, asked_at, lambda: _make(folder, name, content, python, say))
                made.touch()
    return str(folder / "bin" / "python")


def _make_once(folder: Path, asked_at: float, make: Callable[[], None]) -> None:
    """What failed while we waited for it would fail for us too; all nodes of a machine fail together, at once."""
    failed = folder.with_suffix(".failed")
    if failed.exists() and failed.stat().st_mtime >= asked_at:
        raise PythonError(failed.read_text(encoding="utf-8"))
    try:
        make()
    except _Ended:
        raise  # the run of whoever made it was stopped; that says nothing about the requirements
    except PythonError as error:
        failed.write_text(str(error), encoding="utf-8")
        raise
    failed.unlink(missing_ok=True)


def _make(folder: Path, name: str, content: bytes, python: str, say: Say) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    say(f"installing {name} into a new environment; later runs share it")
    if name.endswith((".yaml", ".yml")):
        _make_conda(folder, name, content, say)
        return
    _call([python, "-m", "venv", str(folder)], say)
    listed = folder / name
    listed.write_bytes(content)
    # pip's own settings (index, mirrors, certificates) apply, as its users expect.
    _call(
        [
            str(folder / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "-r",
            str(listed),
        ],
        say,
    )


def _make_conda(folder: Path, name: str, content: bytes, say: Say) -> None:
    tool = next((tool for tool in ("micromamba", "mamba", "conda") if shutil.which(tool)), None)
    if tool is None:
        raise PythonError(
            f"{name} is a conda environment, and this machine has no conda",
            "Install micromamba, mamba or conda, or list the packages in a requirements.txt.",
        )
    listed = folder.with_suffix(".yaml")
    listed.write_bytes(content)
    _call([tool, "env", "create", "--yes", "--prefix", str(folder), "--file", str(listed)], say)


def _call(argv: list[str], say: Say) -> None:
    """Runs an installer and passes its lines on, so that whoever waits sees it move."""
    last: list[str] = []
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as tool:
        for line in tool.stdout or ():
            last = [*last[-19:], line.rstrip()]
            say(line.rstrip())
    if tool.returncode < 0:
        raise _Ended(f"{Path(argv[0]).name} {' '.join(argv[1:4])} … was ended by signal {-tool.returncode}")
    if tool.returncode:
        detail = "\n    ".join(last)
        raise PythonError(f"{Path(argv[0]).name} {' '.join(argv[1:4])} … failed with {tool.returncode}:\n    {detail}")
