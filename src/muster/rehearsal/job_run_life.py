"""The life of a job run, in a thread of its own: accepted, in progress, and one of the ends.

A run that exceeds its maximum runtime, counted from IN_PROGRESS on, is taken to be canceled by the service, so that its
end is CANCELED and not FAILED: assumed, until a run on a real account has shown it.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from .buckets import moment
from .data_science_jobs import Job
from .data_science_permits import has
from .data_science_settings import Settings
from .identity import Principal
from .job_run_node import Node, Told, boot
from .job_run_output import Output
from .job_run_plan import NodeGroup, Plan, repository
from .job_run_principal import RunPrincipals, principal

FINAL = frozenset({"SUCCEEDED", "FAILED", "CANCELED", "DELETED"})
CANCELABLE = frozenset({"ACCEPTED", "IN_PROGRESS", "NEEDS_ATTENTION"})


@dataclass
class Run:
    """A job run. `row` is what a caller sees of it."""

    number: int
    job: Job
    row: dict[str, Any]
    plan: Plan
    endpoint: str
    folder: Path
    nodes: list[Node] = field(default_factory=list)
    stop: str = ""
    """Why it is to be canceled, for `lifecycleDetails`; empty where it is not."""
    vanishes: bool = False
    """Whether it is DELETED when it has ended."""
    forgotten_at: float | None = None
    gone: bool = False
    """Whether its nodes' disks are gone too."""

    @property
    def id(self) -> str:
        return str(self.row["id"])

    @property
    def state(self) -> str:
        return str(self.row["lifecycleState"])

    @property
    def name(self) -> str:
        return str(self.row["displayName"])

    @property
    def forgotten(self) -> bool:
        return self.forgotten_at is not None and time.monotonic() >= self.forgotten_at

    def called(self, which: int | str) -> bool:
        """Whether this is the run of this number (from 1), display name or OCID."""
        return which in (self.number, self.name, self.id)


def cancel(run: Run, settings: Settings, why: str) -> None:
    """Asks a run to end."""
    with settings.changed:
        if run.state in CANCELABLE:
            run.stop = why
            run.row["lifecycleState"] = "CANCELING"
            settings.changed.notify_all()


