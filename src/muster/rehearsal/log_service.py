"""Oracle's Logging: groups and logs, entries that are pushed into them, and their search.

>>> logs = LogService(permit)
>>> group = logs.make_group("training", compartment)
>>> log = logs.make_log(group, "runs")
>>> logs.write(log, "a line", source=run)

Entries can be searched `latency` seconds after they came.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from .buckets import moment
from .data_science_pages import filtered, ocid, ordered, page, required
from .data_science_permits import demand
from .log_service_query import Stream, look_up, parse
from .messages import Answer
from .oracle_cloud import Control
from .permits import Permit, everybody
from .principals import COMPARTMENT, TENANCY
from .routing import Call, Refusal, Route, json_answer

LONGEST_WINDOW = 14 * 24 * 3600
LONGEST_ENTRY = 10_000
MANAGEMENT, SEARCH, INGESTION = "/20200531", "/20190909", "/20200831"


class LogService:
    """The logs of one tenancy, in memory."""

    def __init__(
        self,
        permit: Permit = everybody,
        clock: Callable[[], float] = time.time,
        tenancy: str = TENANCY,
        latency: float = 0.0,
    ) -> None:
        self.permit = permit
        self.latency = latency
        self._clock = clock
        self._tenancy = tenancy
        self._groups: dict[str, dict[str, Any]] = {}
        self._logs: dict[str, dict[str, Any]] = {}
        self._entries: dict[str, list[dict[str, Any]]] = {}
        self._work: dict[str, dict[str, Any]] = {}
        self._number = 0
        self._lock = threading.RLock()

    def routes(self) -> list[Route]:
        groups, one = f"{MANAGEMENT}/logGroups", f"{MANAGEMENT}/logGroups/{{group}}"
        return [
            Route("POST", f"{INGESTION}/logs/{{log}}/actions/push", self.push, "push_logs"),
            Route("POST", f"{SEARCH}/search", self.search, "search_logs"),
            Route("GET", groups, self.list_groups, "list_log_groups"),
            Route("POST", groups, self.create_group, "create_log_group"),
            Route("GET", one, self.get_group, "get_log_group"),
            Route("DELETE", one, self.delete_group, "delete_log_group"),
            Route("GET", f"{one}/logs", self.list_logs, "list_logs"),
            Route("POST", f"{one}/logs", self.create_log, "create_log"),
            Route("GET", f"{one}/logs/{{log}}", self.get_log, "get_log"),
            Route("DELETE", f"{one}/logs/{{log}}", self.delete_log, "delete_log"),
            Route("GET", f"{MANAGEMENT}/workRequests/{{work}}", self.get_work, "get_log_work"),
        ]

    def controls(self) -> dict[str, Control]:
        def latency(said: Any) -> None:
            self.latency = float(said)

        return {
            "log_groups": lambda said: self.make_group(**said),
            "logs": lambda said: self.make_log(**said),
            "log_latency": latency,
        }

    # What others of this cloud do

    def make_group(self, name: str, compartment: str = COMPARTMENT, group: str = "", **tags: Any) -> str:
        """A log group; its id may be given."""
        with self._lock:
            made = group or self._ocid("loggroup")
            row = {"compartmentId": compartment, "description": None, "freeformTags": {}, "definedTags": {}, **tags}
            self._groups[made] = {**row, **self._born(made, name)}
            return made

    def make_log(self, group: str, name: str, log: str = "", **tags: Any) -> str:
        """A custom log in a group."""
        with self._lock:
            made = log or self._ocid("log")
            row = {"logType": "CUSTOM", "isEnabled": True, "retentionDuration": 30, "configuration": None}
            where = {"logGroupId": group, "tenancyId": self._tenancy, "compartmentId": self.compartment_of(group)}
            self._logs[made] = {**row, **tags, **where, **self._born(made, name)}
            self._entries[made] = []
            return made

    def compartment_of(self, group: str) -> str:
        """Where a group lies; 404 where there is none."""
        return str(self._group(group)["compartmentId"])

    def group_of(self, log: str) -> str:
        """The group of a log; 404 where there is none."""
        with self._lock:
            if log not in self._logs:
                raise _nowhere()
            return str(self._logs[log]["logGroupId"])

    def write(self, log: str, text: str, source: str, kind: str = "custom", subject: str = "") -> None:
        """One entry, now."""
        self._keep(log, {"source": source, "type": kind, "subject": subject}, uuid.uuid4().hex, text, self._clock())

    # Ingestion and search

    def push(self, call: Call) -> Answer:
        log = self._log(call.parts["log"])
        self._demand(call, "push_logs", log["logGroupId"])
        said = call.said()
        if said.get("specversion") != "1.0":
            raise Refusal(400, "InvalidParameter", "specversion must be 1.0")
        for batch in said.get("logEntryBatches") or []:
            self._push(log["id"], batch)
        return Answer(200)

    def _push(self, log: str, batch: dict[str, Any]) -> None:
        for name in ("entries", "source", "type", "defaultlogentrytime"):
            if not batch.get(name):
                raise Refusal(400, "InvalidParameter", f"{name} is missing")
        for entry in batch["entries"]:
            if entry.get("data") is None or not entry.get("id"):
                raise Refusal(400, "InvalidParameter", "an entry needs data and id")
            at = _seconds(entry.get("time") or batch["defaultlogentrytime"])
            self._keep(log, batch, entry["id"], entry["data"], at)

    def _keep(self, log: str, said: dict[str, Any], entry: str, text: str, at: float) -> None:
        with self._lock:
            if log not in self._logs:
                return
            now, group = self._clock(), self._logs[log]["logGroupId"]
            where = {"logid": log, "loggroupid": group, "compartmentid": self.compartment_of(group)}
            content = {
                "data": {"message": text[:LONGEST_ENTRY]},
                "id": entry,
                "oracle": {**where, "tenantid": self._tenancy, "ingestedtime": moment(now)},
                "source": said["source"],
                "specversion": "1.0",
                "subject": said.get("subject"),
                "time": moment(at),
                "type": said["type"],
            }
            self._number += 1
            row = {"datetime": int(at * 1000), "logContent": content, "_number": self._number, "_came": now}
            self._entries[log].append(row)

    def search(self, call: Call) -> Answer:
        said = call.said()
        start, end = (_seconds(required(said, name)) for name in ("timeStart", "timeEnd"))
        if not 0 <= end - start <= LONGEST_WINDOW:
            raise Refusal(400, "InvalidParameter", "The time range cannot be longer than 14 days")
        query = parse(required(said, "searchQuery"))
        with self._lock:
            logs = {log: None for stream in query.streams for log in self._of(call, stream)}
            rows = [row for log in logs for row in self._entries[log] if self._visible(row, start, end)]
        found = [row for row in rows if query.takes(row)]
        found.sort(key=lambda row: (look_up(row, query.sort_by) or 0, row["_number"]), reverse=query.falling)
        return page(found, call.query, 1000, _response, "_number")

    def _visible(self, row: dict[str, Any], start: float, end: float) -> bool:
        at, came = float(row["datetime"]), float(row["_came"])
        return start * 1000 <= at <= end * 1000 and came + self.latency <= self._clock()

    def _of(self, call: Call, stream: Stream) -> list[str]:
        """The logs of a stream, to a caller who may read them."""
        if stream.group:
            group = self._group(stream.group)
            self._demand(call, "search_logs", stream.group)
            if group["compartmentId"] != stream.compartment or (stream.log and stream.log not in self._logs):
                raise _nowhere()
        else:
            demand(self.permit, call.principal, "search_logs", stream.compartment)
        return [
            log
            for log, row in self._logs.items()
            if row["compartmentId"] == stream.compartment
            and stream.group in ("", row["logGroupId"])
            and stream.log in ("", log)
        ]

    # Management

    def list_groups(self, call: Call) -> Answer:
        compartment = required(call.query, "compartmentId")
        demand(self.permit, call.principal, "list_log_groups", compartment)
        rows = filtered(self._groups.values(), call.query, ("compartmentId", "displayName"))
        return page(ordered(rows, call.query, "timeCreated"), call.query, 1000)

    def create_group(self, call: Call) -> Answer:
        said = call.said()
        compartment, name = required(said, "compartmentId"), required(said, "displayName")
        demand(self.permit, call.principal, "create_log_group", compartment)
        if filtered(self._groups.values(), said, ("compartmentId", "displayName")):
            raise Refusal(409, "Conflict", f"there is a log group {name} already")
        tags = {field: said[field] for field in ("description", "freeformTags", "definedTags") if said.get(field)}
        return self._accepted("CREATE_LOG_GROUP", "loggroup", self.make_group(name, compartment, **tags))

    def get_group(self, call: Call) -> Answer:
        group = self._group(call.parts["group"])
        self._demand(call, "get_log_group", group["id"])
        return json_answer(group)

    def delete_group(self, call: Call) -> Answer:
        group = self._group(call.parts["group"])["id"]
        self._demand(call, "delete_log_group", group)
        with self._lock:
            if any(log["logGroupId"] == group for log in self._logs.values()):
                raise Refusal(409, "Conflict", "the log group has logs")
            del self._groups[group]
        return self._accepted("DELETE_LOG_GROUP", "loggroup", group)

    def list_logs(self, call: Call) -> Answer:
        group = self._group(call.parts["group"])["id"]
        self._demand(call, "list_logs", group)
        rows = [log for log in self._logs.values() if log["logGroupId"] == group]
        rows = filtered(rows, call.query, ("displayName", "logType", "lifecycleState"))
        return page(ordered(rows, call.query, "timeCreated"), call.query, 1000)

    def create_log(self, call: Call) -> Answer:
        group, said = self._group(call.parts["group"])["id"], call.said()
        self._demand(call, "create_log", group)
        name = required(said, "displayName")
        tags = {field: said[field] for field in ("isEnabled", "retentionDuration", "freeformTags") if field in said}
        return self._accepted("CREATE_LOG", "log", self.make_log(group, name, **tags))

    def get_log(self, call: Call) -> Answer:
        log = self._log(call.parts["log"])
        self._demand(call, "get_log", log["logGroupId"])
        if log["logGroupId"] != call.parts["group"]:
            raise _nowhere()
        return json_answer(log)

    def delete_log(self, call: Call) -> Answer:
        log = self._log(call.parts["log"])
        self._demand(call, "delete_log", log["logGroupId"])
        with self._lock:
            self._logs.pop(log["id"], None)
            self._entries.pop(log["id"], None)
        return self._accepted("DELETE_LOG", "log", log["id"])

    def get_work(self, call: Call) -> Answer:
        if call.parts["work"] not in self._work:
            raise _nowhere()
        return json_answer(self._work[call.parts["work"]])

    def _accepted(self, operation: str, kind: str, made: str) -> Answer:
        """These operations are answered before they are done, with the id of a work request."""
        with self._lock:
            work = self._ocid("logworkrequest")
            action = "DELETED" if operation.startswith("DELETE") else "CREATED"
            resource = {"entityType": kind, "actionType": action, "identifier": made, "entityUri": None}
            done = {"status": "SUCCEEDED", "percentComplete": 100.0, "resources": [resource]}
            times = {name: moment(self._clock()) for name in ("timeAccepted", "timeStarted", "timeFinished")}
            self._work[work] = {"id": work, "operationType": operation, **done, **times}
        return Answer(202, b"", {"opc-work-request-id": work})

    def _group(self, group: str) -> dict[str, Any]:
        with self._lock:
            if group not in self._groups:
                raise _nowhere()
            return self._groups[group]

    def _log(self, log: str) -> dict[str, Any]:
        self.group_of(log)
        return self._logs[log]

    def _demand(self, call: Call, operation: str, group: str) -> None:
        about = {"target.loggroup.id": group}
        demand(self.permit, call.principal, operation, self.compartment_of(group), about)

    def _ocid(self, kind: str) -> str:
        self._number += 1
        return ocid(kind, self._number)

    def _born(self, made: str, name: str) -> dict[str, Any]:
        now = moment(self._clock())
        return {
            "id": made,
            "displayName": name,
            "lifecycleState": "ACTIVE",
            "timeCreated": now,
            "timeLastModified": now,
        }


def _response(rows: list[dict[str, Any]]) -> dict[str, Any]:
    results = [{"data": {name: value for name, value in row.items() if not name.startswith("_")}} for row in rows]
    return {"results": results, "summary": {"resultCount": len(rows), "fieldCount": None}}


def _seconds(text: str) -> float:
    try:
        at = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError as reason:
        raise Refusal(400, "InvalidParameter", f"{text} is not a time") from reason
    return (at if at.tzinfo else at.replace(tzinfo=timezone.utc)).timestamp()


def _nowhere() -> Refusal:
    return Refusal(404, "NotAuthorizedOrNotFound", "Authorization failed or requested resource not found.")
