"""`muster plan`."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command(help="Show what a run of JOB would create. Nothing exists yet.")
@click.argument("job", type=click.Path(path_type=Path), default="job.yaml")
@click.option("--on", metavar="TARGET", help="A target of muster.toml; by default its default, else local.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def command(job: Path, on: str | None, as_json: bool) -> None:
    from ..launching import load, plan

    made = plan(load(job), on, job.parent)
    if as_json:
        click.echo(json.dumps(made.to_json(), indent=2, ensure_ascii=False))
        return
    from .show_plan import lines

    click.echo("\n".join(lines(made)))
