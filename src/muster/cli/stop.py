"""`muster stop`."""

from __future__ import annotations

import click

from .choosing import chooses_run


@click.command(help="Stop a run: its processes are asked to end, then ended. Waits until it is over.")
@chooses_run
@click.option("--no-wait", is_flag=True, help="Ask, and return at once.")
def command(run: str, work_dir: str | None, no_wait: bool) -> None:
    from ..launching import Run

    found = Run.find(run, work_dir)
    result = found.stop(wait=not no_wait)
    if not no_wait:
        # A node that cannot be asked, or never came, is ended by its cloud.
        found.finish(lambda text: click.echo(f"muster: {text}", err=True))
    if result:
        click.echo(f"{found.id}: {result.state} ({result.end.value})")
    else:
        click.echo(f"{found.id}: asked to stop")
