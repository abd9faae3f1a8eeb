"""The job file's settings, each declared once: its name, its kind and what it is for."""

from __future__ import annotations

import re
from typing import Any

from .counts import ParameterServers, ProcessCount, ServerCount, WorkerCount
from .fields import (
    Anything,
    Boolean,
    Duration,
    Field,
    Integer,
    Kind,
    Maybe,
    Rule,
    Section,
    Size,
    Text,
    TextList,
    TextMap,
)
from .inputs import InputMap
from .job import Job, Resources, Role
from .locations import BUCKETS, FSSPEC, INNER, Location


def slug(text: str) -> str:
    """A text as the name of a job: small letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40].strip("-")


NAME = Rule(
    r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?",
    "1 to 40 small letters, digits and hyphens, with a letter or digit at both ends",
    slug,
)
ENV_NAME = Rule(
    r"[A-Za-z_][A-Za-z0-9_]*",
    "the name of an environment variable: letters, digits and _, no digit in front",
    lambda text: re.sub(r"^(?=[0-9])|[^A-Za-z0-9_]+", "_", text),
)
FOLDER_NAME = Rule(r"(?!\.)[A-Za-z0-9._-]+", "the name of a folder: letters, digits, '.', '_' and '-'")

ENV = TextMap(
    names=ENV_NAME,
    fix='Write "" for an empty value, or take the name out. To pass on your own value, list it in secrets.',
)
CODE = Location(("file", *BUCKETS), code=True)
WORK_DIR = Location(("file", *BUCKETS), rarer=("memory", *FSSPEC))
INPUTS = InputMap(FOLDER_NAME, Location(("file", *BUCKETS, "https"), rarer=("http", *FSSPEC)))

RESOURCES = Section(
    (
        Field("gpus", Maybe(Integer(0)), "GPUs of a node."),
        Field("gpu", Maybe(Text()), "The model of the GPUs, such as A100."),
        Field("cpus", Maybe(Integer(1)), "CPU cores of a node."),
        Field("memory", Maybe(Size()), "Memory of a node, such as 32GB."),
        Field("disk", Maybe(Size()), "Disk of a node, such as 100GB."),
    ),
    model=Resources,
    owner="in resources",
)


def _role_fields(options: Kind) -> tuple[Field, ...]:
    return (
        Field("computes", Boolean(), "false makes a main that only holds the rendezvous."),
        Field("env", ENV, "Laid over the job's env."),
        Field("resources", RESOURCES, "Instead of the job's resources."),
        Field("image", Maybe(Text()), "Instead of the job's image."),
        Field("options", options, "Laid over the job's options."),
    )


def _servers(count: int = 0, **role: Any) -> ParameterServers:
    return ParameterServers(count, Role(**role))


def job_section(options: Kind | None = None) -> Section:
    """All settings of a job. `options` is what its framework takes; without it any options are taken."""
    options = options or Anything()
    return Section(
        (*_SCRIPT, *_cluster_fields(options), *_SURROUNDINGS, *_LIFE),
        model=Job,
        build=_build,
        owner="in a job",
    )


_SCRIPT = (
    Field("name", Text(rule=NAME), "Names the job; runs of one name may coexist.", "name: mnist"),
    Field("framework", Text(), "dask, pytorch, or one of a plugin.", "framework: pytorch"),
    Field(
        "code",
        Maybe(CODE),
        "Folder, file or archive, here or at a URL; git+URL#commit; or image:/path. null: none is taken along.",
    ),
    Field("entry", Maybe(Text()), "The script, inside code. Left out when the cluster is long-lived."),
    Field("args", TextList(), "The script's arguments."),
    Field("env", ENV, "The script's environment."),
    Field("secrets", TextList(ENV_NAME), "Variables whose values are passed on and never written down."),
    Field("python", Maybe(Text()), "The script's interpreter: a path, or a name to look up."),
    Field("python_path", TextList(INNER.rule), "Folders inside code that modules are found in, beside code itself."),
    Field("requirements", Maybe(Location()), "A requirements.txt or a conda-style env.yaml."),
)

_SURROUNDINGS = (
    Field("resources", RESOURCES, "What a node must have."),
    Field("image", Maybe(Text()), "The container image, where the target runs containers."),
    Field("inputs", INPUTS, "What is laid out before the script starts, by name."),
    Field("outputs", Maybe(INNER), "The folder that is brought back, also while the script runs."),
    Field("checkpoints", Maybe(INNER), "Brought back too, and laid out again for a restarted or late node."),
    Field("work_dir", Maybe(WORK_DIR), "Where the nodes meet; instead of the target's."),
    Field("tags", TextMap(), "Labels for everything the run creates."),
)

_LIFE = (
    Field("ephemeral", Boolean(), "false: the cluster stays after the script, until ttl or stop."),
    Field("timeout", Duration(), "The time to become ready."),
    Field("ttl", Maybe(Duration()), "The end, whatever happens."),
    Field("retries", Integer(0), "How often a failed cluster is started again."),
)


def _cluster_fields(options: Kind) -> tuple[Field, ...]:
    role = _role_fields(options)
    main = Section(role, model=Role, owner="in the role main")
    worker = Section(role, model=Role, owner="in the role worker")
    count = Field("count", Integer(0), "How many.", "count: 1")
    servers = Section((count, *role), model=Role, build=_servers, owner="in the role ps")
    return (
        Field("workers", WorkerCount(), "Nodes beside main; {min, max} where the framework is elastic."),
        Field("ps", ServerCount(servers), "Parameter servers, where the framework has them."),
        Field("processes", ProcessCount(), "Per node. auto: one per GPU, else one."),
        Field("main", main, "What main has of its own.", default=Role()),
        Field("worker", worker, "What the workers have of their own.", default=Role()),
        Field("options", options, "The framework's own options."),
    )


def _build(main: Role | None = None, worker: Role | None = None, ps: ParameterServers | None = None, **own: Any) -> Job:
    """The job of what was read. A name that could not be read was noted; it must not hide other mistakes."""
    ps = ps or ParameterServers()
    given = {"main": main, "worker": worker, "ps": ps.role}
    roles = {name: role for name, role in given.items() if role is not None}
    return Job(**{"name": "", "framework": "", **own}, ps=ps.count, roles=roles)


def show(job: Job) -> dict[str, Any]:
    """A job as its file would say it: only what differs from the defaults."""
    own = {name: value for name, value in vars(job).items() if name != "roles"}
    if "ps" in job.roles:
        own["ps"] = ParameterServers(job.ps, job.roles["ps"])
    return dict(job_section().show({**job.roles, **own}))
