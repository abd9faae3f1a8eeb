"""`muster doctor --probe`: two nodes of the job's own image, each of which dials the other on every port that the job
needs. A launch like any other, all or nothing, of which nothing stays."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ..access.findings import Finding, State, fail, ok, skipped
from ..access.ports import rules
from ..access.rules import PortRule
from ..errors import LaunchError, MusterError, NotFound
from ..frameworks.probe import NAME
from ..node.probing import MARK, TAKEN
from ..spec.job import Job, Role, Workers
from ..workdir.document import JobDocument
from ..workdir.index import IndexEntry, remember
from ..workdir.loglines import read_logs
from ..workdir.machine import Process
from ..workdir.records import End
from ..workdir.retention import holding, remove
from ..workdir.run import RunFolder, new_run_id
from .base import Plan

if TYPE_CHECKING:
    from .oci import Oci

TTL = 60.0
_BOOTED_WITHIN = 1200.0
"""Seconds for the service to start two machines and pull the image."""
_PRIVILEGED = 1024
_SAMPLES = 7

Ways = Mapping[tuple[str, str], str]
"""From one node to the other: why it does not get through, empty where it does."""


def probe(target: Oci, job: Job) -> list[Finding]:
    """A finding for each port or range. What stands in the way of the probe itself is one, too."""
    wanted = rules(job)
    if not wanted:
        return [skipped("probe", "one node needs no port")]
    try:
        plan = target.plan(two_nodes(job, wanted))
        heard = _heard(target, plan)
        cidr = target.cidr(plan.settings["subnet_id"])
    except MusterError as error:
        return [fail("probe", f"the ports could not be tried: {error.message}", error.fix)]
    return [_finding(rule, heard, cidr) for rule in wanted]


def two_nodes(job: Job, wanted: Iterable[PortRule]) -> Job:
    """The job's image, shapes and network, without its script and all that belongs to that."""
    ports = sorted({port for rule in wanted for port in samples(rule)})
    roles = {name: Role(resources=role.resources, image=role.image) for name, role in job.roles.items()}
    return Job(
        name=f"{job.name}-probe",
        framework=NAME,
        code=None,
        entry=NAME,
        args=tuple(map(str, ports)),
        workers=Workers(1, 1),
        python=job.python,
        resources=job.resources,
        image=job.image,
        outputs=None,
        checkpoints=None,
        ttl=TTL,
        roles=roles,
        tags=job.tags,
        work_dir=job.work_dir,
    )


def samples(rule: PortRule) -> list[int]:
    """The ports that stand for a range: its ends and some between. Those below 1024 only root may listen on."""
    first, last = max(rule.first, min(_PRIVILEGED, rule.last)), rule.last
    steps = min(_SAMPLES, last - first + 1) - 1
    return [first + (last - first) * step // steps for step in range(steps + 1)] if steps else [first]


# --- the launch ---------------------------------------------------------------------------------------------


def _heard(target: Oci, plan: Plan) -> dict[int, Ways]:
    """What the nodes found, by port."""
    folder = _recorded(target, plan)
    try:
        _live(target, plan, folder)
        return _told(folder)
    finally:
        _leave_nothing(target, plan, folder)


def _recorded(target: Oci, plan: Plan) -> RunFolder:
    """The run as any launcher writes it down, so that `muster ps` and `muster sweep` know it if we are killed."""
    run, now = new_run_id(plan.job.name), time.time()
    folder = target.folder(plan, run)
    folder.make_key()
    folder.write_plan(plan.to_json())
    folder.write_job(JobDocument(run=run, job=plan.job, by="launcher", created_at=now, code=None))
    remember(IndexEntry(run, folder.store.url, plan.target, now))
    folder.claim_launch(1, Process.here())
    return folder


def _live(target: Oci, plan: Plan, folder: RunFolder) -> None:
    nodes, until = target.launch(plan, folder.run, lambda _text: None), time.monotonic() + _BOOTED_WITHIN + TTL
    while not nodes.poll():
        if time.monotonic() > until:
            told = ", ".join(f"{one.node} is {one.state}" for one in target.observe(plan, folder.run))
            raise LaunchError(f"the two nodes have not ended within {_BOOTED_WITHIN + TTL:g} s: {told}")
        nodes.wait(1.0)
    result = folder.result()
    if result is None or result.end is not End.SCRIPT_ENDED:
        raise LaunchError(f"the two nodes did not meet: {result.detail if result else 'they ended without a word'}")


def _told(folder: RunFolder) -> dict[int, Ways]:
    found: dict[int, dict[tuple[str, str], str]] = defaultdict(dict)
    for line in read_logs(folder):
        if line.text.startswith(MARK):
            one = json.loads(line.text[len(MARK) :])
            way = (one["from"], one["to"])
            # A port that is taken answers, too, by whoever took it.
            if found[one["port"]].get(way) != TAKEN:
                found[one["port"]][way] = one["why"]
    return dict(found)


def _leave_nothing(target: Oci, plan: Plan, folder: RunFolder) -> None:
    if folder.result() is None:
        folder.request_stop("the probe is over", by="user")
    if job := target.job(plan, folder.run):
        target.jobs.take_away(job, lambda _text: None)
    store = folder.store
    try:
        twin = str(folder.cloud()["job"])
        store.delete_all([entry.key for entry in store.list(f"{twin}/")])
    except NotFound:
        pass  # it did not get so far
    remove(store, holding(store, folder.run))


# --- the findings -------------------------------------------------------------------------------------------


def _finding(rule: PortRule, heard: Mapping[int, Ways], cidr: str) -> Finding:
    tried = samples(rule)
    what = f"{rule.name} ({rule.ports} on {rule.listens})"
    which = "" if tried == [rule.first] else f"; tried: {', '.join(map(str, tried))}"
    wrong = list(_wrong(rule, tried, heard))
    if not wrong:
        return ok("probe", f"{what} is open between two nodes, both ways{which}")
    state: State = "warn" if rule.name == "control" else "fail"
    return Finding("probe", state, f"{what}: {'; '.join(wrong)}{which}", _fix(rule, wrong, cidr))


def _wrong(rule: PortRule, tried: Iterable[int], heard: Mapping[int, Ways]) -> Iterator[str]:
    for port in tried:
        ways = heard.get(port, {})
        if len(ways) < 2:
            yield f"{port} was not tried both ways"
        for (origin, to), why in sorted(ways.items()):
            if why == TAKEN:
                if rule.first == rule.last:
                    yield f"{port} is taken by another process of {to}'s image"
            elif why:
                yield f"{origin} does not reach {to} on {port} ({why})"


def _fix(rule: PortRule, wrong: Iterable[str], cidr: str) -> str:
    if all("is taken" in one for one in wrong):
        return "Take what listens there out of the image, or give the framework another port in the job's `options`."
    what = "all TCP" if rule.ports == "all" else f"TCP {rule.ports}"
    return f"Let {what} in from {cidr} and out to it: `muster ports --cli --cidr {cidr}` has the command."
