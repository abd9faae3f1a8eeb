"""The option --code, as every verb that reads a job has it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def takes_code(command: Command) -> Command:
    told = "Where code of an image is taken from without it; by default the job file's folder."
    return click.option("--code", metavar="DIR", type=click.Path(path_type=Path), help=told)(command)
