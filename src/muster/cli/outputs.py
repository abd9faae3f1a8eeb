"""`muster outputs`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from .choosing import as_json, chooses_run


@click.command(help="List what a run's script left in its outputs folder, as one tree; or fetch it.")
@chooses_run
@click.option(
    "--to",
    type=click.Path(path_type=Path, file_okay=False),
    help="Bring it into this folder. Goes on where it left off.",
)
@click.option("--code", is_flag=True, help="The code that was run, instead of what it left.")
@click.option("--checkpoints", is_flag=True, help="Its checkpoints: all of them listed, or each node's newest fetched.")
@as_json
def command(run: str, work_dir: str | None, to: Path | None, code: bool, checkpoints: bool, as_json: bool) -> None:
    from ..launching import Run

    folder = Run.find(run, work_dir).folder
    if code:
        from .code import fetch_code_of, list_code_of

        found = fetch_code_of(folder, to) if to else list_code_of(folder)
    elif checkpoints:
        from .checkpoints import fetch_checkpoints_of, list_checkpoints_of

        found = fetch_checkpoints_of(folder, to) if to else list_checkpoints_of(folder)
    elif to:
        from ..workdir.sync import fetch_outputs
        from .bar import shown_progress

        with shown_progress("fetching outputs") as progress:
            found = dict(sorted(fetch_outputs(folder, to, progress)))
    else:
        from ..workdir.sync import outputs_tree

        found = {path: entry.size for path, entry in outputs_tree(folder).items()}
    if as_json:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    for path, size in found.items():
        click.echo(f"{size:>14,}  {path}")
    if not found:
        click.echo("nothing (yet)")
