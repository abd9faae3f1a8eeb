"""What a node asks of the work dir before its life begins: all at once, because each answer takes its time."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ..errors import AlreadyExists, MusterError, NotFound
from ..spec.job import Job
from ..workdir.document import JobDocument
from ..workdir.records import MainConfig, NodeRecord
from ..workdir.run import RunFolder
from .asking import begin
from .claiming import claim
from .settings import Settings


@dataclass(frozen=True)
class Outset:
    """The answers."""

    job: Job
    record: NodeRecord
    key: bytes | None
    """None if the run has no key yet: then main makes it before it can be seen."""
    main: MainConfig | None = None
    """Main of the first generation, if a worker that was never here before found it at once."""
    scale: str = ""
    """For main: the newest request for another size, made before it was there."""
    ended: bool = False
    """For main: the run has its result."""


def set_out(settings: Settings, run: RunFolder, record: NodeRecord) -> Outset:
    """Claims the node's name and learns what it must know. A node by itself makes what a launcher would have made."""
    if settings.job is not None and settings.role == "main":
        _write_job(run, settings.job)
    reading = begin(run.read_job) if settings.job is None else None
    if settings.role == "main":
        making = begin(_main_key if settings.job is None else RunFolder.make_key, run)
        looking, ending = begin(run.signs), begin(run.result)
    else:
        getting, finding = begin(_key, run), begin(_first_main, run)
    claimed = claim(run, record)
    job = reading.result().job if reading else settings.job
    assert job is not None  # noqa: S101 - it is read where it was not given
    if settings.role == "main":
        return Outset(job, claimed, making.result(), scale=looking.result().scale, ended=ending.result() is not None)
    # Whoever was here before, or may come later than others, must look for the newest main instead.
    first = claimed.incarnation == 1 and not job.workers.elastic
    return Outset(job, claimed, getting.result(), finding.result() if first else None)


def _write_job(run: RunFolder, job: Job) -> None:
    try:
        run.write_job(JobDocument(run=run.run, job=job, by="node", created_at=time.time()))
    except AlreadyExists:
        run.read_job()  # an earlier main of this run, or its launcher, has told it; ours must fit it


def _first_main(run: RunFolder) -> MainConfig | None:
    try:
        return run.main_of(1)
    except MusterError:
        return None  # it is looked for again when it is needed, and what is wrong is told then


def _key(run: RunFolder) -> bytes | None:
    try:
        return run.key()
    except NotFound:
        return None


def _main_key(run: RunFolder) -> bytes:
    """Its launcher has made it, so to get it is one request where to make it would be two."""
    return _key(run) or run.make_key()
