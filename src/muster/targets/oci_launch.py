"""Making a cluster in Oracle's Data Science: all of it or nothing, and never twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import CloudError, LaunchError, MusterError
from ..node.asking import begin
from ..workdir.parallel import at_once
from ..workdir.run import RunFolder
from ..workdir.twin import point
from .base import RUN, Plan, Resource, Say
from .oci_jobs import PARALLEL, Jobs, attempts, latest
from .oci_payloads import JOB, rendered
from .oci_words import advice


class Launch:
    """One attempt to make what a plan says. A later one finds what an earlier one made."""

    def __init__(self, jobs: Jobs, plan: Plan, folder: RunFolder) -> None:
        self._jobs, self._plan, self._folder = jobs, plan, folder
        self._known: dict[str, str] = {}
        self._failed = threading.Event()
        self.job: str | None = None

    def __call__(self, known: Mapping[str, str], again: bool) -> dict[str, str]:
        """Makes it, with what is known by now. The OCID of the job run of each node.

        `again`: another launcher was here before, and may have made some of it.
        """
        self._known = dict(known)
        job, *runs = self._plan.resources
        try:
            self.job = self._jobs.make(rendered(job.payload, self._known), self._folder.run, look=again)
        except CloudError as error:
            raise _refusal("the job", self._plan, error) from error
        self._known[JOB] = self.job
        # Whoever knows only the job's OCID, as users of ADS do, finds the run by it.
        writing = [begin(point, self._folder.store, self.job, self._folder.run)]
        writing.append(begin(self._folder.write_cloud, {"job": self.job}))
        there = latest(self._jobs.runs(self.job)) if again else {}
        wanted = [run for run in runs if run.name not in there]
        made = {name: seen.id for name, seen in there.items()}
        refusals: list[LaunchError] = []
        for name, found in at_once(PARALLEL, self._make, wanted):
            if isinstance(found, LaunchError):
                refusals.append(found)
            elif found:
                made[name] = found
        for one in writing:
            one.result()
        if refusals:
            raise refusals[0]
        return made

    def _make(self, run: Resource) -> tuple[str, str | LaunchError | None]:
        if self._failed.is_set():
            return run.name, None  # all is taken back anyway
        try:
            return run.name, str(self._jobs.make_run(rendered(run.payload, self._known), self._folder.run)["id"])
        except CloudError as error:
            self._failed.set()
            return run.name, _refusal(run.name, self._plan, error)
        except MusterError as error:
            self._failed.set()
            return run.name, LaunchError(f"{run.name}: {error.message}. All of the launch is taken back", error.fix)

    def take_back(self, say: Say) -> None:
        """Cancels all runs at once and deletes the job. What a lost reply hid is found by listing."""
        if self.job is None:
            name = self._plan.settings.get("display_name") or RUN
            found = self._jobs.find(self._folder.run, name.replace(RUN, self._folder.run))
            self.job = found["id"] if found else None
        if self.job:
            self._jobs.take_away(self.job, say)


def _refusal(what: str, plan: Plan, error: CloudError) -> LaunchError:
    message = f"Oracle's cloud refused {what}: {error.told or error.message}"
    named = f" ({error.code})" if error.code else ""
    return LaunchError(f"{message}{named}. All of the launch is taken back", advice(error, plan))


def more_workers(
    jobs: Jobs, plan: Plan, run: str, job: str, workers: int, payload: Callable[[str], dict[str, Any]]
) -> list[str]:
    """Makes job runs until there are so many workers; the names of the new ones."""
    runs = jobs.runs(job)
    seen = latest(runs)
    living = [name for name, one in seen.items() if name.startswith("worker-") and not one.final]
    names = [f"worker-{number}" for number in range(1, plan.job.workers.max + 1)]
    absent = [name for name in names if name not in living][: max(0, workers - len(living))]

    def make(name: str) -> str:
        jobs.make_run(payload(name), run, attempts(runs, name) + 1)
        return name

    return sorted(at_once(PARALLEL, make, absent))
