"""Whether the cloud has the machines that the job wants, and whether the job keeps within the service's limits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import CloudError
from ..spec.job import Job
from ..spec.problems import nearest
from ..spec.units import duration_text
from .doctor_facts import Facts
from .doctor_policies import unseen
from .findings import Finding, fail, ok, skipped, warn

_LONGEST = 30 * 24 * 3600.0
"""Seconds that a job run may go on."""
_EVENTS = re.compile(r"\b(SummaryWriter|TensorBoard(Logger|Callback)?|create_file_writer)\b")


def shapes(facts: Facts) -> Iterator[Finding]:
    """Whether the service offers the shapes."""
    try:
        offered = {row["name"]: row for row in facts.items("data_science", "list_job_shapes", facts.compartment)}
    except CloudError as error:
        yield unseen(facts, "shape", error, "DATA_SCIENCE_JOB_INSPECT", "may not see which shapes there are")
        return
    for role, machine in facts.machines.items():
        if machine.shape in offered:
            continue
        guess = nearest(machine.shape, offered)
        meant = f"Did you mean {guess}? " if guess else ""
        fix = f"{meant}There are: {', '.join(sorted(offered))}."
        yield fail("shape", f"{role}: the service offers no shape {machine.shape} here", fix)
    good = sorted({machine.shape for machine in facts.machines.values() if machine.shape in offered})
    if good:
        yield ok("shape", f"{', '.join(good)} is offered")


def quota(facts: Facts) -> Iterator[Finding]:
    """Whether so many machines are left of the tenancy's limits."""
    known = _known(facts)
    wanted: dict[str, float] = {}
    for role, machine in facts.machines.items():
        names = limits_of(machine.shape, known)
        if role not in facts.nodes:
            continue
        if not names:
            yield skipped("quota", f"no limit of Data Science is named after {machine.shape}: see them in the console")
            continue
        each = gpus(machine.shape) if "gpu" in names[0] else machine.ocpus or _cores(machine.shape)
        wanted[names[0]] = wanted.get(names[0], 0.0) + facts.nodes[role] * each
    for limit, amount in wanted.items():
        yield _left(facts, limit, amount)


def _known(facts: Facts) -> list[str] | None:
    """The names of the service's limits; None where we may not see them."""
    root = facts.tenancy or facts.compartment
    try:
        found = facts.items("limits", "list_limit_definitions", root, service_name="data-science")
    except CloudError:
        return None
    return [str(row["name"]) for row in found]


def _left(facts: Facts, limit: str, wanted: float) -> Finding:
    try:
        found = facts.ask("limits", "get_resource_availability", "data-science", limit, facts.compartment).data
    except CloudError as error:
        return unseen(facts, "quota", error, "RESOURCE_AVAILABILITY_READ", f"may not see how much of {limit} is left")
    free = found.get("fractionalAvailability") or found.get("available") or 0
    if free < wanted:
        fix = (
            "Run fewer workers, name another shape, or ask for more in the console (Governance, Limits, Data Science)."
        )
        return fail("quota", f"the job wants {wanted:g} of {limit}, and {free:g} are left", fix)
    return ok("quota", f"{wanted:g} of {limit} wanted, {free:g} left")


def limits_of(shape: str, known: list[str] | None) -> list[str]:
    """The limits that a shape counts against: those named after its family, such as `ds-standard-e4-core-…`.

    Where the names are not known, how one is most likely spelled.
    """
    words = [word.lower() for word in shape.split(".")[1:]]
    if words and (words[-1] == "flex" or words[-1].isdigit()):
        words.pop()
    family = "-".join(words)
    if known is None:
        return [f"ds-{family}-count" if "gpu" in family else f"ds-{family}-core-regional-count"] if family else []
    fits = re.compile(rf"ds-{re.escape(family)}(-core)?(-regional)?-count")
    return [name for name in known if family and fits.fullmatch(name)]


def gpus(shape: str) -> int:
    """`VM.GPU.A10.2` has two."""
    last = shape.rpartition(".")[2]
    return int(last) if last.isdigit() else 1


def _cores(shape: str) -> int:
    """`VM.Standard2.4` has four; of a flexible shape it is at least one."""
    return gpus(shape)


# --- what the job asks for ----------------------------------------------------------------------------------


def runtime(job: Job) -> Iterator[Finding]:
    """What the service's own clock will be set to."""
    if job.ttl is None:
        told = "the job has no ttl: nothing but the service's 30 days ends a run that hangs"
        yield warn("runtime", told, "Write `ttl: 8h` into the job, or however long it may take at most.")
    elif job.ttl > _LONGEST:
        fix = "Write at most `ttl: 30d`, and keep checkpoints for what takes longer."
        yield fail("runtime", f"ttl is {duration_text(job.ttl)}, and a job run goes on for 30 days at most", fix)
    elif job.ttl <= job.timeout:
        told = f"ttl ({duration_text(job.ttl)}) is no longer than timeout ({duration_text(job.timeout)})"
        yield warn("runtime", told, "The run may end before it is ready: raise ttl, or lower timeout.")
    else:
        yield ok("runtime", f"the service ends every node after {duration_text(job.ttl)}")


def outputs(job: Job, folder: Path) -> Iterator[Finding]:
    """Whether what TensorBoard is to show will come home."""
    if not job.outputs:
        told = (
            "the job has no outputs: nothing that the script writes comes home, and a TensorBoard has nothing to show"
        )
        yield warn("outputs", told, "Write `outputs: outputs` into the job, and let the script write below it.")
        return
    text = _script(job, folder)
    known = (job.outputs, "OCI__SYNC_DIR", "MUSTER_OUTPUTS")
    if _EVENTS.search(text) and not any(word in text or any(word in arg for arg in job.args) for word in known):
        told = (
            f"{job.entry} writes events for TensorBoard, and seems to do so outside of {job.outputs}/, which comes home"
        )
        yield warn(
            "outputs", told, f"Give the writer a folder below it, such as SummaryWriter('{job.outputs}/tensorboard')."
        )
    else:
        yield ok("outputs", f"{job.outputs}/ comes home, also while the job runs")


def _script(job: Job, folder: Path) -> str:
    """The entry script, where it is a file of this machine."""
    if not job.entry or not job.code or "://" in job.code or job.code.startswith("image:"):
        return ""
    try:
        return (folder / job.code / job.entry).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def options(facts: Facts) -> Iterator[Finding]:
    """What of the target's own settings cannot be."""
    named = facts.option("shape_name")
    config: Any = facts.options.get("shape_config_details") or {}
    if named and named.endswith(".Flex") and not config:
        fix = "Write `shape_config_details = {ocpus = 4, memory_in_gbs = 64}` into the target."
        yield warn("shape", f"{named} is flexible, and the target does not say how large", fix)
    size = facts.options.get("block_storage_size")
    if size is not None and not 50 <= int(size) <= 10240:
        yield fail("block-storage", f"{size} GB is not a size that a node can have", "From 50 to 10240 GB.")
