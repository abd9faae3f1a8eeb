"""The few things that can be wrong with this machine as a target."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from ..errors import MusterError
from ..frameworks.registry import framework
from ..node.python import check_framework, interpreter
from ..spec.config import Target
from ..spec.job import Job
from ..spec.units import size_text
from ..workdir.home import default_work_dir
from .doctor_storage import work_dir
from .findings import Check, Finding, fail, ok, skipped, warn

_ROOM = 10**9


def checks(job: Job, target: Target) -> list[Check]:
    place = job.work_dir or target.work_dir or str(default_work_dir())
    return [
        Check("python", lambda: python(job, target)),
        Check("work-dir", lambda: work_dir(place, "work-dir")),
        Check("disk", lambda: disk(place)),
    ]


def python(job: Job, target: Target) -> Iterator[Finding]:
    """The script's Python, and the framework in it."""
    made = framework(job.framework)
    try:
        found = interpreter(job.python or target.options.get("python"))
    except MusterError as error:
        yield fail("python", error.message, error.fix)
        return
    yield ok("python", found)
    if job.requirements:
        yield skipped("framework", f"{made.name} comes with {job.requirements}, or fails to, when the job starts")
        return
    try:
        check_framework(found, made)
    except MusterError as error:
        yield fail("framework", error.message, error.fix)
    else:
        yield ok("framework", f"{made.name} can be imported")


def disk(place: str) -> Iterator[Finding]:
    """Room in the work dir, where it is a folder of this machine."""
    if "://" in place:
        return
    folder = next((each for each in (Path(place), *Path(place).parents) if each.exists()), Path("/"))
    free = shutil.disk_usage(folder).free
    if free < _ROOM:
        yield warn(
            "disk", f"{folder} has {size_text(free)} left", "`muster prune` deletes the runs that ended long ago."
        )
    else:
        yield ok("disk", f"{folder} has {size_text(free)} left")
