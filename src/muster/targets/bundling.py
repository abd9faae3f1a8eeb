"""What of a job travels to its nodes, whatever the target."""

from __future__ import annotations

from pathlib import Path

from ..spec.job import Job
from ..spec.sources import code_source
from .base import CodePlan


def check_inputs(job: Job) -> None:
    """Inputs of this machine are there; what opens those elsewhere is installed. Nobody is asked for them yet."""
    from ..workdir.inputs import check_input

    for name, one in job.inputs.items():
        check_input(name, one.source)


def code_plan(job: Job, own: tuple[Path, ...]) -> CodePlan | None:
    """The code as it will be bundled, without the folders of our `own` that may lie inside it."""
    if job.code is None or job.code.startswith("image:"):
        return None
    if code_source(job.code):
        from ..workdir.fetching import check_fetchable

        check_fetchable(job.code)
        return CodePlan(job.code, digest="", files=0, bytes=0)
    from ..workdir.bundle import scan
    from ..workdir.ignore import literal

    source = Path(job.code)
    ignored = tuple(literal(folder.relative_to(source)) for folder in own if source in folder.parents)
    manifest = scan(source, ignored)
    return CodePlan(job.code, manifest.digest, len(manifest.files), manifest.bytes, ignored)
