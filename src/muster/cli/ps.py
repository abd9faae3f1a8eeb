"""`muster ps`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import click

from ..errors import MusterError
from ..spec.units import age_text
from ..workdir.index import IndexEntry, entries
from ..workdir.names import list_runs
from ..workdir.opening import open_store
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
    views = [brief(RunFolder(store, run)) for run in list_runs(store)]
    good = [view for view in views if isinstance(view, RunView)]
    yield from sorted(good, key=lambda view: view.job.created_at, reverse=True)[:most]
    yield from (view for view in views if isinstance(view, MusterError))


def _folder(entry: IndexEntry) -> RunFolder:
    return RunFolder(open_store(entry.work_dir), entry.run)


def _row(view: RunView) -> str:
    end = view.result
    told = f"{end.end.value}, exit code {end.exit_code}" if end else ""
    age = age_text(time.time() - view.job.created_at)
    return (
        f"{view.run:<32} {view.state:<10} {view.job.job.framework:<10} {len(view.nodes):>5} {age:>8}  {told}".rstrip()
    )
