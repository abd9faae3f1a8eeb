"""The env lists of an Oracle ADS file: what the script sees, and which of it is a setting of Muster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import variables as read
from .ads_draft import Draft
from .ads_lists import Variable
from .code_paths import relative
from .problems import Problems

Env = Mapping[str, Variable]
Reader = Callable[[str], Any]

_CLUSTER = "spec.cluster.spec"
_RUNTIME = "spec.runtime.spec"
_HAVE_A_FIELD = {
    "OCI__WORK_DIR": f"{_CLUSTER}.workDir",
    "OCI__CLUSTER_TYPE": "spec.cluster.kind",
    "OCI__WORKER_COUNT": f"{_CLUSTER}.worker.replicas",
    "OCI__PS_COUNT": f"{_CLUSTER}.ps.replicas",
    "OCI__START_ARGS": f"{_CLUSTER}.config.startOptions",
    "OCI__ENTRY_SCRIPT": f"{_RUNTIME}.entryPoint",
    "OCI__ENTRY_SCRIPT_ARGS": f"{_RUNTIME}.args",
    "OCI__ENTRY_SCRIPT_KWARGS": f"{_RUNTIME}.kwargs",
    "OCI__RUNTIME_TYPE": "spec.runtime.type",
    "OCI__RUNTIME_URI": f"{_RUNTIME}.uri",
    "OCI__RUNTIME_GIT_BRANCH": f"{_RUNTIME}.branch",
    "OCI__RUNTIME_GIT_COMMIT": f"{_RUNTIME}.commit",
    "OCI__RUNTIME_GIT_SECRET_ID": f"{_RUNTIME}.gitSecretId",
    "OCI__RUNTIME_PYTHON_PATH": f"{_RUNTIME}.pythonPath",
    "OCI__CODE_DIR": f"{_RUNTIME}.codeDir",
}
"""Variables that ADS sets itself, from these fields."""

_SET_BY_MUSTER = ("OCI__MODE", "OCI__RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "TF_CONFIG", "SCHEDULER_IP")
"""Variables that tell a node what it is: one value for all of them would be wrong for all but one."""

_EVERYWHERE: Mapping[str, tuple[tuple[str, ...], Reader]] = {
    "OCI__TIMEOUT": (("timeout",), read.span),
    "OCI__TTL": (("ttl",), read.span),
    "TTL": (("ttl",), read.span),
    "OCI__EPHEMERAL": (("ephemeral",), read.yes),
}
_OF_FRAMEWORKS: Mapping[str, Mapping[str, tuple[tuple[str, ...], Reader]]] = {
    "dask": {
        "nprocs": (("options", "nprocs"), read.whole(1)),
        "nthread": (("options", "nthreads"), read.whole(1)),
        "nthreads": (("options", "nthreads"), read.whole(1)),
        "death_timeout": (("options", "death_timeout"), read.span),
    },
    "horovod": {
        "MIN_NP": (("options", "min_np"), read.whole(1)),
        "MAX_NP": (("options", "max_np"), read.whole(1)),
        "SLOTS": (("processes",), read.whole(1)),
        "START_TIMEOUT": (("options", "start_timeout"), read.span),
        "HOROVOD_ARGS": (("options", "start_args"), lambda text: list(read.words(text))),
        "ENABLE_TIMELINE": (("options", "timeline"), read.yes),
        "WORKER_PORT": (("options", "port"), read.whole(1, 65535)),
    },
    "tensorflow": {"WORKER_PORT": (("options", "port"), read.whole(1, 65535))},
}
DEFAULTS: Mapping[str, Mapping[str, str]] = {
    "dask": {"nprocs": "1", "nthread": "1", "death_timeout": "10"},
    "horovod": {"WORKER_PORT": "12345", "START_TIMEOUT": "600"},
    "tensorflow": {"WORKER_PORT": "12345"},
}
"""What the nodes of ADS take where the file does not say."""


def layered(*layers: Env) -> dict[str, Variable]:
    """Env lists over one another, the last on top."""
    return {name: variable for layer in layers for name, variable in layer.items()}


def put_env(env: Env, role: str | None, framework: str, folder: str, draft: Draft, problems: Problems) -> None:
    """Puts the variables of the job, or of one role, into the draft; those that are settings as both."""
    place = (role,) if role else ()
    settings = {**_EVERYWHERE, **_OF_FRAMEWORKS.get(framework, {})}
    for name, variable in env.items():
        if _refused(variable, problems) or _is_sync_dir(variable, folder, draft, problems):
            continue
        draft.put(variable.value, variable.path, *place, "env", name)
        if name in settings and variable.value.strip():
            keys, reader = settings[name]
            _put_setting(variable, keys, reader, place, draft, problems)


def _put_setting(
    variable: Variable,
    keys: tuple[str, ...],
    reader: Reader,
    place: tuple[str, ...],
    draft: Draft,
    problems: Problems,
) -> None:
    if place and keys[0] != "options":
        fix = "Move it to the env list of the cluster's own config."
        problems.add(variable.path, f"{variable.name} holds for all nodes, not for {place[0]} alone", fix)
        return
    try:
        value = reader(variable.value.strip())
    except ValueError as error:
        problems.add(variable.path, f"{variable.name}: {error}", "Write such a value, or take it out.")
        return
    known = draft.get(*place, *keys)
    if known is not None and known != value:
        message = f"{variable.name} says {variable.value}, and {draft.origin('.'.join(keys))} says {known}"
        problems.add(variable.path, message, "Keep one of the two.")
        return
    draft.put(value, variable.path, *place, *keys)


def _refused(variable: Variable, problems: Problems) -> bool:
    """Whether a variable has no place in an env list; notes it."""
    name = variable.name
    if name in _HAVE_A_FIELD:
        problems.add(variable.path, f"{name} is made from {_HAVE_A_FIELD[name]}", "Say it there, and take this out.")
    elif name in _SET_BY_MUSTER:
        problems.add(variable.path, f"{name} is set on each node by itself", "Take it out.")
    elif name == "PROFILE" and variable.value.strip() not in ("", "0"):
        fix = "Take PROFILE out, and start the profiler in the script."
        problems.add(variable.path, "a profiler's command around the script is not something Muster does", fix)
    else:
        return False
    return True


def _is_sync_dir(variable: Variable, folder: str, draft: Draft, problems: Problems) -> bool:
    """Whether a variable names the folder whose content is brought home, which is a setting of the job."""
    if variable.name != "OCI__SYNC_DIR":
        return False
    inside = relative(variable.value, folder)
    if inside != variable.value and inside != ".":
        draft.put(inside.rstrip("/"), variable.path, "outputs")
    elif variable.value.rstrip("/") != "/opt/ml":  # which is what images of ADS have, and means no choice
        fix = f"Take it out: the script finds a folder of its own there. Or name one inside {folder}."
        problems.add(variable.path, "what is brought home lies inside the code folder", fix)
    return True
