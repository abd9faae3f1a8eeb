"""Ending what nobody needs any more on Oracle's cloud: found by its tags, whoever launched it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ..clouds.moments import seconds
from ..errors import CloudError, MusterError
from ..workdir.opening import open_store
from ..workdir.parallel import at_once
from ..workdir.records import EXIT_CODES, End, Verdict, fold
from ..workdir.run import RunFolder
from .base import Say, Swept
from .oci_jobs import FINAL, Jobs
from .oci_payloads import MARGIN, TAG, TAG_MINUTES, TAG_UNTIL

_NEW = 900.0
"""Seconds in which a job without runs may still be waiting for its launcher."""
_SETTLED = 120.0
"""Seconds in which a launcher makes another machine for a node that was lost."""
_HOME = 900.0
"""Seconds after the end of a run in which its nodes may still bring home what they have."""
_PARALLEL = 4


def sweep(jobs: Jobs, work_dir: str | None, say: Say, dry: bool, now: float) -> list[Swept]:
    """Looks at every job that a Muster made, and ends those that are over or past their time."""
    found = list(jobs.tagged())  # all of them before the first is deleted, which would shift the pages
    swept = at_once(_PARALLEL, lambda job: _swept(jobs, job, work_dir, say, dry, now), found)
    return sorted(swept, key=lambda one: one.run)


def _swept(jobs: Jobs, job: Mapping[str, Any], work_dir: str | None, say: Say, dry: bool, now: float) -> Swept:
    run, ocid = job["freeformTags"][TAG], job["id"]
    try:
        runs = jobs.runs(ocid)
        living = [one for one in runs if one["lifecycleState"] not in FINAL]
        why = _reason(job, runs, living, _ended_at(run, work_dir), now)
        if why is None:
            return Swept(run, ocid, "kept", f"{len(living)} of {len(runs)} nodes at work")
        if not dry:
            jobs.take_away(ocid, say)
            _write_end(run, work_dir, why)
        return Swept(run, ocid, "ended" if living else "deleted", why)
    except CloudError as error:
        return Swept(run, ocid, "failed", error.message)


def _reason(job: Mapping[str, Any], runs: list[Any], living: list[Any], ended: float | None, now: float) -> str | None:
    """Why a job can go; None while it is needed."""
    if max([_until(job), *(_end_of(job, run) for run in living)]) < now:
        return "it is past the time that it said for itself"
    if ended and living:
        # Nodes may take their time to bring home what they have.
        return f"its run has ended, and {len(living)} of its nodes have not" if now - ended > _HOME else None
    if ended:
        return "its run has ended"
    if runs and not living and now - max(map(_finished, runs)) > _SETTLED:
        return "its nodes have ended, and got no others"
    if not runs and now - _moment(job["timeCreated"]) > _NEW:
        return "its launcher made no node"
    return None


def _ended_at(run: str, work_dir: str | None) -> float | None:
    """When the run ended, if the work dir knows. Where it cannot be asked, the cloud's own word must do."""
    if work_dir is None:
        return None
    with suppress(MusterError):
        result = RunFolder(open_store(work_dir), run).result()
        return result.ended_at if result else None
    return None


def _write_end(run: str, work_dir: str | None, why: str) -> None:
    """Whoever looks at the run learns that it is over, if its folder is here and does not tell so already."""
    if work_dir is None:
        return
    with suppress(MusterError):
        folder = RunFolder(open_store(work_dir), run)
        started = folder.read_job().created_at
        told = Verdict(End.MAIN_LOST, EXIT_CODES[End.MAIN_LOST], f"swept: {why}")
        verdicts = [told, *(node.verdict for node in folder.nodes() if node.verdict)]
        if result := fold(run, verdicts, generation=0, started_at=started, ended_at=time.time()):
            folder.write_result(result)


def _until(job: Mapping[str, Any]) -> float:
    said = job["freeformTags"].get(TAG_UNTIL, "")
    return float(said) if said.isdecimal() else float("inf")


def _end_of(job: Mapping[str, Any], run: Mapping[str, Any]) -> float:
    """When a job run ends by itself, which may be long after the job was made if no machine was free."""
    minutes = job["freeformTags"].get(TAG_MINUTES, "")
    if not run.get("timeStarted") or not minutes.isdecimal():
        return 0.0
    return _moment(run["timeStarted"]) + 60.0 * int(minutes) + MARGIN


def _finished(run: Mapping[str, Any]) -> float:
    return _moment(run.get("timeFinished") or run["timeAccepted"])


def _moment(text: Any) -> float:
    return seconds(str(text))
