"""Main's last act where each node is a paid machine: those that did not end by themselves are ended.

A node that never came, or was cut off, cannot be told anything; its cloud can.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import CloudError, MusterError
from .asking import ask

if TYPE_CHECKING:
    from ..clouds.oci_bare_calls import Calls

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

    async def end(self, spared: Collection[str]) -> list[str]:
        """Ends all but ourselves and the `spared`, at once; the names of the ended."""
        calls = await ask(_calls)
        runs = await ask(calls.list_runs, self.compartment, self.job)
        todo = [run for run in runs if run["lifecycleState"] not in _FINAL and run["id"] != self.own]
        todo = [run for run in todo if _node(run) not in spared]
        told = await asyncio.gather(*(ask(calls.cancel_run, run["id"]) for run in todo), return_exceptions=True)
        failed = [error for error in told if isinstance(error, Exception) and not _has_ended(error)]
        if failed:
            raise failed[0]  # all of them were asked
        return sorted(_node(run) for run in todo)


async def end_the_others(spared: Collection[str], expected: Collection[str], say: Callable[[str], None]) -> None:
    """Ends the machines of all nodes but the `spared`, which have left or are leaving.

    Where these are all that there can be, nobody is asked.
    """
    machines = Machines.of(os.environ)
    if machines is None or set(expected) <= set(spared):
        return
    try:
        if ended := await machines.end(spared):
            _tell(say, f"ended the job runs of {', '.join(ended)}")
    except MusterError as error:
        _tell(say, f"job runs that are left could not be ended from here: {error.message}")


def _tell(say: Callable[[str], None], text: str) -> None:
    """To the service's log too: so late, our own may have been brought home already."""
    say(text)
    print(f"muster: {text}", file=sys.stderr, flush=True)  # noqa: T201


def _calls() -> Calls:
    from ..clouds.oci_bare_calls import Calls

    return Calls(patience=10)


def _has_ended(error: Exception) -> bool:
    """Whether a cancel came too late, which is as good."""
    return isinstance(error, CloudError) and error.status in (404, 409)


def _node(run: Mapping[str, Any]) -> str:
    return str((run.get("freeformTags") or {}).get("muster-node", ""))


def twin_of(run: str, env: Mapping[str, str] = os.environ) -> str:
    """The id under which the run's cloud has a folder of it too; empty where there is none."""
    job = env.get("JOB_OCID", "")
    return job if job and job != run and env.get("MUSTER_CLOUD") == "oci" else ""
