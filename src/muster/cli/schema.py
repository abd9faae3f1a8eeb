"""`muster schema`."""

from __future__ import annotations

import json

import click


@click.command(help="Print the JSON Schema of job files, for editors and checks.")
def command() -> None:
    from ..spec.schema import schema

    click.echo(json.dumps(schema(), indent=2, ensure_ascii=False))
