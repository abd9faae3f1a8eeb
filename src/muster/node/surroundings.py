"""The environment that a node's processes live in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ..spec.job import Job
from ..workdir.home import temporary_folder
from .settings import PRIVATE, Settings


def process_environment(
    settings: Settings, job: Job, code: Path, env: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """What every process of this node sees, before its framework adds its own."""
    folder = settings.folder
    base = {name: value for name, value in env.items() if name not in PRIVATE}
    own = job.env_of(settings.role)
    paths = [
        str(code),
        *(str(code / folder) for folder in job.python_path),
        *([str(_shim())] if _has_no_muster(job, env) else []),
        own.pop("PYTHONPATH", base.get("PYTHONPATH", "")),
    ]
    base.update(
        PYTHONPATH=os.pathsep.join(path for path in paths if path),
        # Lines must come while the script runs, not when a buffer is full.
        PYTHONUNBUFFERED=base.get("PYTHONUNBUFFERED", "1"),
        MUSTER_RUN_ID=settings.run,
        MUSTER_REPORT=str(folder / "reports.jsonl"),
    )
    # What a launcher's own environment says of a job run that it may be in is not true of this node.
    told = {} if settings.job is None else base
    base.update({name: value for name, value in _as_ads_says(settings, job, code).items() if name not in told})
    base.setdefault("JOB_OCID", settings.run)
    base.setdefault("JOB_RUN_OCID", f"{settings.run}/{settings.node or folder.name}")
    if outputs := sync_folder(job, code, env):
        # Scripts written for ADS know it by the second name.
        base.update(MUSTER_OUTPUTS=str(outputs), OCI__SYNC_DIR=str(outputs))
    if job.inputs:
        base["MUSTER_INPUTS"] = str(inputs_folder(settings, code))
    if job.checkpoints:
        base["MUSTER_CHECKPOINTS"] = str(code / job.checkpoints)
    base["TMPDIR"] = str(temporary_folder(folder))
    base.update(own)
    base.update(settings.secrets)
    return base


def _as_ads_says(settings: Settings, job: Job, code: Path) -> dict[str, str]:
    """What scripts made for Oracle's ADS read of the cluster, under the names and with the values that they know."""
    said = {
        "OCI__WORK_DIR": settings.work_dir,
        "OCI__EPHEMERAL": str(int(job.ephemeral)),
        "OCI__CLUSTER_TYPE": job.framework.upper(),
        "OCI__WORKER_COUNT": str(job.workers.max),
        "OCI__MODE": settings.role.upper(),
        "OCI__CODE_DIR": str(code),
    }
    if job.ps:
        said["OCI__PS_COUNT"] = str(job.ps)
    if job.entry:
        said["OCI__ENTRY_SCRIPT"] = job.entry
    return said


def sync_folder(job: Job, code: Path, env: Mapping[str, str] = os.environ) -> Path | None:
    """Where the script leaves what is to be brought home; None where the job wants nothing of it."""
    if given := env.get("OCI__SYNC_DIR"):
        return Path(given)
    return code / job.outputs if job.outputs else None


def inputs_folder(settings: Settings, code: Path) -> Path:
    """Where inputs are laid out: in the code, unless that is not the node's own and outlives it."""
    own = code.is_relative_to(settings.folder)
    return (code if own else settings.folder) / "inputs"


def _has_no_muster(job: Job, env: Mapping[str, str]) -> bool:
    """Whether the script's Python is another than ours, or ours came with the run and is not installed in it."""
    return bool(job.python or job.requirements or env.get("MUSTER_UNPACKED") or env.get("MUSTER_SCRIPT_PYTHON"))


def _shim() -> Path:
    """A folder from which a Python without Muster can `import muster` and has `report` and `checkpoint`."""
    return Path(__file__).parent / "shim"
