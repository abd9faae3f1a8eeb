"""`muster doctor`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .choosing import as_json

if TYPE_CHECKING:
    from ..access.doctor_facts import Machine
    from ..access.findings import Finding
    from ..spec.config import Target
    from ..spec.job import Job

_MARKS = {"ok": "ok", "warn": "warning", "fail": "FAILS", "skipped": "skipped"}
_COLOURS = {"ok": "green", "warn": "yellow", "fail": "bold red", "skipped": "dim"}


@click.command(
    help="Check all that a run of JOB needs before it costs anything: credentials, network, policies, image, quota. "
    "Ends with 1 if something is in the way of a run, else with 0."
)
@click.argument("job", type=click.Path(path_type=Path), default="job.yaml")
@click.option("--on", metavar="TARGET", help="A target of muster.toml; by default its default, else local.")
@click.option("--probe", is_flag=True, help="Also start two nodes for a minute, and test every port between them.")
@click.option("--within", metavar="SECONDS", type=click.FloatRange(min=1), default=9, help="Wait no longer.  [9]")
@as_json
def command(job: Path, on: str | None, probe: bool, within: float, as_json: bool) -> None:
    from ..access.doctor import examine
    from ..access.findings import healthy
    from ..launching import target_of

    read, target = target_of(job, on)
    found = examine(read, target, _machines(read, target), job.parent, within, _waiting)
    if probe:
        found += _probed(read, target)
    if as_json:
        click.echo(json.dumps([finding.to_json() for finding in found], indent=2, ensure_ascii=False))
    else:
        _show(found)
    sys.exit(0 if healthy(found) else 1)


def _machines(job: Job, target: Target) -> dict[str, Machine] | None:
    """The very shapes that a launch would ask for."""
    if target.kind != "oci":
        return None
    from ..access.doctor_facts import Machine
    from ..errors import MusterError
    from ..targets.oci_shapes import shape_of

    made = {}
    for role in ("main", "worker", "ps"):
        try:
            shape = shape_of(job, role, target.options)
        except MusterError:
            return None
        made[role] = Machine(shape.name, shape.ocpus)
    return made


def _probed(job: Job, target: Target) -> list[Finding]:
    from ..access.findings import skipped
    from ..targets.registry import target as opened

    probe = getattr(opened(target), "probe", None)
    if probe is None:
        return [skipped("probe", f"targets of the kind {target.kind} cannot be probed")]
    return list(probe(job))


def _waiting(names: Sequence[str]) -> None:
    from .screen import some

    click.echo(f"muster: waiting for {some(names)}", err=True)


def _show(found: Sequence[Finding]) -> None:
    if sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        _table(found)
    else:
        click.echo("\n".join(_lines(found)))
    states = [finding.state for finding in found]
    told = f"{states.count('fail')} in the way of a run, {states.count('warn')} to look at, {states.count('ok')} fine"
    click.echo(f"muster: {told}", err=True)


def _lines(found: Sequence[Finding]) -> list[str]:
    lines = []
    for finding in found:
        lines.append(f"{_MARKS[finding.state]:<8} {finding.check:<15} {finding.what}")
        lines += [f"{'':<24} {line.strip()}" for line in finding.fix.splitlines()]
    return lines


def _table(found: Sequence[Finding]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for finding in found:
        told = Text(finding.what)
        if finding.fix:
            told.append(f"\n→ {finding.fix}", style="italic")
        table.add_row(Text(_MARKS[finding.state], style=_COLOURS[finding.state]), finding.check, told)
    Console().print(table)
