"""`muster prune`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from ..errors import RemovalError, StoreError
from ..workdir.index import entries
from ..workdir.opening import open_store
from ..workdir.pruning import Pruner, Pruning, Rule, Stays
from .removing import Consent, asks, counted, is_agreed, print_json, show


@click.command(help="Delete runs that ended long ago, and code that no run uses any more. Shows what goes, and asks.")
@click.option("--older-than", required=True, metavar="AGE", help="How long ago, such as 30d or 12h.")
@click.option("--work-dir", metavar="URL", help="All runs of this work dir; by default those launched from here.")
@click.option("--keep-last", type=click.IntRange(0), default=0, metavar="N", help="Keep the last N runs of each job.")
@click.option("--force", is_flag=True, help="Also runs that were lost, or whose nodes cannot be seen from here.")
@asks
def command(
    older_than: str, work_dir: str | None, keep_last: int, force: bool, yes: bool, dry_run: bool, as_json: bool
) -> None:
    now = time.time()
    rule = Rule(_seconds(older_than), keep_last, force)
    plan = _given(work_dir, rule, now) if work_dir else _known(rule, now)
    if not as_json:
        _show(plan, now)
    agreed = bool(plan.objects) and is_agreed(Consent(yes, dry_run, as_json), "all of it")
    for pruner, found in plan.places if agreed else ():
        pruner.carry_out(found)
    if as_json:
        print_json({**plan.to_json(now), "deleted": agreed})
    elif agreed:
        click.echo("Deleted.")


class Plan(NamedTuple):
    """What goes from all work dirs, and those that could not be looked at."""

    places: Sequence[tuple[Pruner, Pruning]]
    unread: Sequence[Stays] = ()

    @property
    def objects(self) -> int:
        return sum(len(found.code) + sum(len(one.keys) for one in found.goes) for _, found in self.places)

    @property
    def bytes(self) -> int:
        return sum(
            sum(one.bytes for one in found.goes) + sum(entry.size for entry in found.code) for _, found in self.places
        )

    @property
    def stays(self) -> list[Stays]:
        return [*self.unread, *(one for _, found in self.places for one in found.stays)]

    def to_json(self, now: float) -> dict[str, Any]:
        return {
            "goes": [one.to_json(now) for _, found in self.places for one in found.goes],
            "code": [{"key": one.key, "bytes": one.size} for _, found in self.places for one in found.code],
            "stays": [one.to_json() for one in self.stays],
        }


def _given(work_dir: str, rule: Rule, now: float) -> Plan:
    pruner = Pruner(open_store(work_dir), rule, now)
    return Plan([(pruner, pruner.look())])


def _known(rule: Rule, now: float) -> Plan:
    """The runs launched from here. A work dir that cannot be read keeps no other from being tidied."""
    runs: dict[str, set[str]] = {}
    for entry in entries():
        runs.setdefault(entry.work_dir, set()).add(entry.run)
    places: list[tuple[Pruner, Pruning]] = []
    unread: list[Stays] = []
    for work_dir, mine in runs.items():
        try:
            pruner = Pruner(open_store(work_dir), rule, now, frozenset(mine))
            places.append((pruner, pruner.look()))
        except StoreError as error:
            unread += [Stays(run, work_dir, error.message) for run in sorted(mine)]
    return Plan(places, unread)


def _show(plan: Plan, now: float) -> None:
    goes = [one for _, found in plan.places for one in found.goes]
    code = [one for _, found in plan.places for one in found.code]
    show(goes, now)
    if code:
        click.echo(f"code that no run uses: {counted(0, len(code), sum(one.size for one in code))}")
    for one in plan.stays:
        if one.told:
            click.echo(f"left alone: {one.run}: {one.why}")
    for pruner, found in plan.places:
        if found.code_stays:
            click.echo(f"left alone: the code in {pruner.store.url}: {found.code_stays}")
    click.echo(counted(len(goes), plan.objects, plan.bytes) if plan.objects else "Nothing is that old.")


def _seconds(age: str) -> float:
    from ..spec.units import seconds

    try:
        return seconds(age)
    except ValueError as error:
        raise RemovalError(f"--older-than: {error}") from error
