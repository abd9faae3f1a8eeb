"""Oracle's Data Science in a box: jobs, and job runs that are real processes on this machine.

>>> science = DataScience(folder, permit, identity, images={"iad.ocir.io/ns/train:1": ["python3", "-m", "train"]})
>>> with Server(OracleCloud(identity, [*science.routes(), …], science.controls())) as server:
...     …
>>> science.close()                                        # ends what still runs; so does the end of this process

A run's command is the job's entrypoint and cmd, as one argv; an image whose job names none runs what `images` has for
it. Each node has a home, an environment and a loopback address of its own (`place`, to put it elsewhere).
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from .buckets import moment
from .data_science_jobs import BASE, Jobs
from .data_science_limits import SHAPES, Quota, Shape
from .data_science_pages import ordered, page, required
from .data_science_refusals import Refusals
from .data_science_retries import Retries
from .data_science_settings import Delays, Settings
from .identity import Identity
from .job_run_life import FINAL, Run, cancel
from .job_run_output import output_file
from .job_runs import JobRuns
from .log_service import LogService
from .messages import Answer
from .oracle_cloud import Control
from .permits import Permit, everybody
from .principals import COMPARTMENT, REGION, TENANCY
from .routing import Call, Handler, Route, json_answer
from .run_hosts import Placing, on_loopback


class DataScience:
    """The service of one tenancy.

    `delays` are those of `data_science_settings.DELAYS`; `quota` is nodes at once by shape; `projects` and `subnets`
    give the compartment of each that exists (None: all exist); `grace` is how long a canceled run may go on; `minute`
    is how long a minute of maximum runtime lasts; `environment` is what every node has besides.
    """

    def __init__(
        self,
        folder: Path,
        permit: Permit = everybody,
        identity: Identity | None = None,
        clock: Callable[[], float] = time.time,
        *,
        images: Mapping[str, Sequence[str]] | None = None,
        environment: Mapping[str, str] | None = None,
        logs: LogService | None = None,
        projects: dict[str, str] | None = None,
        subnets: Mapping[str, str] | None = None,
        shapes: Mapping[str, Shape] = SHAPES,
        quota: Mapping[str, int] | None = None,
        delays: Mapping[str, float] | None = None,
        place: Placing = on_loopback,
        endpoint: str = "",
        grace: float = 30.0,
        minute: float = 60.0,
        token_seconds: float = 1200.0,
        tenancy: str = TENANCY,
        region: str = REGION,
    ) -> None:
        changed = threading.Condition(threading.RLock())
        self.settings = Settings(
            folder=folder,
            permit=permit,
            identity=identity,
            clock=clock,
            changed=changed,
            delays=Delays(changed, delays),
            place=place,
            quota=Quota(quota),
            shapes=shapes,
            images=dict(images or {}),
            projects=projects,
            subnets=subnets,
            logs=logs,
            environment=dict(environment or {}),
            endpoint=endpoint,
            grace=grace,
            minute=minute,
            token_seconds=token_seconds,
            tenancy=tenancy,
            region=region,
        )
        self._refusals = Refusals()
        self._names: dict[str, str] = {}
        retries = Retries(clock)
        self._jobs = Jobs(self.settings, retries)
        self._runs = JobRuns(self.settings, self._jobs, retries, self._refusals)

    def routes(self) -> list[Route]:
        routes = [
            *self._jobs.routes(),
            *self._runs.routes(),
            Route("GET", f"{BASE}/jobShapes", self.list_shapes, "list_shapes"),
            Route("GET", f"{BASE}/projects", self.list_projects, "list_projects"),
            Route("POST", f"{BASE}/projects", self.create_project, "create_project"),
            Route("GET", f"{BASE}/projects/{{project}}", self.get_project, "get_project"),
        ]
        return [replace(route, handler=partial(self._throttled, route.handler)) for route in routes]

    def _throttled(self, handler: Handler, call: Call) -> Answer:
        self.settings.throttle.check()
        return handler(call)

    def list_shapes(self, call: Call) -> Answer:
        self.settings.demand(call, "list_shapes", required(call.query, "compartmentId"))
        return page([shape.row(name) for name, shape in self.settings.shapes.items()], call.query, mark="name")

    def list_projects(self, call: Call) -> Answer:
        compartment = required(call.query, "compartmentId")
        self.settings.demand(call, "list_projects", compartment)
        known = self.settings.projects or {}
        rows = [self._project(project) for project, where in known.items() if where == compartment]
        return page(ordered(rows, call.query, "timeCreated"), call.query)

    def create_project(self, call: Call) -> Answer:
        said = call.said()
        compartment = required(said, "compartmentId")
        self.settings.demand(call, "create_project", compartment)
        project = f"ocid1.datascienceproject.oc1.iad.{secrets.token_hex(8)}"
        if self.settings.projects is not None:
            self.settings.projects[project] = compartment
        self._names[project] = str(said.get("displayName") or "")
        return json_answer(self._project(project), headers={"etag": "1"})

    def get_project(self, call: Call) -> Answer:
        project = call.parts["project"]
        self.settings.demand(call, "get_project", self.settings.compartment_of_project(project))
        return json_answer(self._project(project), headers={"etag": "1"})

    def _project(self, project: str) -> dict[str, Any]:
        return {
            "id": project,
            "timeCreated": moment(0),
            "displayName": self._names.get(project) or project.rpartition(".")[2],
            "description": None,
            "compartmentId": (self.settings.projects or {}).get(project, COMPARTMENT),
            "createdBy": "rehearsal",
            "lifecycleState": "ACTIVE",
            "freeformTags": {},
            "definedTags": {},
        }

    # What a test or a rehearsal does with it

    def runs(self) -> list[dict[str, Any]]:
        """All runs so far, as callers see them, in the order they were made."""
        with self.settings.changed:
            return [dict(run.row) for run in self._runs.all()]

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs so far, as callers see them."""
        with self.settings.changed:
            return self._jobs.rows()

    def wait(self, run: str | int, *states: str, within: float = 60.0) -> dict[str, Any]:
        """The run (by number, name or OCID) once it is in one of these states, or in any final one."""
        with self.settings.changed:
            found = self._runs.find(run)
            done = self.settings.changed.wait_for(lambda: found.state in {*states, *FINAL}, within)
            if not done:
                raise TimeoutError(f"the job run {run} is still {found.state}")
            return dict(found.row)

    def output(self, run: str | int) -> str:
        """What a run printed that has no log."""
        path = output_file(self.settings.folder, self._runs.find(run).id)
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def set_image(self, image: str, argv: Sequence[str]) -> None:
        """What an image runs whose job names no command."""
        self.settings.images = {**self.settings.images, image: list(argv)}

    def throttle(self, per_second: float | None) -> None:
        """So many requests a second are answered, the others with 429; None: all are."""
        self.settings.throttle.set(per_second)

    def delay(self, name: str, seconds: float, run: str | None = None) -> None:
        """How long a step takes from now on, for all runs or for the one of this display name or OCID."""
        self.settings.delays.set(name, seconds, run)

    def refuse_run(
        self,
        number: int,
        status: int = 400,
        code: str = "LimitExceeded",
        message: str = "The following service limits were exceeded.",
        times: int | None = 1,
    ) -> None:
        """The so-manieth run from now on (the next is 1) is refused; `times` for how many from there, None for all."""
        self._refusals.add(number, status, code, message, times)

    def kill_run(self, run: str | int, node: int | None = None) -> None:
        """SIGKILL to all processes of a run, or of one of its nodes: a machine that is lost."""
        with self.settings.changed:
            for each in self._runs.find(run).nodes:
                if each.machine is not None and node in (None, each.rank):
                    each.machine.kill()

    def need_attention(self, run: str | int, details: str = "The job run needs attention.") -> None:
        """Puts a run into the state NEEDS_ATTENTION; its processes go on."""
        with self.settings.changed:
            found = self._runs.find(run)
            if found.state in ("ACCEPTED", "IN_PROGRESS"):
                found.row.update({"lifecycleState": "NEEDS_ATTENTION", "lifecycleDetails": details})
                self.settings.changed.notify_all()

    def clear(self) -> None:
        """No refusals, no throttling."""
        self._refusals.clear()
        self.throttle(None)

    def controls(self) -> dict[str, Control]:
        """The same over HTTP, as an `OracleCloud` takes it."""

        def quota(said: Any) -> None:
            self.settings.quota.limits = {str(shape): int(count) for shape, count in said.items()}

        return {
            "delays": lambda said: self.delay(**said),
            "throttle": self.throttle,
            "quota": quota,
            "images": lambda said: self.set_image(**said),
            "refuse_run": lambda said: self.refuse_run(**said),
            "kill_run": lambda said: self.kill_run(**said),
            "need_attention": lambda said: self.need_attention(**said),
            "job_runs": lambda said: self.runs(),
            "jobs": lambda said: self.jobs(),
            "output": self.output,
            "clear_science": lambda said: self.clear(),
        }

    def close(self) -> None:
        """Ends all runs, at once."""
        self.settings.grace = 0.0
        self.settings.delays.end()
        for run in self._runs.all():
            self._end(run)
        if self._runs.principals is not None:
            self._runs.principals.close()

    def _end(self, run: Run) -> None:
        cancel(run, self.settings, "The rehearsal has ended.")
        with self.settings.changed:
            self.settings.changed.wait_for(lambda: run.gone, 15)

    def __enter__(self) -> DataScience:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
