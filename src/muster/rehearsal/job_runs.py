"""The job runs of the Data Science service: made, read, listed, changed, canceled, deleted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from .buckets import moment
from .data_science_fields import RUN, RUN_UPDATE, checked
from .data_science_jobs import BASE, Job, Jobs, check_plan
from .data_science_limits import nodes_by_shape
from .data_science_pages import filtered, ocid, ordered, page, required
from .data_science_permits import demand
from .data_science_refusals import Refusals
from .data_science_retries import Retries
from .data_science_settings import Settings, nowhere
from .identity import Principal
from .job_run_life import CANCELABLE, FINAL, Life, Run, cancel
from .job_run_node import Node
from .job_run_plan import Plan, plan
from .job_run_principal import RunPrincipals
from .messages import Answer
from .routing import Call, Refusal, Route, json_answer

ASKED = "The job run was canceled at the request of {}."
_SUMMARY = (
    "id",
    "timeAccepted",
    "timeStarted",
    "timeFinished",
    "createdBy",
    "projectId",
    "compartmentId",
    "jobId",
    "displayName",
    "lifecycleState",
    "lifecycleDetails",
    "freeformTags",
    "definedTags",
)


class JobRuns:
    """All runs of all jobs."""

    def __init__(self, settings: Settings, jobs: Jobs, retries: Retries, refusals: Refusals) -> None:
        self._settings = settings
        self._jobs = jobs
        self._retries = retries
        self._refusals = refusals
        self._runs: dict[str, Run] = {}
        identity, seconds = settings.identity, settings.token_seconds
        self.principals = RunPrincipals(identity, settings.region, seconds) if identity is not None else None
        jobs.end_runs = self.end_of_job

    def routes(self) -> list[Route]:
        one = f"{BASE}/jobRuns/{{run}}"
        return [
            Route("POST", f"{BASE}/jobRuns", self.create, "create_run"),
            Route("GET", f"{BASE}/jobRuns", self.list, "list_runs"),
            Route("GET", one, self.get, "get_run"),
            Route("PUT", one, self.update, "update_run"),
            Route("DELETE", one, self.delete, "delete_run"),
            Route("POST", f"{one}/actions/cancelJobRun", self.cancel, "cancel_run"),
        ]

    def find(self, which: int | str) -> Run:
        """The run of this number (from 1), OCID or display name (then the newest)."""
        with self._settings.changed:
            found = [run for run in self._runs.values() if run.called(which) and not run.forgotten]
        if not found:
            raise nowhere(f"job run {which}")
        return found[-1]

    def all(self) -> list[Run]:
        with self._settings.changed:
            return list(self._runs.values())

    # Making one

    def create(self, call: Call) -> Answer:
        said = checked(call.said(), RUN)
        self._settings.demand(call, "create_run", said["compartmentId"])
        made = self._retries.once(call, "create_run", said, lambda: self._make(call, said))
        return json_answer(self._row(self.find(made)), headers={"etag": "1"})

    def _make(self, call: Call, said: dict[str, Any]) -> str:
        settings = self._settings
        job = self._jobs.find(said["jobId"])
        if job.state != "ACTIVE":
            raise Refusal(409, "IncorrectState", f"the job is {job.state}, and must be ACTIVE")
        intended = plan(job.said, said)
        self._check(call, said, intended)
        self._refusals.check()
        wanted = nodes_by_shape(intended.shapes())
        settings.quota.take(wanted)
        with settings.changed:
            number = len(self._runs) + 1
            row = self._first_row(call, said, job, ocid("datasciencejobrun", number), intended)
            folder = settings.folder / "runs" / str(number)
            run = Run(number, job, row, intended, f"http://{call.header('host')}", folder)
            run.nodes = list(_nodes(run))
            self._runs[run.id] = run
        Life(run, settings, self.principals, partial(settings.quota.give_back, wanted)).start()
        return run.id

    def _check(self, call: Call, said: Mapping[str, Any], intended: Plan) -> None:
        settings = self._settings
        settings.compartment_of_project(said["projectId"])
        check_plan(settings, intended)
        if intended.subnet:
            where = settings.check_subnet(call, intended.subnet, said["compartmentId"])
            service = Principal("datascience", settings.tenancy, "service")
            demand(settings.permit, service, "attach_node", where)
        if group := intended.logs.get("logGroupId"):
            settings.check_log_group(call, group, bool(intended.logs.get("enableAutoLogCreation")))

    def _first_row(self, call: Call, said: dict[str, Any], job: Job, made: str, intended: Plan) -> dict[str, Any]:
        now = self._settings.clock()
        name = f"jobrun{int(now * 1000)}"
        return {
            "id": made,
            "timeAccepted": moment(now),
            "timeStarted": None,
            "timeFinished": None,
            "createdBy": call.principal.id,
            "displayName": name,
            "jobConfigurationOverrideDetails": {"jobType": "DEFAULT"},
            "jobInfrastructureConfigurationDetails": dict(intended.groups[0].infrastructure),
            "jobStorageMountConfigurationDetailsList": job.said.get("jobStorageMountConfigurationDetailsList") or [],
            "logDetails": self._log(intended.logs, str(said.get("displayName", name))),
            "freeformTags": {},
            "definedTags": {},
            **said,
            "lifecycleState": "ACCEPTED",
            "lifecycleDetails": None,
        }

    def _log(self, said: Mapping[str, Any], name: str) -> dict[str, str] | None:
        """Where the run logs; a log is made for it where the job says so."""
        if not said.get("enableLogging") or self._settings.logs is None:
            return None
        group, log = str(said["logGroupId"]), str(said.get("logId", ""))
        if said.get("enableAutoLogCreation") or not log:
            log = self._settings.logs.make_log(group, name)
        return {"logGroupId": group, "logId": log}

    # Reading, changing, ending

    def list(self, call: Call) -> Answer:
        self._settings.demand(call, "list_runs", required(call.query, "compartmentId"))
        with self._settings.changed:
            rows = [dict(run.row) for run in self._runs.values() if not run.forgotten]
        names = ("compartmentId", "jobId", "id", "displayName", "lifecycleState", "createdBy")
        rows = [{name: row.get(name) for name in _SUMMARY} for row in filtered(rows, call.query, names)]
        return page(ordered(rows, call.query, "timeAccepted"), call.query)

    def get(self, call: Call) -> Answer:
        return json_answer(self._row(self._asked(call, "get_run")), headers={"etag": "1"})

    def update(self, call: Call) -> Answer:
        run, said = self._asked(call, "update_run"), checked(call.said(), RUN_UPDATE)
        with self._settings.changed:
            run.row.update(said)
        return json_answer(self._row(run), headers={"etag": "1"})

    def cancel(self, call: Call) -> Answer:
        run = self._asked(call, "cancel_run")
        with self._settings.changed:
            if run.state not in CANCELABLE:
                raise Refusal(409, "IncorrectState", f"the job run is {run.state}, and cannot be canceled")
            cancel(run, self._settings, ASKED.format(call.principal.id))
        return Answer(204)

    def delete(self, call: Call) -> Answer:
        run = self._asked(call, "delete_run")
        with self._settings.changed:
            if run.state not in FINAL or run.state == "DELETED":
                raise Refusal(409, "IncorrectState", f"the job run is {run.state}, and cannot be deleted")
            self._delete(run)
        return Answer(204)

    def end_of_job(self, call: Call, job: Job, delete: bool) -> None:
        """Before a job is deleted: its runs go too, or must have ended."""
        with self._settings.changed:
            runs = [run for run in self._runs.values() if run.job is job and run.state != "DELETED"]
            if not delete:
                if any(run.state not in FINAL for run in runs):
                    raise Refusal(409, "IncorrectState", "the job has job runs that are in progress")
                return
            for run in runs:
                self._settings.demand(call, "delete_run", run.row["compartmentId"])
            for run in runs:
                self._delete(run)
                cancel(run, self._settings, "The job was deleted.")

    def _delete(self, run: Run) -> None:
        run.vanishes = True
        if run.state in FINAL:
            run.row["lifecycleState"] = "DELETED"
        run.forgotten_at = time.monotonic() + self._settings.delays.of("forgotten")
        self._settings.changed.notify_all()

    def _asked(self, call: Call, operation: str) -> Run:
        """The run of a call, to a caller who may do this."""
        run = self._runs.get(call.parts["run"])
        if run is None or run.forgotten:
            raise nowhere(f"job run {call.parts['run']}")
        self._settings.demand(call, operation, run.row["compartmentId"])
        return run

    def _row(self, run: Run) -> dict[str, Any]:
        with self._settings.changed:
            return dict(run.row)


def _nodes(run: Run) -> list[Node]:
    places = [(group, replica) for group in run.plan.groups for replica in range(group.replicas)]
    return [Node(group, replica, rank, run.folder / str(rank)) for rank, (group, replica) in enumerate(places)]
