"""`muster status`."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ..errors import MusterError
from ..spec.units import size_text
from ..workdir.home import launcher_log
from ..workdir.records import NodeRecord
from ..workdir.view import RunView
from .choosing import as_json, chooses_run

if TYPE_CHECKING:
    from ..launching import Run
    from ..targets.base import Sight


@click.command(help="Show one run: its state, its nodes, the last values its script reported, and its end.")
@chooses_run
@as_json
def command(run: str, work_dir: str | None, as_json: bool) -> None:
    from ..launching import Run
    from ..workdir.view import view

    found = Run.find(run, work_dir)
    seen, sights = view(found.folder), _sights(found)
    if as_json:
        told = {**seen.to_json(), **({"cloud": [asdict(one) for one in sights]} if found.cloud else {})}
        click.echo(json.dumps(strict(told), indent=2, ensure_ascii=False))
        return
    click.echo("\n".join([*_lines(seen), *map(_sight, sights)]))


def _sights(found: Run) -> list[Sight]:
    """The nodes as their cloud sees them. The work dir tells the rest also where the cloud cannot be asked."""
    try:
        return found.observe()
    except MusterError as error:
        click.echo(f"muster: {error.message}", err=True)
        return []


def _sight(one: Sight) -> str:
    return f"  {one.node:<12} {one.state:<12} {one.id}" + (f"\n    {one.detail}" if one.detail else "")


def strict(value: Any) -> Any:
    """Without what JSON cannot write: a loss that is no number any more is null."""
    if isinstance(value, dict):
        return {name: strict(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _lines(seen: RunView) -> list[str]:
    job, result = seen.job.job, seen.result
    until = result.ended_at if result else time.time()
    told = [
        f"{seen.run}: {seen.state}",
        f"  job         {job.name}, {job.framework}" + (f", {job.entry}" if job.entry else ""),
        f"  took        {max(until - seen.job.created_at, 0):.1f} s",
        f"  work dir    {seen.work_dir}",
    ]
    if seen.state in ("created", "lost"):
        told.append(f"  resume      muster run --resume {seen.run}")
    log = launcher_log(seen.run)
    if not result and log.exists():
        told += [f"  launcher    {line}" for line in log.read_text(errors="replace").splitlines()]
    if result:
        told.append(f"  end         {result.end.value}, exit code {result.exit_code}")
        told += [f"              {line}" for line in result.detail.splitlines()]
        if result.missing:
            told.append(f"  missing     {', '.join(result.missing)}")
        if result.failure and result.exit_code:
            told.append(
                f"  first cause {result.failure.process} on {result.failure.node}, exit code {result.failure.exit_code}"
            )
            told += [f"              {line}" for line in result.failure.tail]
    told.append("")
    for node in seen.nodes:
        told += _node(node)
    return told


def _node(node: NodeRecord) -> list[str]:
    usage = _usage(node.metrics) if node.metrics else ""
    ports = " ".join(f"{name}:{number}" for name, number in node.ports.items())
    told = [f"  {node.node:<12} {node.state:<10} {node.address:<15} {ports}{usage}".rstrip()]
    for process, values in node.reported.items():
        told.append(f"    {process}: " + "  ".join(f"{name}={value:g}" for name, value in values.items()))
    return [*told, *(f"    {note}" for note in node.notes)]


def _usage(used: Mapping[str, float]) -> str:
    memory, sent, received = (
        size_text(int(used[name]))
        for name in ("memory_bytes", "network_sent_per_second", "network_received_per_second")
    )
    return f"  cpu {used['cpu_percent']:.0f}%  memory {memory}  net ↑{sent}/s ↓{received}/s"
