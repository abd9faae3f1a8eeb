"""The jobs of the Data Science service: made, read, listed, changed, deleted, with their artifacts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .buckets import moment
from .data_science_fields import JOB, JOB_UPDATE, checked
from .data_science_limits import check_configuration, check_infrastructure
from .data_science_pages import filtered, ocid, ordered, page, required
from .data_science_retries import Retries
from .data_science_settings import Settings, nowhere
from .job_run_plan import Plan, plan
from .messages import Answer
from .routing import Call, Refusal, Route, json_answer

BASE = "/20190101"
_SUMMARY = (
    "id",
    "timeCreated",
    "createdBy",
    "projectId",
    "compartmentId",
    "displayName",
    "lifecycleState",
    "freeformTags",
    "definedTags",
)
_NAMED = re.compile(r'filename="?([^";/]+)"?')


@dataclass
class Job:
    """A job, with what was said when it was made."""

    id: str
    said: dict[str, Any]
    created_by: str
    created: float
    active_at: float
    """When it is ACTIVE, on the monotonic clock; so are the next two."""
    deleted_at: float | None = None
    forgotten_at: float | None = None
    artifact: tuple[str, bytes] | None = None
    version: int = 1

    @property
    def state(self) -> str:
        now = time.monotonic()
        if self.deleted_at is not None:
            return "DELETED" if now >= self.deleted_at else "DELETING"
        return "ACTIVE" if now >= self.active_at else "CREATING"

    @property
    def forgotten(self) -> bool:
        return self.forgotten_at is not None and time.monotonic() >= self.forgotten_at

    def row(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "timeCreated": moment(self.created),
            "createdBy": self.created_by,
            "displayName": f"job{int(self.created * 1000)}",
            "lifecycleDetails": None,
            "freeformTags": {},
            "definedTags": {},
            **self.said,
            "lifecycleState": self.state,
        }


class Jobs:
    """All jobs. `end_runs(job, delete)` is asked before a job is deleted: it refuses where runs are in the way."""

    def __init__(self, settings: Settings, retries: Retries) -> None:
        self._settings = settings
        self._retries = retries
        self._jobs: dict[str, Job] = {}
        self.end_runs: Callable[[Call, Job, bool], None] = lambda call, job, delete: None

    def routes(self) -> list[Route]:
        one, artifact = f"{BASE}/jobs/{{job}}", f"{BASE}/jobs/{{job}}/artifact"
        return [
            Route("POST", f"{BASE}/jobs", self.create, "create_job"),
            Route("GET", f"{BASE}/jobs", self.list, "list_jobs"),
            Route("GET", one, self.get, "get_job"),
            Route("PUT", one, self.update, "update_job"),
            Route("DELETE", one, self.delete, "delete_job"),
            Route("POST", artifact, self.create_artifact, "create_artifact", body_is_signed=False),
            Route("HEAD", f"{artifact}/content", self.head_artifact, "head_artifact"),
            Route("GET", f"{artifact}/content", self.get_artifact, "get_artifact"),
        ]

    def find(self, job: str) -> Job:
        with self._settings.changed:
            found = self._jobs.get(job)
            if found is None or found.forgotten:
                raise nowhere(f"job {job}")
            return found

    def rows(self) -> list[dict[str, Any]]:
        """All that are not forgotten, as callers see them."""
        return [job.row() for job in self._jobs.values() if not job.forgotten]

    def create(self, call: Call) -> Answer:
        said = checked(call.said(), JOB)
        self._settings.demand(call, "create_job", said["compartmentId"])
        made = self.find(self._retries.once(call, "create_job", said, lambda: self._make(call, said)))
        row = made.row()
        return _answer(made, {**row, "lifecycleState": "CREATING"} if row["lifecycleState"] == "ACTIVE" else row)

    def _make(self, call: Call, said: dict[str, Any]) -> str:
        self._check(call, said)
        now, delay = time.monotonic(), self._settings.delays.of("created")
        with self._settings.changed:
            job = ocid("datasciencejob", len(self._jobs) + 1)
            self._jobs[job] = Job(job, said, call.principal.id, self._settings.clock(), now + delay)
            return job

    def _check(self, call: Call, said: Mapping[str, Any]) -> None:
        settings = self._settings
        settings.compartment_of_project(said["projectId"])
        if not said.get("jobInfrastructureConfigurationDetails") and not said.get("jobNodeConfigurationDetails"):
            raise Refusal(400, "InvalidParameter", "jobInfrastructureConfigurationDetails is missing")
        intended = plan(said, {})
        check_plan(settings, intended)
        if intended.subnet:
            settings.check_subnet(call, intended.subnet, said["compartmentId"])
        if group := intended.logs.get("logGroupId"):
            settings.check_log_group(call, group, bool(intended.logs.get("enableAutoLogCreation")))

    def list(self, call: Call) -> Answer:
        self._settings.demand(call, "list_jobs", required(call.query, "compartmentId"))
        with self._settings.changed:
            rows = self.rows()
        names = ("compartmentId", "projectId", "id", "displayName", "lifecycleState", "createdBy")
        rows = [{name: row.get(name) for name in _SUMMARY} for row in filtered(rows, call.query, names)]
        return page(ordered(rows, call.query, "timeCreated"), call.query)

    def get(self, call: Call) -> Answer:
        job = self._asked(call, "get_job")
        return _answer(job, job.row())

    def update(self, call: Call) -> Answer:
        job = self._asked(call, "update_job")
        said = checked(call.said(), JOB_UPDATE)
        _check_match(call, job)
        if job.state != "ACTIVE":
            raise Refusal(409, "IncorrectState", f"the job is {job.state}")
        self._check(call, {**job.said, **said})
        with self._settings.changed:
            job.said, job.version = {**job.said, **said}, job.version + 1
        return _answer(job, job.row())

    def delete(self, call: Call) -> Answer:
        job = self._asked(call, "delete_job")
        _check_match(call, job)
        if job.deleted_at is not None:
            raise Refusal(409, "IncorrectState", f"the job is {job.state}")
        self.end_runs(call, job, call.query.get("deleteRelatedJobRuns", "").lower() == "true")
        now, delays = time.monotonic(), self._settings.delays
        with self._settings.changed:
            job.deleted_at = now + delays.of("deleted")
            job.forgotten_at = job.deleted_at + delays.of("forgotten")
        return Answer(204)

    # Artifacts

    def create_artifact(self, call: Call) -> Answer:
        job = self._asked(call, "create_artifact")
        if job.artifact is not None:
            raise Refusal(409, "Conflict", "the job has an artifact, which cannot be changed")
        named = _NAMED.search(call.header("content-disposition") or "")
        job.artifact = (named[1] if named else "artifact", call.request.content())
        return Answer(204)

    def head_artifact(self, call: Call) -> Answer:
        job = self._asked(call, "head_artifact")
        _, content = _artifact(job)
        return Answer(200, b"", {**_described(job), "content-length": str(len(content))})

    def get_artifact(self, call: Call) -> Answer:
        job = self._asked(call, "get_artifact")
        return Answer(200, _artifact(job)[1], _described(job))

    def _asked(self, call: Call, operation: str) -> Job:
        """The job of a call, to a caller who may do this."""
        job = self.find(call.parts["job"])
        self._settings.demand(call, operation, job.said["compartmentId"])
        return job


def check_plan(settings: Settings, intended: Plan) -> None:
    """What the service would not run, by its limits."""
    names = [group.name for group in intended.groups]
    if len(set(names)) < len(names):
        raise Refusal(400, "InvalidParameter", "two node groups have one name")
    for group in intended.groups:
        check_infrastructure(group.infrastructure, settings.shapes)
        check_configuration(group.configuration)
        if not 0 <= group.minimum <= group.replicas or group.replicas < 1:
            raise Refusal(400, "InvalidParameter", f"replicas and minimumSuccessReplicas of {group.name} do not fit")
    logs = intended.logs
    if logs.get("enableLogging") and not logs.get("logGroupId"):
        raise Refusal(400, "InvalidParameter", "logGroupId is missing, and logging is enabled")
    if logs.get("enableLogging") and not logs.get("logId") and not logs.get("enableAutoLogCreation"):
        raise Refusal(400, "InvalidParameter", "logId is missing, and logs are not created automatically")


def _answer(job: Job, row: dict[str, Any]) -> Answer:
    return json_answer(row, headers={"etag": str(job.version)})


def _check_match(call: Call, job: Job) -> None:
    if call.header("if-match") not in (None, "*", str(job.version)):
        raise Refusal(412, "NoEtagMatch", "the job has changed since")


def _artifact(job: Job) -> tuple[str, bytes]:
    if job.artifact is None:
        raise nowhere("the job has no artifact")
    return job.artifact


def _described(job: Job) -> dict[str, str]:
    name, _ = _artifact(job)
    return {
        "content-type": "application/octet-stream",
        "content-disposition": f'attachment; filename="{name}"',
        "etag": str(job.version),
        "last-modified": moment(job.created),
    }
