"""`muster logs`."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ..errors import MusterError
from ..workdir.loglines import LogLine
from ..workdir.run import RunFolder
from ..workdir.view import dead
from .choosing import as_json, chooses_run
from .screen import prefix

if TYPE_CHECKING:
    from ..launching import Run

_BATCH = 1000
_PULSE = 3.0


@click.command(help="Show a run's lines, merged in time, each with the rank or process that wrote it.")
@chooses_run
@click.option("-f", "--follow", is_flag=True, help="Go on with new lines until the run ends.")
@click.option("--node", "nodes", multiple=True, metavar="NODE", help="Only this node's; may be given again.")
@click.option("--rank", "ranks", multiple=True, type=int, metavar="RANK", help="Only this rank's; may be given again.")
@click.option("--grep", metavar="RE", help="Only lines in which this regular expression is found.")
@click.option("--since", metavar="AGE", help="Only lines of the last 5m, 1h, …")
@click.option("--steps", is_flag=True, help="The steps of the nodes' own lives as well.")
@click.option("--no-service", is_flag=True, help="Without what the nodes said to their cloud's own log.")
@as_json
def command(
    run: str,
    work_dir: str | None,
    follow: bool,
    nodes: tuple[str, ...],
    ranks: tuple[int, ...],
    grep: str | None,
    since: str | None,
    steps: bool,
    no_service: bool,
    as_json: bool,
) -> None:
    from ..launching import Run
    from ..workdir.loglines import merge, read_logs

    found = Run.find(run, work_dir)
    folder = found.folder
    wanted = Wanted(nodes, ranks, grep, since, steps)

    def show(lines: list[LogLine]) -> None:
        text = "".join(_text(line, as_json) for line in lines if wanted(line))
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()

    spoken = iter(()) if no_service else _said(found)
    if follow:
        show(list(spoken))  # so far: what a node says from now on comes through the work dir
        from ..node.watching import Tail, watch

        try:
            asyncio.run(watch(folder, Tail(folder, show), lambda _state: None, alive=Pulse(folder)))
        except KeyboardInterrupt:
            sys.exit(130)
        return
    batch: list[LogLine] = []
    for line in merge((read_logs(folder, nodes=nodes or None), spoken)):
        batch.append(line)
        if len(batch) >= _BATCH:
            show(batch)
            batch = []
    show(batch)


def _said(found: Run) -> Iterator[LogLine]:
    """What nodes said to their cloud's own log. Our own lines are shown also where that cannot be had."""
    try:
        yield from found.said()
    except MusterError as error:
        click.echo(f"muster: {error}", err=True)


class Pulse:
    """Whether more lines may come: false once every node of the run is known to be gone."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder, self._asked_at, self._alive = folder, 0.0, True
        able = folder.store.capabilities
        # Only of nodes on this machine it can be known, so where each request costs money it is seldom asked.
        self._every = max(_PULSE, 10 * able.poll_seconds) if able.billed else _PULSE

    def __call__(self) -> bool:
        if time.monotonic() - self._asked_at > self._every:
            nodes = self._folder.nodes()
            self._asked_at, self._alive = time.monotonic(), not nodes or not all(dead(node) for node in nodes)
        return self._alive


class Wanted:
    """Which lines are asked for."""

    def __init__(
        self, nodes: tuple[str, ...], ranks: tuple[int, ...], grep: str | None, since: str | None, steps: bool
    ) -> None:
        self._nodes, self._ranks = frozenset(nodes), frozenset(ranks)
        self._streams = ("out", "err", "note", "step") if steps else ("out", "err", "note")
        self._pattern = _pattern(grep)
        self._since = time.time() - _seconds(since) if since else 0.0

    def __call__(self, line: LogLine) -> bool:
        return (
            line.stream in self._streams
            and (not self._nodes or line.node in self._nodes)
            and (not self._ranks or line.rank in self._ranks)
            and line.time >= self._since
            and (self._pattern is None or self._pattern.search(line.text) is not None)
        )


def _text(line: LogLine, as_json: bool) -> str:
    if as_json:
        return line.encode().decode("utf-8", "replace") + "\n"
    return f"{prefix(line)}{line.text}\n"


def _pattern(grep: str | None) -> re.Pattern[str] | None:
    try:
        return re.compile(grep) if grep is not None else None
    except re.error as error:
        raise MusterError(f"--grep {grep!r} is not a regular expression: {error}") from error


def _seconds(since: str) -> float:
    from ..spec.units import seconds

    try:
        return seconds(since)
    except ValueError as error:
        raise MusterError(f"--since: {error}") from error
