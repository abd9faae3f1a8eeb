"""Reads a job, from its file or from Python, and checks all of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import JobError, Problem
from .checks import check, framework_facts
from .counts import WorkerCount
from .facts import Facts, Frameworks
from .fields import Field, Section
from .files import check_files, resolve
from .job import Job, Workers
from .nodes import Node, Scalar, Table, from_python
from .problems import Problems, suggestion
from .table import job_section, show

if TYPE_CHECKING:
    from .ads_where import Where

_SMALLEST_JOB = "The smallest job is `name: mnist`, `framework: pytorch`, `entry: train.py`, one line each."


def load(path: str | os.PathLike[str], frameworks: Frameworks | None = None) -> Job:
    """The job of a job file. Raises a `JobError` that lists every mistake in it.

    Paths in the file are taken from the file's own folder. What depends on the framework is checked only
    where `frameworks` says which ones there are.
    """
    return load_both(path, frameworks)[0]


def load_both(path: str | os.PathLike[str], frameworks: Frameworks | None = None) -> tuple[Job, Where | None]:
    """The job of a file, and where it says that the nodes run: an Oracle ADS file holds both, a job file one."""
    file = Path(path)
    return _read_text(_read(file), str(path), file.absolute().parent, frameworks)


def load_text(
    text: str,
    file: str = "job.yaml",
    folder: str | os.PathLike[str] = ".",
    frameworks: Frameworks | None = None,
) -> Job:
    """The job of a job file's text. `file` is named in messages, and `folder` is where its paths start."""
    return _read_text(text, file, Path(folder), frameworks)[0]


def _read_text(text: str, file: str, folder: Path, frameworks: Frameworks | None) -> tuple[Job, Where | None]:
    from .tree import parse

    problems = Problems(file)
    root = parse(text, problems)
    if root is None and not problems.found():
        problems.add("", "the file is empty", _SMALLEST_JOB, line=1)
    if root is None:
        raise JobError(problems.found())
    if _text(root, "kind"):
        from .ads import is_ads

        if is_ads(root):
            return _read_both(root, folder, frameworks, problems)
    return _job_of(root, folder, frameworks, problems), None


def _read_both(root: Node, folder: Path, frameworks: Frameworks | None, problems: Problems) -> tuple[Job, Where]:
    """An Oracle ADS file: the job file that it stands for is read and checked like any other."""
    from .ads import read_ads

    draft, where = read_ads(root, folder, problems)
    inner = Problems()
    job = _read_job(from_python(draft.settings, inner), folder, frameworks, inner)
    draft.tell(inner.found(), problems)
    if job is None or problems.found():
        raise JobError(problems.found())
    return job, where


def job(**fields: Any) -> Job:
    """A job made in Python, of the same settings as a job file: `job(name="a", framework="dask", workers=3)`.

    Durations and sizes may be texts (`timeout="10m"`) or numbers. Relative paths start at the current folder.
    """
    problems = Problems()
    plain = {name: WorkerCount().show(value) if isinstance(value, Workers) else value for name, value in fields.items()}
    return _job_of(from_python(plain, problems), Path.cwd(), None, problems)


def check_job(job: Job, frameworks: Frameworks | None = None) -> list[Problem]:
    """Every mistake of a job that was put together in Python. None has a line."""
    problems = Problems()
    _read_job(from_python(show(job), problems), Path.cwd(), frameworks, problems)
    return problems.found()


def checked(job: Job, frameworks: Frameworks | None = None) -> Job:
    """The job as its file would be read: checked, and with `workers=3` or `ttl="10m"` as the values they stand for."""
    problems = Problems()
    return _job_of(from_python(show(job), problems), Path.cwd(), frameworks, problems)


def _job_of(root: Node, folder: Path, frameworks: Frameworks | None, problems: Problems) -> Job:
    job = _read_job(root, folder, frameworks, problems)
    if job is None or problems.found():
        raise JobError(problems.found())
    return job


def _read_job(root: Node, folder: Path, frameworks: Frameworks | None, problems: Problems) -> Job | None:
    facts = framework_facts(_text(root, "framework"), frameworks, problems)
    job = job_section(_options(_text(root, "framework"), facts)).read(root, "", problems)
    if not isinstance(job, Job):
        return None
    job = resolve(job, folder)
    check(job, facts, problems)
    check_files(job, problems)
    return job


def _text(root: Node, key: str) -> str:
    node = root.entries.get(key) if isinstance(root, Table) else None
    return node.value if isinstance(node, Scalar) and isinstance(node.value, str) else ""


def _options(framework: str, facts: Facts | None) -> Section | None:
    if facts is None:
        return None
    fields = tuple(Field(name, kind) for name, kind in facts.options.items())
    return Section(fields, build=_listed, owner=f"among the options of {framework}")


def _listed(**options: Any) -> dict[str, Any]:
    """Options as JSON knows them, so that a job's record reads back as the same job."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in options.items()}


def _read(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        problem = Problem("not UTF-8 text", "Save the file as UTF-8.", file=str(file), line=line)
    except (OSError, ValueError) as error:
        problem = Problem(_unread(file, error), _other_file(file), file=str(file))
    raise JobError([problem])


def _unread(file: Path, error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, IsADirectoryError):
        return "this is a folder, not a job file"
    return f"cannot be read: {getattr(error, 'strerror', None) or error}"


def _other_file(file: Path) -> str:
    folder = file if file.is_dir() else file.parent
    try:
        names = sorted(item.name for item in folder.iterdir() if item.suffix in (".yaml", ".yml"))
    except OSError:
        names = []
    if not names:
        return "`muster init` writes a job file to start from."
    return suggestion(file.name, names, "Job files here may be")
