"""The nodes of a run on Oracle's cloud while its launcher looks on. They need no launcher: it may go at any time."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from ..errors import CloudError, LaunchError, MusterError, StoreBusy
from ..workdir.records import EXIT_CODES, End, Verdict, fold
from ..workdir.run import RunFolder
from .base import Plan, Say, Sight
from .oci_jobs import attempts
from .oci_payloads import JOB

if TYPE_CHECKING:
    from .oci import Oci

_QUICK, _SLOW = 2.0, 15.0
"""Seconds between looks at the cloud: near a change, and while all is quiet."""
_WORDS = 10
"""Lines of nodes that were never there which the run's end repeats."""


class OciNodes:
    """Looks after the job runs: a lost node gets another one while the job allows, the empty job is deleted."""

    def __init__(self, target: Oci, plan: Plan, folder: RunFolder, made: dict[str, str], say: Say) -> None:
        self.run, self.ids = folder.run, made
        self._say = say
        self._target, self._plan, self._folder = target, plan, folder
        self._pause, self._look_at = _QUICK, 0.0
        self._restarts: dict[str, int] = {}
        self._seen: dict[str, Sight] = {}
        self._missed: tuple[str, ...] = ()
        self._over = False

    def poll(self) -> bool:
        if self._over or time.monotonic() < self._look_at:
            return self._over
        try:
            self._over = self._look()
        except (StoreBusy, CloudError) as error:
            if isinstance(error, CloudError) and error.status in (401, 404):
                raise
        self._look_at = time.monotonic() + self._pause
        return self._over

    def _look(self) -> bool:
        seen = {sight.node: sight for sight in self._target.observe(self._plan, self.run)}
        if not seen and self._folder.result() is None and not self._target.is_gone(self._plan, self.run):
            return False  # a list may come later than what it is of
        changed = {name: one.state for name, one in seen.items()} != {n: one.state for n, one in self._seen.items()}
        self._pause = _QUICK if changed else min(1.5 * self._pause, _SLOW)
        self._seen = seen
        if any(one.final for one in seen.values()):
            self._pause = _QUICK
        if self._folder.result() is None and self._goes_on([one for one in seen.values() if one.final]):
            return False
        # The end is written before the job is deleted: with it goes what its nodes said to the service.
        self._conclude()
        self._target.finish(self._plan, self.run, self._say)
        return True

    def _goes_on(self, ended: list[Sight]) -> bool:
        """Whether nodes are left, or new ones were just made, and none is missed that will never come."""
        if self._restart(ended):
            return True
        self._missed = tuple(one.node for one in ended if self._is_missed(one.node))
        return not self._missed and len(ended) < len(self._seen)

    def _restart(self, ended: list[Sight]) -> bool:
        """A node whose machine was lost gets another one; one that ended by itself does not."""
        lost = [one.node for one in ended if self._is_lost(one.node)]
        again = [name for name in lost if self._restarts.get(name, 0) < self._plan.job.retries]
        if not again or self._folder.result():
            return False
        for name in again:
            self._again(name)
        return True

    def _is_lost(self, name: str) -> bool:
        record = self._folder.node(name) if name else None
        return record is None or record.state != "ended"

    def _is_missed(self, name: str) -> bool:
        """Whether the cluster needs a node that ended before it was there: to wait for it would be in vain."""
        if name not in {node.name for node in self._plan.nodes} or self._folder.node(name):
            return False
        return not (self._plan.job.workers.elastic and name.startswith("worker-"))

    def _again(self, name: str) -> None:
        self._restarts[name] = self._restarts.get(name, 0) + 1
        target, job = self._target, self._target.job(self._plan, self.run) or ""
        try:
            payload = target.node_payload(self._plan, name, {**target.known(self._plan, self._folder), JOB: job})
            # Of all that it had, also from another launcher: a number that was used gives the old machine again.
            target.jobs.make_run(payload, self.run, attempts(target.jobs.runs(job), name) + 1)
            self._say(f"{name} was lost: it gets another machine")
        except (CloudError, LaunchError) as error:
            self._say(f"{name} was lost, and gets no other machine: {error.message}")

    def _conclude(self) -> None:
        """Where no node was left to say how it ended, whoever looks on says so, in the service's words."""
        if self._folder.result():
            return
        verdicts = [record.verdict for record in self._folder.nodes() if record.verdict]
        end = End.NOT_READY if self._missed else End.MAIN_LOST
        verdicts.append(Verdict(end, EXIT_CODES[end], self._told(), missing=self._missed))
        self._write_end(verdicts)

    def _write_end(self, verdicts: list[Verdict]) -> None:
        result = fold(self.run, verdicts, generation=0, started_at=0.0, ended_at=time.time())
        if result and self._folder.write_result(result):
            self._folder.request_stop(result.detail, by="launcher")

    def _told(self) -> str:
        ended = [one for one in self._seen.values() if one.final]
        told = [f"{one.node}: {one.state}: {one.detail}" for one in ended if one.detail]
        return "\n".join([*told, *self._last_words(ended)]) or "the job runs ended without a word"

    def _last_words(self, ended: list[Sight]) -> list[str]:
        """What nodes that never reached the work dir said to the service: nobody else heard it."""
        from .oci_logs import service_lines

        silent = [one for one in ended if self._folder.node(one.node) is None]
        with suppress(MusterError):
            since = self._folder.read_job().created_at
            lines = list(service_lines(self._target.services, self._plan, silent, since))
            return [f"{line.node}: {line.text}" for line in lines[-_WORDS:]]
        return []

    def hurry(self) -> None:
        self._look_at, self._pause = 0.0, _QUICK

    def wait(self, seconds: float) -> None:
        time.sleep(min(seconds, max(0.05, self._look_at - time.monotonic())))

    def end(self) -> None:
        """Cancels all job runs at once."""
        why = "ended at once by its user"
        self._folder.request_stop(why, by="user")
        if job := self._target.job(self._plan, self.run):
            self._target.jobs.take_away(job, self._say)
        if not self._folder.result():
            self._write_end([Verdict(End.STOP_REQUESTED, EXIT_CODES[End.STOP_REQUESTED], why)])
        self._over = True
