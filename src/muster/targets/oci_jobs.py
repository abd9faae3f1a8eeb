"""One cluster's job and runs in Oracle's Data Science: made once however often it is asked, seen, cancelled, deleted.

Each create carries a retry token made from the run's id, so that a reply which was lost costs nothing: the same
request again gives the same thing. A launcher that died is followed by one that looks first, by tag.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..clouds.oci_services import Services
from ..errors import CloudError
from ..workdir.parallel import at_once
from .base import Say, Sight
from .oci_payloads import TAG, TAG_NODE

FINAL = frozenset({"SUCCEEDED", "FAILED", "CANCELED", "DELETED"})
"""States of a run in which no machine of it is left."""
_GONE = frozenset({"DELETED", "DELETING"})
PARALLEL = 16
"""Requests at once: more are throttled."""
_ENDED_WITHIN = 900.0
"""Seconds that runs which were cancelled are waited for."""
_ACTIVE_WITHIN = 600.0
"""Seconds that a new job is waited for."""


def token(run: str, what: str) -> str:
    """For `opc-retry-token`: the same for the same intent."""
    return f"muster-{hashlib.sha256(f'{run}/{what}'.encode()).hexdigest()[:48]}"


class Jobs:
    """The jobs of one compartment."""

    def __init__(self, services: Services, compartment: str) -> None:
        self._services, self._compartment = services, compartment

    def _ask(self, operation: str, *values: Any, **settings: Any) -> Any:
        return self._services.call("data_science", operation, *values, **settings).data

    # --- making ------------------------------------------------------------------------------------------

    def make(self, payload: Mapping[str, Any], run: str, look: bool) -> str:
        """The job of a run; `look` where another launcher may have made it already. Its OCID, once it is active."""
        found = self.find(run, str(payload["displayName"])) if look else None
        if found is None:
            found = self._made(payload, run)
        until = time.monotonic() + _ACTIVE_WITHIN
        for pause in _pauses(0.3, 5.0):
            state = found["lifecycleState"]
            if state == "ACTIVE":
                return str(found["id"])
            if state != "CREATING" or time.monotonic() > until:
                raise CloudError(f"job {found['id']} is {state}", told=found.get("lifecycleDetails") or "")
            time.sleep(pause)
            found = self._ask("get_job", found["id"])
        raise AssertionError  # the pauses have no end

    def _made(self, payload: Mapping[str, Any], run: str) -> Any:
        try:
            return self._ask("create_job", dict(payload), opc_retry_token=token(run, "job"))
        except CloudError as error:
            # The token was used for another payload, by a launcher before us: what it made is there.
            if error.status == 409 and (found := self.find(run, str(payload["displayName"]))):
                return found
            raise

    def make_run(self, payload: Mapping[str, Any], run: str, attempt: int = 1) -> Any:
        """The job run of one node. `attempt` counts the machines that the node had."""
        node = payload["freeformTags"][TAG_NODE]
        return self._ask("create_job_run", dict(payload), opc_retry_token=token(run, f"{node}/{attempt}"))

    # --- seeing ------------------------------------------------------------------------------------------

    def find(self, run: str, name: str) -> Any:
        """The job of a run by its tag, None if there is none."""
        listed = self._services.pages("data_science", "list_jobs", self._compartment, display_name=name)
        return next((job for job in listed if _tagged(job, run) and job["lifecycleState"] not in _GONE), None)

    def tagged(self) -> Iterable[Any]:
        """Every job that a Muster made."""
        for job in self._services.pages("data_science", "list_jobs", self._compartment, limit=100):
            if TAG in (job.get("freeformTags") or {}) and job["lifecycleState"] not in _GONE:
                yield job

    def runs(self, job: str) -> list[Any]:
        """The job's runs, the oldest first."""
        found = self._services.pages("data_science", "list_job_runs", self._compartment, job_id=job, limit=100)
        return sorted(found, key=lambda run: str(run.get("timeAccepted") or ""))

    # --- ending ------------------------------------------------------------------------------------------

    def cancel(self, runs: Sequence[Any]) -> None:
        """Cancels all of these that have not ended, at once."""
        todo = [run["id"] for run in runs if run["lifecycleState"] not in FINAL | {"CANCELING"}]
        for _ in at_once(PARALLEL, self._cancel, todo):
            pass

    def _cancel(self, run: str) -> None:
        try:
            self._ask("cancel_job_run", run)
        except CloudError as error:
            if error.status != 409 and not (error.status == 404 and self._has_ended(run)):
                raise

    def _has_ended(self, run: str) -> bool:
        """Who may not cancel a run is told the same as who asks for one that is not there."""
        try:
            return self._ask("get_job_run", run)["lifecycleState"] in FINAL
        except CloudError as error:
            if error.status != 404:
                raise
            return True

    def take_away(self, job: str, say: Say, grace: float = 0.0, busy: Callable[[], bool] = lambda: False) -> None:
        """Ends all runs of a job, waits until they have, and deletes the job; others may be doing so as well.

        Runs are left `grace` seconds to end by themselves, and longer while they are `busy` bringing things home.
        """
        since, asked = time.monotonic(), 0.0
        for pause in _pauses(0.5, 5.0):
            waited = time.monotonic() - since
            late = bool(asked) and time.monotonic() - asked > _ENDED_WITHIN
            try:
                living = [run for run in self.runs(job) if run["lifecycleState"] not in FINAL]
                if not living and self._deleted(job):
                    return
                if living and (asked or (waited >= grace and not busy())):
                    if not asked:
                        say(f"ending {len(living)} job run{'s' if len(living) > 1 else ''}")
                    asked = asked or time.monotonic()
                    self.cancel(living)
            except CloudError as error:
                if late or error.status in (401, 404) or waited > grace + _ENDED_WITHIN:
                    raise
                time.sleep(pause)  # the rest of them is asked all the same, at the next look
                continue
            if late:
                names = ", ".join(run["displayName"] for run in living) or "another one"
                raise CloudError(f"these job runs have not ended: {names}", "Ask again: `muster sweep`.")
            time.sleep(pause)

    def _deleted(self, job: str) -> bool:
        """False where a launcher made one more run just now, which is in the way."""
        try:
            self._ask("delete_job", job)
        except CloudError as error:
            if error.status not in (404, 409):
                raise
            gone = self.is_gone(job)
            if error.status == 404 and not gone:
                raise  # it is there, but not for us to delete
            return gone
        return True

    def is_gone(self, job: str) -> bool:
        try:
            return self._ask("get_job", job)["lifecycleState"] in _GONE
        except CloudError as error:
            if error.status != 404:
                raise
            return True


def sight(run: Mapping[str, Any]) -> Sight:
    """A job run as whoever looks at the cluster wants it."""
    return Sight(
        (run.get("freeformTags") or {}).get(TAG_NODE, ""),
        run["id"],
        run["lifecycleState"],
        run["lifecycleState"] in FINAL,
        run.get("lifecycleDetails") or "",
    )


def attempts(runs: Iterable[Mapping[str, Any]], node: str) -> int:
    """How many machines a node has had."""
    return sum(1 for run in runs if sight(run).node == node)


def latest(runs: Iterable[Mapping[str, Any]]) -> dict[str, Sight]:
    """The newest run of each node, of those in the order of their making."""
    return {seen.node: seen for seen in map(sight, runs)}


def _tagged(job: Mapping[str, Any], run: str) -> bool:
    return (job.get("freeformTags") or {}).get(TAG) == run


def _pauses(first: float, slowest: float) -> Iterable[float]:
    pause = first
    while True:
        yield pause * random.uniform(0.75, 1.0)  # noqa: S311
        pause = min(1.5 * pause, slowest)
