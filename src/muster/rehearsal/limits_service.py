"""Oracle's service of limits: how much of what a tenancy may have, and how much of that is free."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from .messages import Answer
from .oracle_cloud import Control
from .permits import Permit, Wish, check, everybody
from .routing import Call, Refusal, Route, json_answer

BASE = "/20190729"
SERVICE = "data-science"
LIMITS: Mapping[str, int] = {
    "job-count": 100,
    "job-run-count": 100,
    "notebook-session-count": 20,
    "ds-standard2-core-regional-count": 64,
    "ds-standard-e3-core-regional-count": 64,
    "ds-standard-e4-core-regional-count": 64,
    "ds-optimized3-core-regional-count": 32,
    "ds-gpu2-count": 0,
    "ds-gpu3-count": 0,
    "ds-gpu-a10-count": 2,
}
"""What a tenancy has to begin with. `notebook-session-count` is a name of the real service; how the others are spelled
there is assumed, which is why the doctor looks a shape's limit up by its family and hard-codes none."""


class Limits:
    """The limits of one tenancy in one region."""

    def __init__(self, permit: Permit = everybody, limits: Mapping[str, int] = LIMITS) -> None:
        self._permit = permit
        self._lock = threading.Lock()
        self._limits = dict(limits)
        self._used: dict[str, int] = {}

    def routes(self) -> list[Route]:
        availability = f"{BASE}/services/{{service}}/limits/{{limit}}/resourceAvailability"
        return [
            Route("GET", availability, self.get_availability, "get_availability"),
            Route("GET", f"{BASE}/limitDefinitions", self.list_definitions, "list_limits"),
            Route("GET", f"{BASE}/limitValues", self.list_values),
            Route("GET", f"{BASE}/services", self.list_services),
        ]

    def controls(self) -> dict[str, Control]:
        return {"limits": self.set_limits}

    def set_limits(self, limits: Mapping[str, int]) -> None:
        """Other limits than those there are, by name."""
        with self._lock:
            self._limits.update(limits)

    def take(self, name: str, count: int) -> None:
        """So much more is in use (or less, if negative). More than the limit is refused as the service does."""
        with self._lock:
            used = self._used.get(name, 0) + count
            if count > 0 and used > self._limits.get(name, 0):
                raise Refusal(400, "LimitExceeded", f"The service limit {name} of {SERVICE} is exceeded")
            self._used[name] = max(used, 0)

    def available(self, name: str) -> int:
        with self._lock:
            return max(self._limits[name] - self._used.get(name, 0), 0)

    def get_availability(self, call: Call) -> Answer:
        check(self._permit, call.principal, Wish("RESOURCE_AVAILABILITY_READ", call.query.get("compartmentId", "")))
        name = call.parts["limit"]
        if call.parts["service"] != SERVICE or name not in self._limits:
            raise Refusal(404, "NotAuthorizedOrNotFound", "Authorization failed or requested resource not found.")
        free = self.available(name)
        return json_answer({"used": self._used.get(name, 0), "available": free, "effectiveQuotaValue": None})

    def list_definitions(self, call: Call) -> Answer:
        self._check_list(call)
        rows = [
            {
                "name": name,
                "serviceName": SERVICE,
                "description": name,
                "scopeType": "REGION",
                "areQuotasSupported": True,
                "isResourceAvailabilitySupported": True,
                "isDeprecated": False,
            }
            for name in self._asked(call)
        ]
        return json_answer(rows)

    def list_values(self, call: Call) -> Answer:
        self._check_list(call)
        rows = [{"name": name, "scopeType": "REGION", "value": self._limits[name]} for name in self._asked(call)]
        return json_answer(rows)

    def list_services(self, call: Call) -> Answer:
        self._check_list(call)
        return json_answer([{"name": SERVICE, "description": "Data Science"}])

    def _asked(self, call: Call) -> list[str]:
        if call.query.get("serviceName", SERVICE) != SERVICE:
            return []
        return [name for name in sorted(self._limits) if name == call.query.get("name", name)]

    def _check_list(self, call: Call) -> None:
        check(self._permit, call.principal, Wish("LIMITS_INSPECT", call.query.get("compartmentId", "")))
