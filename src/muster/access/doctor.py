"""The doctor: everything that a job needs of a target, looked at before money is spent.

>>> examine(job, target)
[Finding(check='credentials', state='ok', what='api key of …', fix=''), …]
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from ..errors import CloudError, MusterError
from ..spec.config import Target
from ..spec.job import Job
from . import doctor_account, doctor_capacity, doctor_image, doctor_network, doctor_tools
from .doctor_facts import PATIENCE, Facts, Machine
from .doctor_policies import add, refused, statement
from .doctor_storage import work_dir
from .findings import WITHIN, Check, Finding, Waiting, fail, healthy, look, ok, skipped

Probe = Callable[[Job, Target], Iterable[Finding]]
"""Starts nodes for a minute and tests the ports between them."""


def examine(
    job: Job,
    target: Target,
    machines: Mapping[str, Machine] | None = None,
    folder: Path = Path(),
    within: float = WITHIN,
    waiting: Waiting = lambda _names: None,
    only: Collection[str] = (),
) -> list[Finding]:
    """All findings, always in the same order. `machines` are the nodes' shapes by role, where they are known.

    `only` are the names of the checks to make; none means all.
    """
    if target.kind == "local":
        from .doctor_local import checks

        return look(_chosen(checks(job, target), only), within, waiting)
    if target.kind != "oci":
        return [skipped("target", f"the doctor knows nothing of targets of the kind {target.kind}")]
    began = time.monotonic()
    facts = Facts(job, target, machines if machines is not None else named_machines(job, target))
    facts, first = _signed_in(facts, within, waiting)
    left = max(within - (time.monotonic() - began), 1.0)
    there = _there(facts) if facts.cloud else []
    more = look(_chosen([*there, *_here(facts, folder)], only), left, waiting)
    return [*([] if only and "credentials" not in only else first), *more]


def _chosen(checks: list[Check], only: Collection[str]) -> list[Check]:
    return [check for check in checks if not only or check.name in only]


def _signed_in(facts: Facts, within: float, waiting: Waiting) -> tuple[Facts, list[Finding]]:
    """The same with the cloud's services, and what is to be said of who we are.

    Nobody else need be asked by one whom the cloud does not know.
    """
    rest = skipped("cloud", "nothing else was asked of it: it must know you first")
    found = doctor_account.session_of(facts.options)
    if isinstance(found, MusterError):
        return facts, [fail("credentials", found.message, found.fix), rest]
    from ..clouds.oci_services import Services

    whole = replace(facts, cloud=Services(found, PATIENCE))
    told = look([Check("credentials", lambda: doctor_account.credentials(whole))], within, waiting)
    return (whole, told) if healthy(told) else (facts, [*told, rest])


def named_machines(job: Job, target: Target) -> dict[str, Machine]:
    """The shapes that the target names itself."""
    made = {}
    for role in ("main", "worker", "ps"):
        own = {**target.options, **(target.options.get("roles") or {}).get(role, {})}
        if shape := own.get("shape_name"):
            made[role] = Machine(str(shape), (own.get("shape_config_details") or {}).get("ocpus"))
    return made


def _there(facts: Facts) -> list[Check]:
    """What the cloud is asked. Checks that need the same answer share it."""
    looks: dict[str, Callable[[Facts], Iterable[Finding]]] = {
        "region": doctor_account.region,
        "compartment": doctor_account.compartment,
        "project": doctor_account.project,
        "log-group": doctor_account.logs,
        "jobs": jobs,
        "job-runs": job_runs,
        "log-search": log_search,
        "bucket": bucket,
        "subnet": doctor_network.network,
        "gateway": doctor_network.gateways,
        "ports": doctor_network.ports,
        "shape": doctor_capacity.shapes,
        "quota": doctor_capacity.quota,
        "options": doctor_capacity.options,
    }
    return [Check(name, _bound(one, facts)) for name, one in looks.items()]


def _here(facts: Facts, folder: Path) -> list[Check]:
    """What is seen from this machine alone, and its registries."""
    return [
        Check("image", lambda: doctor_image.images(facts)),
        Check("registry-login", lambda: doctor_image.login(facts)),
        Check("container-tool", doctor_tools.container_tool),
        Check("runtime", lambda: doctor_capacity.runtime(facts.job)),
        Check("outputs", lambda: doctor_capacity.outputs(facts.job, folder)),
    ]


def _bound(one: Callable[[Facts], Iterable[Finding]], facts: Facts) -> Callable[[], Iterable[Finding]]:
    return lambda: one(facts)


# --- harmless calls: what a run will do, asked for in a way that changes nothing -----------------------------


def bucket(facts: Facts) -> Iterator[Finding]:
    """The work dir. Where a policy is missing, it is the very one that `muster policy` prints."""

    def mend(error: MusterError) -> str:
        if "policy" not in error.fix or not statement(facts, "OBJECT_CREATE"):
            return error.fix
        return f"Correct `work_dir`, or make the bucket. {add(facts, 'OBJECT_CREATE')}"

    yield from work_dir(facts.job.work_dir or facts.target.work_dir, mend=mend)


def jobs(facts: Facts) -> Iterator[Finding]:
    yield _asked(facts, "jobs", "list_jobs", "DATA_SCIENCE_JOB_INSPECT")


def job_runs(facts: Facts) -> Iterator[Finding]:
    yield _asked(facts, "job-runs", "list_job_runs", "DATA_SCIENCE_JOB_RUN_INSPECT")


def _asked(facts: Facts, check: str, operation: str, permission: str) -> Finding:
    what = check.replace("-", " ")
    try:
        facts.ask("data_science", operation, facts.compartment, limit=1)
    except CloudError as error:
        return refused(facts, check, error, permission, f"you may not list {what} in the compartment")
    return ok(check, f"you may list {what} in the compartment")


def log_search(facts: Facts) -> Iterator[Finding]:
    """Whether the service's own lines of a run could be read: a search for nothing."""
    from datetime import datetime, timedelta, timezone

    if not (group := facts.option("log_group_id")):
        return
    now = datetime.now(timezone.utc)
    asked = {
        "timeStart": (now - timedelta(minutes=1)).isoformat(),
        "timeEnd": now.isoformat(),
        "searchQuery": f"search \"{facts.compartment}/{group}\" | where source = 'muster-doctor'",
    }
    try:
        facts.ask("log_search", "search_logs", asked, limit=1)
    except CloudError as error:
        yield refused(facts, "log-search", error, "LOG_CONTENT_READ", "you may not read what is logged there")
    else:
        yield ok("log-search", "you may search the log group")
