"""Paths into the code folder: of files that an option names, and as an image has them that is not used.

Code that lies in an image is known by the image's path. A machine that runs no containers takes it from a folder of
its own, and what named the image's path then means that folder: processes start in it, so a relative path will do.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .fields import Text
from .job import Job, Role
from .locations import absolute

IMAGE = "image:"
_OPTION = re.compile(r"(-{1,2}[\w-]+=)(.*)", re.DOTALL)


@dataclass(frozen=True)
class CodeFile(Text):
    """A file that processes of the framework open: inside the code, or anywhere on the machine."""

    expected: str = "a path inside the code, or an absolute one"


def image_folder(job: Job) -> str | None:
    """Where the image has the code; None where the code is no image's."""
    return job.code.removeprefix(IMAGE) if job.code and job.code.startswith(IMAGE) else None


def from_image(job: Job, folder: Path) -> Job:
    """The job as a machine runs it that has the code in `folder` and no image."""
    inside = image_folder(job)
    if inside is None:
        return job
    return replace(below(job, inside), code=str(absolute(str(folder), Path.cwd())))


def below(job: Job, folder: str) -> Job:
    """The job with what lies in `folder` named as seen from there."""
    return replace(
        job,
        entry=job.entry and relative(job.entry, folder),
        args=tuple(relative_word(word, folder) for word in job.args),
        env=relative_env(job.env, folder),
        options=relative_values(job.options, folder),
        roles={name: _role(role, folder) for name, role in job.roles.items()},
    )


def _role(role: Role, folder: str) -> Role:
    return replace(role, env=relative_env(role.env, folder), options=relative_values(role.options, folder))


def relative(path: str, folder: str) -> str:
    """A path as seen from `folder` if it lies in it, else the path as it is."""
    folder, real = posixpath.normpath(folder), posixpath.normpath(path)
    if real == folder:
        return "."
    if path.startswith(f"{folder}/") and real.startswith(f"{folder}/"):
        return path[len(folder) :].lstrip("/")
    return path


def relative_word(word: str, folder: str) -> str:
    """An argument, or what stands behind the `=` of one."""
    option = _OPTION.fullmatch(word)
    return option[1] + relative(option[2], folder) if option else relative(word, folder)


def relative_env(env: Mapping[str, str], folder: str) -> dict[str, str]:
    """Values that are a path, or several with colons between them as `PATH` has."""
    return {name: _paths(value, folder) if value.startswith("/") else value for name, value in env.items()}


def _paths(value: str, folder: str) -> str:
    return ":".join(relative(part, folder) for part in value.split(":"))


def relative_values(options: Mapping[str, Any], folder: str) -> dict[str, Any]:
    return {name: _value(value, folder) for name, value in options.items()}


def _value(value: Any, folder: str) -> Any:
    if isinstance(value, str):
        return relative(value, folder)
    if isinstance(value, list | tuple):
        return [relative_word(word, folder) if isinstance(word, str) else word for word in value]
    return value
