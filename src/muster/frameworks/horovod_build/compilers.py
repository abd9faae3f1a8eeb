"""What a machine needs to compile Horovod, asked for before anything is fetched."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from ...errors import MusterError
from .interpreter import Interpreter

_OLDEST_CMAKE = (3, 13)


def check_compilers(python: Interpreter) -> str:
    """The path of CMake; an error that names all that is missing, with the line that installs it."""
    cmake = _find_cmake(python)
    needed = {
        "a C++ compiler": ("g++", _find("CXX", "c++", "g++", "clang++")),
        "a C compiler": ("gcc", _find("CC", "cc", "gcc", "clang")),
        "make": ("make", _find("", "make", "gmake")),
        "CMake 3.13 or newer": ("cmake", cmake),
        f"the headers of Python {python.version}": ("python3-dev", python.headers),
    }
    lacks = {name: package for name, (package, found) in needed.items() if not found}
    if cmake and not lacks:
        return cmake
    other = "" if cmake else f"\n    or, for CMake alone:  {python.path} -m pip install cmake"
    raise MusterError(
        f"Horovod has to be compiled, and this machine lacks {', '.join(lacks)}",
        f"Install what is missing:  sudo apt-get install {' '.join(lacks.values())}{other}",
    )


def _find(variable: str, *names: str) -> str | None:
    """The program that a variable names, options aside, or the first of these that is there."""
    if given := os.environ.get(variable, "").split():
        return shutil.which(given[0])
    return next((path for name in names if (path := shutil.which(name))), None)


def _find_cmake(python: Interpreter) -> str | None:
    """CMake from the PATH, or the one that pip put beside that Python, if it is not too old."""
    for path in (shutil.which("cmake"), shutil.which("cmake", path=str(Path(python.path).parent))):
        if path and _version(path) >= _OLDEST_CMAKE:
            return path
    return None


def _version(cmake: str) -> tuple[int, ...]:
    done = subprocess.run([cmake, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"version (\d+)\.(\d+)", done.stdout)
    return tuple(map(int, found.groups())) if found else ()
