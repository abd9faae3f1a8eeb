"""Main's last act where each node is a paid machine: those that did not end by themselves are ended.

A node that never came, or was cut off, cannot be told anything; its cloud can.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import CloudError, MusterError
from .asking import ask

_FINAL = frozenset({"SUCCEEDED", "FAILED", "CANCELED", "CANCELING", "DELETED"})


@dataclass(frozen=True)
class Machines:
    """The job runs of one cluster on Oracle's cloud, as main sees them."""

    job: str
    own: str
    """Main's own job run."""
    compartment: str

    @classmethod
    def of(cls, env: Mapping[str, str]) -> Machines | None:
        """None where no cloud has to be asked."""
        job, own = env.get("JOB_OCID"), env.get("JOB_RUN_OCID")
        compartment = env.get("MUSTER_COMPARTMENT") or env.get("PROJECT_COMPARTMENT_OCID")
        if env.get("MUSTER_CLOUD") != "oci" or not (job and own and compartment):
            return None
        return cls(job, own, compartment)

    async def end(self, left: Collection[str]) -> list[str]:
        """Ends all but ourselves and those that have `left` by themselves; the names of the ended."""
        runs = await ask(self._runs)
        todo = [run for run in runs if run["lifecycleState"] not in _FINAL and run["id"] != self.own]
        todo = [run for run in todo if _node(run) not in left]
        for run in todo:
            await ask(self._cancel, run["id"])
        return sorted(_node(run) for run in todo)

    def _runs(self) -> list[dict[str, Any]]:
        from ..clouds.oci_bare_calls import Calls

        return Calls(patience=10).list_runs(self.compartment, self.job)

    def _cancel(self, run: str) -> None:
        from ..clouds.oci_bare_calls import Calls

        try:
            Calls(patience=10).cancel_run(run)
        except CloudError as error:
            if error.status not in (404, 409):  # it has ended meanwhile
                raise


async def end_the_others(left: Collection[str], expected: int, say: Callable[[str], None]) -> None:
    """Ends the machines of all nodes that have not `left` by themselves. Where all have, nobody is asked."""
    machines = Machines.of(os.environ)
    if machines is None or len(left) >= expected:
        return
    try:
        if ended := await machines.end(left):
            say(f"ended the job runs of {', '.join(ended)}")
    except MusterError as error:
        say(f"job runs that are left could not be ended from here: {error.message}")


def _node(run: Mapping[str, Any]) -> str:
    return str((run.get("freeformTags") or {}).get("muster-node", ""))


def twin_of(run: str, env: Mapping[str, str] = os.environ) -> str:
    """The id under which the run's cloud has a folder of it too; empty where there is none."""
    job = env.get("JOB_OCID", "")
    return job if job and job != run and env.get("MUSTER_CLOUD") == "oci" else ""
