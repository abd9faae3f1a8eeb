"""`muster plan`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from .code_option import takes_code


@click.command(help="Show what a run of JOB would create. Nothing exists yet.")
@click.argument("job", type=click.Path(path_type=Path), default="job.yaml")
@click.option("--on", metavar="TARGET", help="A target of muster.toml; by default its default, else local.")
@takes_code
@click.option("--containers", is_flag=True, help="On this machine: each node a container of the job's image.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def command(job: Path, on: str | None, code: Path | None, containers: bool, as_json: bool) -> None:
    from ..launching import load_both, plan

    read, where = load_both(job)
    made = plan(read, on, job.parent, code, where, containers)
    if as_json:
        click.echo(json.dumps(made.to_json(), indent=2, ensure_ascii=False))
        return
    from .show_plan import lines

    click.echo("\n".join(lines(made)))
    if where and made.kind != "oci":
        click.echo(f"muster: {where.unused(made.kind)}", err=True)
