"""The nodes of a run on Oracle's cloud while its launcher looks on. They need no launcher: it may go at any time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ..errors import CloudError, LaunchError, StoreBusy
from ..workdir.records import EXIT_CODES, End, Verdict, fold
from ..workdir.run import RunFolder
from .base import Plan, Sight
from .oci_payloads import JOB

if TYPE_CHECKING:
    from .oci import Oci

_QUICK, _SLOW = 2.0, 15.0
"""Seconds between looks at the cloud: near a change, and while all is quiet."""


class OciNodes:
    """Looks after the job runs: a lost node gets another one while the job allows, the empty job is deleted."""

    def __init__(self, target: Oci, plan: Plan, folder: RunFolder, made: dict[str, str]) -> None:
        self.run, self.ids = folder.run, made
        self.said: list[str] = []
        self._target, self._plan, self._folder = target, plan, folder
        self._pause, self._look_at = _QUICK, 0.0
        self._attempts = dict.fromkeys(made, 1)
        self._seen: dict[str, Sight] = {}
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
        changed = {name: one.state for name, one in seen.items()} != {n: one.state for n, one in self._seen.items()}
        self._pause = _QUICK if changed else min(1.5 * self._pause, _SLOW)
        self._seen = seen
        if any(one.final for one in seen.values()):
            self._pause = _QUICK
        result = self._folder.result()
        if result is None:
            self._restart([one for one in seen.values() if one.final])
        if any(not one.final for one in seen.values()) and result is None:
            return False
        self._target.finish(self._plan, self.run, self.said.append)
        self._conclude()
        return True

    def _restart(self, ended: list[Sight]) -> None:
        """A node whose machine was lost gets another one; one that ended by itself does not."""
        for one in ended:
            record = self._folder.node(one.node) if one.node else None
            lost = record is None or record.state != "ended"
            if lost and self._attempts.get(one.node, 1) <= self._plan.job.retries and not self._folder.result():
                self._again(one.node)

    def _again(self, name: str) -> None:
        known = {**self._target._known(self._plan, self._folder), JOB: self._target._job(self._plan, self.run) or ""}
        self._attempts[name] = self._attempts.get(name, 1) + 1
        try:
            payload = self._target.node_payload(self._plan, name, known)
            self._target.jobs.make_run(payload, self.run, self._attempts[name])
        except (CloudError, LaunchError) as error:
            self.said.append(f"{name}: {error.message}")

    def _conclude(self) -> None:
        """Where no node was left to say how it ended, whoever looks on says so, in the service's words."""
        if self._folder.result():
            return
        told = [f"{one.node}: {one.state}: {one.detail}" for one in self._seen.values() if one.detail]
        verdicts = [record.verdict for record in self._folder.nodes() if record.verdict]
        detail = "\n".join(told) or "the job runs ended without a word"
        verdicts.append(Verdict(End.MAIN_LOST, EXIT_CODES[End.MAIN_LOST], detail))
        result = fold(self.run, verdicts, generation=0, started_at=0.0, ended_at=time.time())
        if result:
            self._folder.write_result(result)

    def wait(self, seconds: float) -> None:
        time.sleep(min(seconds, max(0.05, self._look_at - time.monotonic())))

    def end(self) -> None:
        """Cancels all job runs at once."""
        self._folder.request_stop("ended at once by its user", by="user")
        if job := self._target._job(self._plan, self.run):
            self._target.jobs.take_away(job, self.said.append)
        self._conclude()
        self._over = True
