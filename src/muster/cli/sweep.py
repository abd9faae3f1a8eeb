"""`muster sweep`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from .choosing import as_json


@click.command(help="End and delete what runs left behind in a cloud, found by its tags, whoever launched it.")
@click.option("--on", metavar="TARGET", help="A target of muster.toml; by default its default.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@as_json
def command(on: str | None, dry_run: bool, as_json: bool) -> None:
    from ..cloud_runs import sweep

    found = sweep(on, Path.cwd(), lambda text: click.echo(f"muster: {text}", err=True), dry_run)
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], indent=2))
    elif not found:
        click.echo("Nothing of Muster's is there.")
    else:
        for one in found:
            did = f"would be {one.did}" if dry_run and one.did != "kept" else one.did
            click.echo(f"{one.run:<32} {did:<18} {one.why}  ({one.resource})")
    sys.exit(1 if any(one.did == "failed" for one in found) else 0)
