"""`muster ps`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import click

from ..errors import MusterError, NotFound, StoreBusy
from ..spec.units import age_text
from ..workdir.document import JobDocument
from ..workdir.index import IndexEntry, entries
from ..workdir.opening import open_store
from ..workdir.parallel import at_once
from ..workdir.run import RunFolder
from ..workdir.view import RunView, brief
from .choosing import as_json


@click.command(help="List runs, the newest first: those launched from here, or those of a work dir.")
@click.option("--work-dir", metavar="URL", help="List the runs of this work dir instead.")
@click.option("--all", "everything", is_flag=True, help="Ended ones too, however many; by default the last 20 runs.")
@as_json
def command(work_dir: str | None, everything: bool, as_json: bool) -> None:
    found = list(_views(work_dir, None if everything else 20))
    if as_json:
        click.echo(json.dumps([view.to_json() for view in found if isinstance(view, RunView)], indent=2))
        return
    if not found:
        click.echo("No runs yet. `muster init` makes a job to start from.")
        return
    click.echo(f"{'RUN':<32} {'STATE':<10} {'FRAMEWORK':<10} {'NODES':>5} {'AGE':>8}  END")
    for view in found:
        click.echo(_row(view) if isinstance(view, RunView) else f"{view.message}")


def _views(work_dir: str | None, most: int | None) -> Iterator[RunView | MusterError]:
    if work_dir is None:
        for entry in entries()[:most]:
            yield brief(_folder(entry))
        return
    store = open_store(work_dir)
    parallel = store.capabilities.parallel
    # The jobs of all, to know which are the newest; the rest of those alone that are shown.
    jobs = list(at_once(parallel, _job, (RunFolder(store, name) for name in store.list_names())))
    born = {folder: found.created_at for folder, found in jobs if isinstance(found, JobDocument)}
    shown = sorted(born, key=lambda folder: born[folder], reverse=True)[:most]
    views = dict(at_once(parallel, lambda folder: (folder, brief(folder)), shown))
    yield from (views[folder] for folder in shown)
    yield from (found for _, found in jobs if isinstance(found, MusterError))


def _job(folder: RunFolder) -> tuple[RunFolder, JobDocument | MusterError | None]:
    """The job of a run; None for what is no run."""
    try:
        return folder, folder.read_job()
    except NotFound:
        return folder, None
    except StoreBusy:
        raise
    except MusterError as error:
        return folder, error


def _folder(entry: IndexEntry) -> RunFolder:
    return RunFolder(open_store(entry.work_dir), entry.run)


def _row(view: RunView) -> str:
    end = view.result
    told = f"{end.end.value}, exit code {end.exit_code}" if end else ""
    age = age_text(time.time() - view.job.created_at)
    return (
        f"{view.run:<32} {view.state:<10} {view.job.job.framework:<10} {len(view.nodes):>5} {age:>8}  {told}".rstrip()
    )
