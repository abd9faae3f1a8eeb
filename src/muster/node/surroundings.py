"""The environment that a node's processes live in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ..spec.job import Job
from .settings import PRIVATE, Settings

_TEMPORARY_LIMIT = 72
"""Sockets have names of at most 104 characters and are made in the temporary folder; a longer one breaks scripts."""


def process_environment(
    settings: Settings, job: Job, code: Path, env: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """What every process of this node sees, before its framework adds its own."""
    folder = settings.folder
    base = {name: value for name, value in env.items() if name not in PRIVATE}
    paths = [
        str(code),
        *([str(_shim())] if job.python or job.requirements else []),
        base.get("PYTHONPATH", ""),
    ]
    outputs = sync_folder(job, code, env)
    base.update(
        PYTHONPATH=os.pathsep.join(path for path in paths if path),
        # Lines must come while the script runs, not when a buffer is full.
        PYTHONUNBUFFERED=base.get("PYTHONUNBUFFERED", "1"),
        MUSTER_RUN_ID=settings.run,
        MUSTER_REPORT=str(folder / "reports.jsonl"),
        MUSTER_OUTPUTS=str(outputs),
    )
    # Scripts written for ADS put there what is to be brought home.
    base.setdefault("OCI__SYNC_DIR", str(outputs))
    if job.checkpoints:
        base["MUSTER_CHECKPOINTS"] = str(code / job.checkpoints)
    temporary = folder / "tmp"
    if len(str(temporary)) <= _TEMPORARY_LIMIT:
        base["TMPDIR"] = str(temporary)
    base.update(job.env_of(settings.role))
    base.update(settings.secrets)
    return base


def sync_folder(job: Job, code: Path, env: Mapping[str, str] = os.environ) -> Path:
    """Where the script leaves what is to be brought home."""
    given = env.get("OCI__SYNC_DIR")
    return Path(given) if given else code / (job.outputs or "outputs")


def _shim() -> Path:
    """A folder from which a Python without Muster can `import muster` and has `report` and `checkpoint`."""
    return Path(__file__).parent / "shim"
