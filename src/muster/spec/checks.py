"""What must hold between the settings of a job, and between a job and its framework."""

from __future__ import annotations

import posixpath

from .facts import Facts, Frameworks
from .job import Job, Resources
from .problems import Problems, suggestion
from .units import duration_text

_SMALLEST = 10**6
"""A node with less memory or disk than this is a number that lacks its unit."""


def check(job: Job, facts: Facts | None, problems: Problems) -> None:
    """Notes what does not fit together. A setting that is already known to be wrong is not judged again."""
    _check_end(job, problems)
    _check_secrets(job, problems)
    _check_folders(job, problems)
    _check_roles(job, problems)
    _check_shards(job, problems)
    for path, resources in _all_resources(job):
        _check_resources(resources, path, problems)
    if facts:
        _check_fit(job, facts, problems)


def framework_facts(name: str, frameworks: Frameworks | None, problems: Problems) -> Facts | None:
    """What the job's framework can do. Notes a name that none has."""
    facts = frameworks.facts(name) if frameworks and name else None
    if frameworks and name and facts is None:
        names = list(frameworks.names())
        guess = suggestion(name, names, "Installed")
        fix = f"{guess} Others come as plugins: pip install one into the Python that runs muster."
        problems.add("framework", f"there is no framework {name!r}", fix)
    return facts


def _check_end(job: Job, problems: Problems) -> None:
    if job.ephemeral and job.entry is None and problems.clean("entry", "ephemeral", "code"):
        fix = "Add `entry: train.py`, or `ephemeral: false` for a cluster that stays until ttl or stop."
        problems.add("entry", "missing: an ephemeral cluster ends with its script, and there is none", fix)
    # A short ttl beside a timeout that nobody wrote is clear enough.
    if not problems.given("timeout") or not problems.clean("ttl", "timeout"):
        return
    if job.ttl is not None and job.ttl < job.timeout:
        ttl, timeout = duration_text(job.ttl), duration_text(job.timeout)
        message = f"the run would end ({ttl}) before it must be ready (timeout: {timeout})"
        problems.add("ttl", message, f"Raise ttl above {timeout}, or lower timeout.")


def _check_secrets(job: Job, problems: Problems) -> None:
    layers = {"env": job.env, **{f"{name}.env": role.env for name, role in job.roles.items()}}
    for index, secret in enumerate(job.secrets):
        for layer in (layer for layer, env in layers.items() if secret in env):
            path, other = f"secrets[{index}]", f"{layer}.{secret}"
            lines = f", on lines {problems.line(path)} and {problems.line(other)}" if problems.line(path) else ""
            fix = f"Take it out of {layer}, where its value can be read by all, or out of secrets."
            problems.add(path, f"{secret} is given both here and in {layer}{lines}", fix)


def _check_folders(job: Job, problems: Problems) -> None:
    if job.outputs is None or job.checkpoints is None or not problems.clean("outputs", "checkpoints"):
        return
    if posixpath.normpath(job.outputs) == posixpath.normpath(job.checkpoints):
        fix = "Give each a folder of its own, such as outputs and checkpoints."
        problems.add("checkpoints", f"outputs and checkpoints are the same folder, {job.outputs!r}", fix)


def _check_roles(job: Job, problems: Problems) -> None:
    for name, role in job.roles.items():
        if name != "main" and not role.computes:
            fix = "Take it out. Only `main: {computes: false}` has a meaning."
            problems.add(f"{name}.computes", f"a {name} always computes", fix)


def _check_shards(job: Job, problems: Problems) -> None:
    for name in (name for name, one in job.inputs.items() if one.shard):
        if job.workers.elastic and problems.clean(f"inputs.{name}", "workers"):
            fix = "Give the workers a fixed number, or take shard out and let the script choose by its rank."
            problems.add(f"inputs.{name}.shard", "an elastic cluster has no fixed number of shares", fix)


def _all_resources(job: Job) -> list[tuple[str, Resources]]:
    own = [(f"{name}.resources", role.resources) for name, role in job.roles.items()]
    return [("resources", job.resources), *own]


def _check_resources(resources: Resources, path: str, problems: Problems) -> None:
    for name, value in (("memory", resources.memory), ("disk", resources.disk)):
        if value is not None and value < _SMALLEST:
            fix = f"A plain number is bytes. For gigabytes write {value}GB."
            problems.add(f"{path}.{name}", f"{value} bytes is less than any machine has", fix)


def _check_fit(job: Job, facts: Facts, problems: Problems) -> None:
    if job.workers.elastic and not facts.elastic and problems.clean("workers"):
        fix = f"Write a fixed number, such as `workers: {job.workers.max}`."
        problems.add("workers", f"{job.framework} is not elastic: it cannot run with a changing number of workers", fix)
    if (job.ps or "ps" in job.roles) and "ps" not in facts.roles and problems.clean("ps"):
        problems.add("ps", f"{job.framework} has no parameter servers", "Take ps out.")
    for objection in facts.objections(job):
        if problems.clean(objection.field):
            problems.add(objection.field, objection.message, objection.fix)