class Life:
    """What happens to one run. `over` is called when it is about to be final."""

    def __init__(
        self, run: Run, settings: Settings, principals: RunPrincipals | None, over: Callable[[], None]
    ) -> None:
        self._run = run
        self._settings = settings
        self._principals = principals
        self._over = over
        self._who: Principal = principal(run.id, run.row["compartmentId"], settings.tenancy)
        self._output = Output(run.row, settings)
        self._deadline: float | None = None

    def start(self) -> None:
        threading.Thread(target=self._live, daemon=True).start()

    def _live(self) -> None:
        try:
            state, details = self._states()
        except Exception as reason:  # noqa: BLE001 - whoever waits for the run is told of the cloud's own fault
            state, details = "FAILED", f"Internal error: {reason!r}"
            self._end_nodes()
        self._end(state, details)

    def _states(self) -> tuple[str, str]:
        self._pause("accepted")
        if not self._run.stop and (why := self._not_runnable()):
            return "FAILED", why
        if not self._run.stop:
            self._begin()
            self._pause("started")
        if not self._run.stop:
            self._boot(self._told())
            self._watch()
        self._end_nodes()
        self._pause("canceled" if self._run.stop else "ended", to_the_end=True)
        return self._verdict()

    # Its steps

    def _not_runnable(self) -> str:
        """Why the service cannot start it, in its words."""
        settings, run = self._settings, self._run
        for group in run.plan.groups:
            about = {"target.repo.name": repository(group.image)}
            allowed = has(settings.permit, self._who, "pull_image", run.row["compartmentId"], about)
            if group.image and not (allowed and group.argv(settings.images)):
                return f"Failed to pull the container image {group.image}: it does not exist or may not be read."
            if not group.image and run.job.artifact is None:
                return "The job has neither a container nor an artifact."
        return ""

    def _begin(self) -> None:
        run, settings = self._run, self._settings
        with settings.changed:
            if run.plan.minutes is not None:
                self._deadline = time.monotonic() + run.plan.minutes * settings.minute
            run.row["timeStarted"] = moment(settings.clock())
            if run.state == "ACCEPTED":
                run.row["lifecycleState"] = "IN_PROGRESS"
            if why := self._output.refused(self._who):
                run.row.update({"lifecycleState": "NEEDS_ATTENTION", "lifecycleDetails": why})
            settings.changed.notify_all()

    def _told(self) -> Told:
        run, settings = self._run, self._settings
        variables: dict[str, str] = {}
        if self._principals is not None:
            folder = run.folder / "principal"
            folder.mkdir(parents=True, mode=0o700)
            variables = self._principals.grant(self._who, folder)
        where = settings.compartment_of_project(run.row["projectId"])
        endpoint = settings.endpoint or run.endpoint
        job = run.job
        return Told(settings, run.row, job.said, where, endpoint, variables, job.artifact, run.plan.nodes)

    def _boot(self, told: Told) -> None:
        for group in self._run.plan.groups:
            if self._run.plan.in_order and group is not self._run.plan.groups[0]:
                self._pause("started")
            for node in self._run.nodes:
                if node.group is group and not self._run.stop:
                    boot(node, told, partial(self._output, node), partial(self._node_ended, node))
            self._show_groups()

    def _node_ended(self, node: Node, code: int) -> None:
        with self._settings.changed:
            node.code = code
            self._settings.changed.notify_all()

    def _watch(self) -> None:
        """Until all nodes have ended, or the run cannot succeed any more, or it is to be canceled."""
        with self._settings.changed:
            while not self._run.stop and self._living() and not self._lost():
                self._wait(None)

    def _end_nodes(self) -> None:
        """Asks first, kills after the grace."""
        self._deadline = None
        for node in self._living():
            if node.machine is not None:
                node.machine.ask_to_end()
        until = time.monotonic() + self._settings.grace
        with self._settings.changed:
            while self._living() and time.monotonic() < until:
                self._settings.changed.wait(_bounded(until - time.monotonic()))
        self._kill()
        with self._settings.changed:
            while self._living():
                self._settings.changed.wait()

    def _kill(self) -> None:
        for node in self._living():
            if node.machine is not None:
                node.machine.kill()

    def _verdict(self) -> tuple[str, str]:
        if self._run.stop:
            return "CANCELED", self._run.stop
        if failed := self._failed_groups():
            codes = [node.code for node in self._run.nodes if node.group in failed and node.code]
            named = "".join(f" Node group {group.name} failed." for group in failed if group.name)
            return "FAILED", f"Job run execution failed with exit code {codes[0] if codes else 1}.{named}"
        return "SUCCEEDED", "Job run completed successfully."

    def _end(self, state: str, details: str) -> None:
        run, settings = self._run, self._settings
        if self._principals is not None:
            self._principals.end(run.folder / "principal")
        self._show_groups()
        for node in run.nodes:
            if node.place is not None:
                node.place.leave()
        self._output.close()
        self._over()
        with settings.changed:
            told = {"lifecycleState": "DELETED" if run.vanishes else state, "lifecycleDetails": details}
            run.row.update({**told, "timeFinished": moment(settings.clock())})
            settings.changed.notify_all()
        shutil.rmtree(run.folder, ignore_errors=True)
        with settings.changed:
            run.gone = True
            settings.changed.notify_all()

    # What they stand on

    def _living(self) -> list[Node]:
        return [node for node in self._run.nodes if node.machine is not None and not node.ended]

    def _lost(self) -> bool:
        """Whether some group can no longer have as many nodes succeed as it must."""
        return any(
            sum(bool(node.code) for node in self._run.nodes if node.group is group) > group.replicas - group.minimum
            for group in self._run.plan.groups
        )

    def _failed_groups(self) -> list[NodeGroup]:
        return [
            group
            for group in self._run.plan.groups
            if sum(node.code == 0 for node in self._run.nodes if node.group is group) < group.minimum
        ]

    def _show_groups(self) -> None:
        with self._settings.changed:
            if self._run.plan.groups[0].name:
                rows = [{"name": group.name, **self._group_state(group)} for group in self._run.plan.groups]
                self._run.row["nodeGroupDetailsList"] = rows

    def _group_state(self, group: NodeGroup) -> dict[str, Any]:
        nodes = [node for node in self._run.nodes if node.group is group]
        if not any(node.machine for node in nodes):
            return {"lifecycleState": "CREATING", "lifecycleDetails": None}
        if not all(node.ended for node in nodes):
            return {"lifecycleState": "ACTIVE", "lifecycleDetails": None}
        done = sum(node.code == 0 for node in nodes)
        state = "DELETED" if done >= group.minimum else "FAILED"
        return {"lifecycleState": state, "lifecycleDetails": f"{done} of {group.replicas} nodes succeeded"}

    def _pause(self, name: str, to_the_end: bool = False) -> None:
        """As long as this step takes. A run that is to be canceled goes on at once."""
        since, run, settings = time.monotonic(), self._run, self._settings
        with settings.changed:
            while to_the_end or not run.stop:
                left = since + settings.delays.of(name, run.id, run.name) - time.monotonic()
                if left <= 0:
                    return
                self._wait(left)

    def _wait(self, seconds: float | None) -> None:
        """For a change, but not beyond the maximum runtime: then the service cancels the run."""
        left = None if self._deadline is None else self._deadline - time.monotonic()
        if left is not None and left <= 0:
            self._deadline = None
            minutes = self._run.plan.minutes
            cancel(self._run, self._settings, f"The job run exceeded its maximum runtime of {minutes} minutes.")
            return
        self._settings.changed.wait(_bounded(*(each for each in (seconds, left) if each is not None)))


def _bounded(*seconds: float) -> float | None:
    """The shortest of these, within what a wait can take."""
    return max(0.0, min(*seconds, threading.TIMEOUT_MAX)) if seconds else None
