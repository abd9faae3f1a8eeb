"""Tools that a test needs. Where they are missing the test is skipped, but in CI that is a failure."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest


def needs(*tools: str, root: bool = False) -> None:
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if root and os.geteuid() != 0:
        missing.append("root")
    if missing:
        _missing(missing)


def _missing(missing: list[str]) -> NoReturn:
    told = f"this test needs {', '.join(missing)}"
    if os.environ.get("CI") == "true":
        pytest.fail(told)
    pytest.skip(told)


def needs_file(path: Path) -> Path:
    """The path itself, if `make test` has put something there."""
    if not path.exists():
        _missing([str(path)])
    return path
