"""A rehearsal: the real plan of a job, run against a cloud that lives on this machine for as long as it takes."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..access.policies import needs_of, policy
from ..errors import MusterError
from ..spec.config import Target
from ..spec.job import Job
from . import oracle, principals
from .data_science_settings import DELAYS
from .oracle import OracleServer

IMAGE = "iad.ocir.io/rehearsal/image:1"
TARGET = Target(
    "oci",
    "oci",
    "oci://rehearsal@rehearsal/runs",
    {
        "compartment_id": principals.COMPARTMENT,
        "project_id": "ocid1.datascienceproject.oc1.iad.rehearsal",
        "subnet_id": "ocid1.subnet.oc1.iad.rehearsal",
        "log_group_id": "ocid1.loggroup.oc1.iad.rehearsal",
        "shape_name": "VM.Standard.E4.Flex",
        "shape_config_details": {"ocpus": 1, "memory_in_gbs": 16},
        "image": IMAGE,
    },
)
"""For who has no target of the kind `oci` yet."""
CALLS = ("create_job", "get_job", "delete_job", "create_run", "list_runs", "cancel_run", "get_subnet")
_FINAL = frozenset({"SUCCEEDED", "FAILED", "CANCELED", "DELETED"})


@dataclass(frozen=True)
class Faults:
    """What goes wrong in a rehearsal."""

    refuse: int | None = None
    """The node that is asked for as the so-manieth is refused for quota."""
    lose: tuple[str, ...] = ()
    """Of each of these calls, such as `create_run`, the first is answered with silence: done, but the reply is lost."""
    delay: Mapping[str, float] = field(default_factory=dict)
    """Seconds that a step takes: see `data_science_settings.DELAYS`."""
    kill: Mapping[str, float] = field(default_factory=dict)
    """Nodes whose machine is lost, so many seconds after it began."""


@dataclass
class Rehearsal:
    """A cloud that has all that a target names, and nothing else."""

    server: OracleServer
    environment: dict[str, str]
    """Variables by which a command finds it."""

    def left(self) -> list[str]:
        """What is there that would cost, or be in the way."""
        runs = [run for run in self.server.job_runs() if run["lifecycleState"] not in _FINAL]
        jobs = [job for job in self.server.steering.ask("GET", "jobs") if job["lifecycleState"] not in _FINAL]
        return [f"{one['displayName']} ({one['lifecycleState']})" for one in (*runs, *jobs)]

    def calls(self) -> dict[str, int]:
        """How often each operation was asked for, object storage as one."""
        found: dict[str, int] = {}
        stored = ("put", "get", "head", "list", "delete", "multipart-create", "part", "complete", "abort")
        for (_, kind), count in self.server.steering.counts().requests.items():
            name = "object storage" if kind in stored else kind
            found[name] = found.get(name, 0) + count
        return found


@contextmanager
def rehearsed(
    job: Job, target: Target, faults: Faults | None = None, minute: float = 60.0, port: int = 0
) -> Iterator[Rehearsal]:
    """A cloud in which this job may run on this target, by the very policies that `muster policy` prints."""
    bucket, namespace = _bucket(job.work_dir or target.work_dir or "")
    _check(faults or Faults(), job)
    # Every image has the Python that runs this, with what is installed for it.
    image = {"PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))}
    if "PYTHONPATH" in os.environ:
        image["PYTHONPATH"] = os.environ["PYTHONPATH"]
    with (
        tempfile.TemporaryDirectory(prefix="muster-rehearsal-") as folder,
        oracle.started(bucket, namespace=namespace, environment=image, minute=minute, port=port) as server,
    ):
        needs = needs_of(job, target)
        others = [name for name in (*needs.read_buckets, *needs.written_buckets) if name != bucket]
        server.learn(**_things(target.options), images=_images(job, target), buckets=others)
        user = server.make_user(Path(folder), groups=(needs.users,))
        server.grant(policy(needs).to_json())
        if faults:
            _break(server, faults)
        yield Rehearsal(server, server.environment(user))


def _check(faults: Faults, job: Job) -> None:
    """A fault that would never come is a mistake of whoever wants to see it."""
    for kind in faults.lose:
        if kind not in CALLS:
            raise MusterError(f"there is no call {kind!r} whose reply could be lost", f"Known are {', '.join(CALLS)}.")
    for name in faults.delay:
        if name not in DELAYS:
            raise MusterError(f"there is no step {name!r} that could take longer", f"Known are {', '.join(DELAYS)}.")
    workers = [f"worker-{number}" for number in range(1, job.workers.max + 1)]
    nodes = ["main", *workers, *(f"ps-{number}" for number in range(1, job.ps + 1))]
    for name in faults.kill:
        if name not in nodes:
            raise MusterError(f"the job has no node {name!r} that could be killed", f"It has {', '.join(nodes)}.")


def _things(options: Mapping[str, Any]) -> dict[str, Any]:
    names = ("compartment_id", "project_id", "subnet_id", "log_group_id", "log_id")
    secrets = {
        **(options.get("secrets") or {}),
        **({"git": options["git_secret_id"]} if options.get("git_secret_id") else {}),
    }
    return {**{name: options[name] for name in names if options.get(name)}, "secrets": secrets}


def _images(job: Job, target: Target) -> list[str]:
    named = [job.image, *(role.image for role in job.roles.values()), target.options.get("image")]
    return sorted({str(image) for image in named if image})


def _bucket(work_dir: str) -> tuple[str, str]:
    scheme, _, place = work_dir.partition("://")
    bucket, _, namespace = place.partition("?")[0].partition("/")[0].partition("@")
    if scheme != "oci" or not bucket:
        raise MusterError(
            f"a rehearsal of Oracle's cloud needs a work dir in its object storage, and this is {work_dir or 'none'}",
            'Write `work_dir = "oci://BUCKET@NAMESPACE/PREFIX"` into the target.',
        )
    return bucket, namespace or "rehearsal"


def _break(server: OracleServer, faults: Faults) -> None:
    if faults.refuse:
        server.refuse_run(faults.refuse)
    for kind in faults.lose:
        server.steering.lose(kind=kind)
    for name, seconds in faults.delay.items():
        server.delay(name, seconds)
    for node, seconds in faults.kill.items():
        threading.Thread(target=_kill, args=(server, node, seconds), daemon=True).start()


def _kill(server: OracleServer, node: str, seconds: float) -> None:
    """Waits until the node's machine is at work, and then as long as was asked for."""
    pause = threading.Event()
    with suppress(MusterError, OSError):  # the rehearsal may be over before
        while True:
            runs = [run for run in server.job_runs() if run["freeformTags"].get("muster-node") == node]
            if any(run["lifecycleState"] == "IN_PROGRESS" for run in runs):
                pause.wait(seconds)
                server.kill_run(runs[-1]["id"])
                return
            pause.wait(0.2)
