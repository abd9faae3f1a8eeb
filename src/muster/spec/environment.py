"""A node that is started by its environment alone, as in a composition file or in a job run of Oracle's."""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import NodeError
from . import variables as read
from .ads_dask import TLS
from .job import Job, Workers
from .locations import absolute, local_path
from .nodes import shortened
from .problems import Problems
from .table import slug
from .units import DURATION_HELP
from .variables import Variables

_WORK_DIR_HELP = "It is the folder or bucket where the nodes meet: /mnt/runs, oci://bucket@namespace/runs."
_MODE_HELP = "One node is MAIN, the others are WORKER or PS."
_CLUSTER_TYPE_HELP = "It is the framework: dask, pytorch."
_EPHEMERAL_HELP = "1: the cluster ends with its script. 0: it stays until its TTL or a stop."
_TIMEOUT = ("TIMEOUT", "TIME_OUT")
_NTHREADS = ("nthreads", "nthread", "NTHREADS", "NTHREAD")
_DEATH_TIMEOUT = ("death_timeout", "DEATH_TIMEOUT")
_TIMELINE_HELP = "1: Horovod writes a timeline, which slows the training. 0: it does not."
_RUNTIME_TYPE_HELP = "git: the code is in a repository. remote: it is an archive, a script or a folder."
_RUNTIME_URI_HELP = "It is where the code is: https://host/name.git, git@host:name.git, https://host/code.zip."
_WORDS_HELP = """Write words as a shell reads them, or a JSON array: ["--epochs", "3"]."""


@dataclass(frozen=True)
class Place:
    """Where a node stands in its run."""

    work_dir: str
    run: str
    mode: str
    """Its role: main, worker or ps."""
    node: str | None
    """The name it was given; None: it takes a free one."""
    rank: int | None
    code_dir: str
    """The folder on this machine that the entry is taken from; empty: the node's own, for code that it fetches."""


def read_environment(env: Mapping[str, str]) -> tuple[Place, Job]:
    """Where a node stands and which job it works on. Raises a `NodeError` that lists every mistake.

    The job's code is None where it is on this machine already, in `Place.code_dir`; else the node fetches it there.
    """
    problems = Problems()
    variables = Variables(env, problems)
    entry = variables.get("ENTRY_POINT", "ENTRY_SCRIPT", read=str, default=None)
    code = _fetched_code(variables, problems)
    place = _place(env, entry, code, variables, problems)
    job = _job(place, entry, code, variables)
    _check(place, job, problems)
    if problems.found():
        mistakes = "\n".join(map(str, problems.found()))
        raise NodeError(f"the environment does not say what this node is to do:\n{mistakes}")
    return place, job


def _fetched_code(variables: Variables, problems: Problems) -> str | None:
    """What the node has to fetch, as a job file would say it."""
    kind = variables.get("RUNTIME_TYPE", read=_runtime_type, default=None, fix=_RUNTIME_TYPE_HELP)
    commit = variables.get("RUNTIME_GIT_COMMIT", read=str, default=None)
    branch = variables.get("RUNTIME_GIT_BRANCH", read=str, default=None)
    key = variables.get("RUNTIME_GIT_SECRET_ID", read=str, default=None)
    if kind is None:
        return None
    if key:
        fix = "Give the machine's own git the key, as for any other use of git there, and take the variable out."
        problems.add("RUNTIME_GIT_SECRET_ID", "keys are not fetched from a vault by this version", fix)
    ref = commit or branch

    def read_uri(text: str) -> str:
        git = f"git+{text.removeprefix('git+')}" + (f"#{ref}" if ref else "")
        return read.code(git if kind == "git" else text)

    return variables.need("RUNTIME_URI", read_uri, _RUNTIME_URI_HELP)


def _paths(text: str) -> tuple[str, ...]:
    return tuple(path for path in text.split(":") if path)


def _runtime_type(text: str) -> str | None:
    if text.lower() in ("git", "remote"):
        return text.lower()
    if text.lower() in ("python", "none"):
        return None
    raise ValueError(f"expected git or remote, found {shortened(text)!r}")


def _place(
    env: Mapping[str, str], entry: str | None, code: str | None, variables: Variables, problems: Problems
) -> Place:
    here = Path.cwd()
    work_dir = variables.need("WORK_DIR", read.work_dir, _WORK_DIR_HELP)
    mode = variables.need("MODE", read.mode, _MODE_HELP) or ""
    rank = variables.get("RANK", read=read.whole(0), default=None)
    ranked = None if rank is None or mode == "main" else f"{mode}-{rank}"
    code_dir = variables.get("CODE_DIR", read=str, default=None)
    if code_dir is None and entry and entry.startswith("/"):
        # What ADS fetches it lays out at /code, and so the absolute entries of its users begin.
        ads = code and entry.startswith("/code/")
        code_dir = "/code" if ads else os.path.dirname(entry)  # noqa: PTH120 -- a text, like the others
    return Place(
        work_dir=str(local_path(work_dir, here) or work_dir) if work_dir else "",
        run=_run(env, problems),
        mode=mode,
        node=variables.get("NODE", read=read.word, default=ranked),
        rank=rank,
        code_dir=str(absolute(code_dir or ".", here)) if code_dir or not code else "",
    )


def _run(env: Mapping[str, str], problems: Problems) -> str:
    name = next((name for name in ("MUSTER_RUN_ID", "JOB_OCID") if env.get(name, "").strip()), None)
    if name is None:
        fix = "Set MUSTER_RUN_ID to the same word on all nodes of the run, such as `mnist-1`."
        problems.add("MUSTER_RUN_ID", "not set, and neither is JOB_OCID", fix)
        return ""
    try:
        return read.word(env[name].strip())
    except ValueError as error:
        problems.add(name, str(error), "Use the same word on all nodes of the run, such as `mnist-1`.")
        return ""


