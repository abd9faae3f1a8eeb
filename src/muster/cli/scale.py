"""`muster scale`."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click

from .choosing import as_json, chooses_run

if TYPE_CHECKING:
    from ..launching import Run


@click.command(help="Change the number of workers of an elastic run. Waits until it has that many.")
@chooses_run
@click.argument("workers", type=click.IntRange(min=0))
@click.option("--no-wait", is_flag=True, help="Ask, and return at once.")
@click.option("--timeout", type=click.FloatRange(min=0), default=600.0, help="Seconds to wait.", show_default=True)
@as_json
def command(run: str, work_dir: str | None, workers: int, no_wait: bool, timeout: float, as_json: bool) -> None:
    from ..launching import Run

    found = Run.find(run, work_dir)
    found.scale(workers)
    now = (found.workers() or []) if no_wait else _waited(found, workers, timeout)
    if as_json:
        click.echo(json.dumps({"run": found.id, "wanted": workers, "workers": now}))
    else:
        click.echo(f"{found.id}: {workers} wanted, {len(now)} here" + (f" ({', '.join(now)})" if now else ""))


def _waited(found: Run, workers: int, timeout: float) -> list[str]:
    """The workers, once there are so many."""
    from ..errors import MusterError
    from ..node.waiting import delays

    until = time.monotonic() + timeout
    for delay in delays(slowest=0.5):
        now = found.workers()
        if now is not None and len(now) == workers:
            return now
        if result := found.poll():
            raise MusterError(f"run {found.id} ended meanwhile: {result.end.value}")
        if time.monotonic() >= until:
            fix = f"It is still wanted: see `muster status {found.id}`."
            raise MusterError(f"run {found.id} does not have {workers} workers after {timeout:g} s", fix)
        time.sleep(delay)
    raise AssertionError("delays never end")
