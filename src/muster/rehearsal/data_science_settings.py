"""What all parts of the Data Science service share: who may do what, what is known, how long things take."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .data_science_limits import SHAPES, Quota, Shape, Throttle
from .data_science_permits import demand
from .identity import Identity
from .log_service import LogService
from .permits import Permit
from .principals import COMPARTMENT, REGION, TENANCY
from .routing import Call, Refusal
from .run_hosts import Placing

DELAYS: Mapping[str, float] = {
    "created": 0.0,
    "accepted": 0.0,
    "started": 0.0,
    "ended": 0.0,
    "canceled": 0.0,
    "deleted": 0.0,
    "forgotten": 3600.0,
}
"""How long a job is CREATING, a run is ACCEPTED, a run that is IN_PROGRESS has no process yet (its image is pulled),
a run whose process has ended is not final yet, the same where it is CANCELING, a job is DELETING; and how long what is
DELETED can still be read. In seconds; infinity holds a state until the delay is set again."""


def nowhere(what: str = "") -> Refusal:
    """Also for who may not: the service does not tell them apart."""
    told = "Authorization failed or requested resource not found."
    return Refusal(404, "NotAuthorizedOrNotFound", f"{told} {what}".rstrip())


class Delays:
    """How long each step takes, for all runs or for one. Whoever waits for a step learns of a change at once."""

    def __init__(self, changed: threading.Condition, given: Mapping[str, float] | None = None) -> None:
        self._changed = changed
        self._all = dict(DELAYS)
        self._own: dict[tuple[str, str], float] = {}
        for name, seconds in (given or {}).items():
            self.set(name, seconds)

    def set(self, name: str, seconds: float, run: str | None = None) -> None:
        """For the run of this display name (or OCID), or for all."""
        if name not in DELAYS:
            raise ValueError(f"there is no delay {name!r}; known are {', '.join(DELAYS)}")
        with self._changed:
            if run is None:
                self._all[name] = float(seconds)
            else:
                self._own[name, run] = float(seconds)
            self._changed.notify_all()

    def end(self) -> None:
        """Nothing takes any time any more."""
        with self._changed:
            self._own.clear()
            self._all.update({name: 0.0 for name in DELAYS if name != "forgotten"})
            self._changed.notify_all()

    def of(self, name: str, *runs: str) -> float:
        return next((self._own[name, run] for run in runs if (name, run) in self._own), self._all[name])


@dataclass
class Settings:
    """One service, as it was set up."""

    folder: Path
    permit: Permit
    identity: Identity | None
    clock: Callable[[], float]
    changed: threading.Condition
    """Guards all jobs and runs; notified when something about them changes."""
    delays: Delays
    place: Placing
    quota: Quota
    throttle: Throttle = field(default_factory=Throttle)
    shapes: Mapping[str, Shape] = field(default_factory=lambda: SHAPES)
    images: Mapping[str, Sequence[str]] = field(default_factory=dict)
    projects: dict[str, str] | None = None
    subnets: Mapping[str, str] | None = None
    logs: LogService | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    endpoint: str = ""
    grace: float = 30.0
    minute: float = 60.0
    token_seconds: float = 1200.0
    tenancy: str = TENANCY
    region: str = REGION

    def demand(self, call: Call, operation: str, compartment: str, about: Mapping[str, str] | None = None) -> None:
        demand(self.permit, call.principal, operation, compartment, about)

    def compartment_of_project(self, project: str) -> str:
        """Where a project lies; 404 where projects are known and this is none."""
        if self.projects is None:
            return COMPARTMENT
        if project not in self.projects:
            raise nowhere(f"project {project}")
        return self.projects[project]

    def check_subnet(self, call: Call, subnet: str, compartment: str) -> str:
        """Whether the caller may use this subnet; the compartment that it lies in."""
        if self.subnets is not None and subnet not in self.subnets:
            raise nowhere(f"subnet {subnet}")
        where = compartment if self.subnets is None else self.subnets[subnet]
        self.demand(call, "use_subnet", where)
        return where

    def check_log_group(self, call: Call, group: str, makes_log: bool) -> None:
        """Whether the caller may have runs log into this group."""
        if self.logs is None:
            return
        where = self.logs.compartment_of(group)
        self.demand(call, "use_log_group", where, {"target.loggroup.id": group})
        if makes_log:
            self.demand(call, "create_log", where, {"target.loggroup.id": group})
