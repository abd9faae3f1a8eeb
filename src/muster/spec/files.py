"""What a job names on this machine: made absolute, and checked to be there."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from .job import Job
from .locations import absolute, local_path, resolved_code
from .problems import Problems, nearest
from .sources import ARCHIVES as ARCHIVES
from .sources import code_source, script_name

_MOST_FILES = 2000
_DULL = ("__pycache__", "node_modules", "site-packages")


def resolve(job: Job, folder: Path) -> Job:
    """The job with every path of this machine made absolute, as seen from its file's folder.

    `entry` stays relative to the code. Where the code is one script, that script is the entry.
    """
    code = job.code and resolved_code(job.code, folder)
    return replace(
        job,
        code=code,
        entry=job.entry or _only_script(code),
        requirements=job.requirements and str(absolute(job.requirements, folder)),
        python=_interpreter(job.python, folder),
        inputs={name: replace(one, source=_place(one.source, folder)) for name, one in job.inputs.items()},
        work_dir=job.work_dir and _place(job.work_dir, folder),
    )


def _only_script(code: str | None) -> str | None:
    """The entry of code that is one script."""
    if code is None or not code.startswith("/"):
        return code and script_name(code)
    path = Path(code)
    return path.name if _kind(path) == "file" and not code_source(code) else None


def _interpreter(python: str | None, folder: Path) -> str | None:
    return str(absolute(python, folder)) if python and "/" in python else python


def _place(text: str, folder: Path) -> str:
    path = local_path(text, folder)
    return str(path) if path else text


def check_files(job: Job, problems: Problems) -> None:
    """Notes what a resolved job names and this machine does not have."""
    code = Path(job.code) if job.code and job.code.startswith("/") else None
    if code and problems.clean("code"):
        _check_code(code, problems)
    if job.entry is not None and problems.clean("code", "entry"):
        _check_entry(job.entry, code, problems, bound=not (job.code or "image:").startswith("image:"))
    if job.requirements and problems.clean("requirements") and _kind(Path(job.requirements)) != "file":
        _note_missing("requirements", Path(job.requirements), "file", problems)
    if job.python and "/" in job.python and problems.clean("python"):
        _check_python(Path(job.python), problems)


def _check_code(code: Path, problems: Problems) -> None:
    kind = _kind(code)
    if kind is None:
        _note_missing("code", code, "folder or file", problems)
    elif not os.access(code, os.R_OK | os.X_OK if kind == "folder" else os.R_OK):
        problems.add("code", f"the {kind} {code} cannot be read by this user", f"Run `chmod -R u+rX '{code}'`.")


def _check_entry(entry: str, code: Path | None, problems: Problems, bound: bool) -> None:
    if ".." in entry.split("/") or (bound and entry.startswith(("/", "~"))):
        inside = code and posixpath.relpath(entry, code) if entry.startswith("/") else ".."
        fix = f"Write `entry: {inside}`." if inside and not inside.startswith("..") else "Name a file inside code."
        problems.add("entry", f"{entry!r} leads out of the code folder", fix)
    elif code and _kind(code) == "folder":
        _check_script(entry, code, problems)
    elif code and not code_source(str(code)) and posixpath.normpath(entry) != code.name:
        fix = f"Write `entry: {code.name}`, or name the folder in code."
        problems.add("entry", f"code is the one file {code.name}, and {entry!r} is not in it", fix)


def _check_script(entry: str, code: Path, problems: Problems) -> None:
    kind = _kind(code / entry)
    if kind == "folder":
        problems.add("entry", f"{entry!r} is a folder in {code}", "Name the script in it.")
    elif kind is None:
        guess = _nearest_file(entry, code)
        fix = f"Did you mean `{guess}`?" if guess else "Name a file inside code."
        problems.add("entry", f"there is no {entry!r} in {code}", fix)


def _nearest_file(entry: str, code: Path) -> str | None:
    """The file that was most likely meant: one of the same name elsewhere, else one of a similar name."""
    names = list(_files(code))
    same = [name for name in names if posixpath.basename(name) == posixpath.basename(entry)]
    return min(same, key=len) if same else nearest(entry, names)


def _files(code: Path) -> Iterator[str]:
    count = 0
    for root, folders, names in os.walk(code):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _DULL)
        for name in sorted(names):
            count += 1
            if count > _MOST_FILES:
                return
            yield Path(root, name).relative_to(code).as_posix()


def _check_python(python: Path, problems: Problems) -> None:
    if _kind(python) != "file":
        _note_missing("python", python, "file", problems)
    elif not os.access(python, os.X_OK):
        problems.add("python", f"{python} cannot be executed", "Name an interpreter, such as .venv/bin/python.")


def _note_missing(field: str, path: Path, what: str, problems: Problems) -> None:
    guess = nearest(path.name, _names(path.parent))
    fix = f"Did you mean `{path.parent / guess}`?" if guess else "Paths are taken from the folder of the job file."
    problems.add(field, f"there is no {what} {path}", fix)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())[:_MOST_FILES]
    except (OSError, ValueError):
        return []


def _kind(path: Path) -> str | None:
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return None
    return "folder" if stat.S_ISDIR(mode) else "file"
