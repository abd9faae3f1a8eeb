"""Starting a node: its settings, its guardian, and then the program itself."""

from __future__ import annotations

import os
import secrets
import sys
from dataclasses import replace

from ..errors import AlreadyExists, MusterError
from .guardian import guarded
from .settings import Settings, read_settings


def main() -> int:
    """`muster node`: all it needs stands in the environment."""
    try:
        settings = read_settings(os.environ)
        if settings.node is None:
            # A random name meets no other; to ask for a free number would cost a request per node there is.
            settings = replace(settings, node=f"{settings.role}-{secrets.token_hex(4)}")
    except MusterError as error:
        return _refuse(error)
    return guarded(f"{settings.run}/{settings.node}", lambda watch: _program(settings, watch))


def _program(settings: Settings, watch: int) -> int:
    # Loaded here, in the guarded child: the guardian stays small.
    import asyncio
    import time

    from ..workdir.document import JobDocument
    from ..workdir.opening import open_store
    from ..workdir.run import RunFolder
    from .claiming import claim
    from .mainside import MainSide
    from .program import Node, first_record
    from .workerside import WorkerSide

    try:
        run = RunFolder(open_store(settings.work_dir), settings.run)
        job = settings.job
        if job is None:
            job = run.read_job().job
        elif settings.role == "main":
            try:
                run.write_job(JobDocument(run=run.run, job=job, by="node", created_at=time.time()))
            except AlreadyExists:
                pass  # an earlier main of this run has told it
        record = claim(run, first_record(settings))

        async def live() -> int:
            side = MainSide() if settings.role == "main" else WorkerSide()
            return await Node(settings, run, job, side, record).live(watch)

        # Not asyncio.run, which would wait for every thread: an installer's may take minutes to see that it is over.
        return asyncio.new_event_loop().run_until_complete(live())
    except MusterError as error:
        return _refuse(error)


def _refuse(error: MusterError) -> int:
    print(f"muster node: {error}", file=sys.stderr, flush=True)  # noqa: T201
    return error.exit_code