def _job(place: Place, entry: str | None, code: str | None, variables: Variables) -> Job:
    count = variables.get("WORKER_COUNT", read=read.whole(0), default=Workers().min)
    python = variables.get("PYTHON", read=str, default=Job.python)
    framework = variables.need("CLUSTER_TYPE", read.framework, _CLUSTER_TYPE_HELP) or ""
    return Job(
        name=slug(place.run) or "run",
        framework=framework,
        code=code,
        entry=_inside(entry, place.code_dir),
        args=_args(variables),
        workers=Workers(count, count),
        ps=variables.get("PS_COUNT", read=read.whole(0), default=Job.ps),
        processes=_processes(framework, variables),
        python=str(absolute(python, Path.cwd())) if python and "/" in python else python,
        python_path=variables.get("RUNTIME_PYTHON_PATH", read=_paths, default=()) if code else (),
        ephemeral=variables.get("EPHEMERAL", read=read.yes, default=Job.ephemeral, fix=_EPHEMERAL_HELP),
        timeout=variables.get(*_TIMEOUT, read=read.span, default=Job.timeout, fix=DURATION_HELP),
        ttl=variables.get("TTL", read=read.span, default=Job.ttl, fix=DURATION_HELP),
        retries=variables.get("RETRIES", read=read.whole(0), default=Job.retries),
        options=_options(framework, variables),
    )


def _processes(framework: str, variables: Variables) -> int | None:
    # A word that any script may use for itself, so only Horovod's nodes listen to it.
    names = ("PROCESSES", "SLOTS") if framework == "horovod" else ("PROCESSES",)
    return variables.get(*names, read=read.processes, default=Job.processes)


def _inside(entry: str | None, code_dir: str) -> str | None:
    """The entry as seen from the code folder. One that lies elsewhere on this machine stays absolute."""
    if entry is None or not entry.startswith("/") or not code_dir:
        return entry
    path = Path(os.path.normpath(entry))
    return str(path.relative_to(code_dir)) if path.is_relative_to(code_dir) else str(path)


def _args(variables: Variables) -> tuple[str, ...]:
    plain = variables.get("ARGS", "ENTRY_SCRIPT_ARGS", read=read.words, default=(), fix=_WORDS_HELP)
    named = variables.get("NAMED_ARGS", "ENTRY_SCRIPT_KWARGS", read=read.words, default=(), fix=_WORDS_HELP)
    return plain + named


def _options(framework: str, variables: Variables) -> dict[str, Any]:
    """The framework's own settings, under the names that job files have for them."""
    start_args = variables.get("START_ARGS", read=read.words, default=None, fix=_WORDS_HELP)
    found = {
        "nprocs": variables.get("nprocs", "NPROCS", read=read.whole(1), default=None),
        "nthreads": variables.get(*_NTHREADS, read=read.whole(1), default=None),
        "death_timeout": variables.get(*_DEATH_TIMEOUT, read=read.span, default=None, fix=DURATION_HELP),
        "port": variables.get("WORKER_PORT", read=read.whole(1, 65535), default=None),
        "start_args": None if start_args is None else list(start_args),
    }
    if framework == "dask":
        found |= _dask_options(list(start_args or ()), variables)
    if framework == "horovod":
        found |= _horovod_options(list(start_args or ()), variables)
    return {name: value for name, value in found.items() if value is not None}


def _dask_options(start_args: list[str], variables: Variables) -> dict[str, Any]:
    """Certificates, which ADS names twice: where they are fetched to, and among the words for Dask's programs."""
    found: dict[str, Any] = {
        "tls_ca_file": variables.get("CA_DOWNLOAD_LOCATION", read=str, default=None),
        "tls_cert": variables.get("CERTIFICATE_DOWNLOAD_LOCATION", read=str, default=None),
        "tls_key": variables.get("CERTIFICATE_KEY_DOWNLOAD_LOCATION", read=str, default=None),
    }
    left, rest = [], iter(start_args)
    for word in rest:
        option, equals, value = word.partition("=")
        if option in TLS:
            found[TLS[option]] = value if equals else next(rest, None)
        else:
            left.append(word)
    return {**found, "start_args": left or None}


def _horovod_options(start_args: list[str], variables: Variables) -> dict[str, Any]:
    more = variables.get("HOROVOD_ARGS", read=read.words, default=(), fix=_WORDS_HELP)
    return {
        "min_np": variables.get("MIN_NP", read=read.whole(1), default=None),
        "max_np": variables.get("MAX_NP", read=read.whole(1), default=None),
        "start_timeout": variables.get("START_TIMEOUT", read=read.span, default=None, fix=DURATION_HELP),
        "timeline": variables.get("ENABLE_TIMELINE", read=read.yes, default=None, fix=_TIMELINE_HELP),
        "start_args": [*start_args, *more] or None,
    }


def _check(place: Place, job: Job, problems: Problems) -> None:
    doubtful = any("EPHEMERAL" in problem.field for problem in problems.found())
    if place.mode == "main" and job.ephemeral and job.entry is None and not doubtful:
        message = "not set, and an ephemeral cluster ends with its script"
        fix = "Set ENTRY_POINT to the script, or EPHEMERAL to 0 for a cluster that stays until TTL or stop."
        problems.add("ENTRY_POINT", message, fix)
