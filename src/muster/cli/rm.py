"""`muster rm`."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from ..errors import RemovalError, RunNotFound
from ..workdir.index import IndexEntry, entries, find
from ..workdir.opening import open_store
from ..workdir.retention import Gone, Holding, May, holding, remove
from ..workdir.store import Store
from .choosing import known_runs
from .removing import Consent, asks, counted, is_agreed, print_json, show


@click.command(help="Delete runs that have ended, and all they left in their work dirs. Shows what goes, and asks.")
@click.argument("runs", nargs=-1, required=True, shell_complete=known_runs)
@click.option("--work-dir", metavar="URL", help="Where the runs are, if they were launched elsewhere.")
@click.option("--force", is_flag=True, help="Also a run that was lost, or whose nodes cannot be seen from here.")
@asks
def command(runs: tuple[str, ...], work_dir: str | None, force: bool, yes: bool, dry_run: bool, as_json: bool) -> None:
    now = time.time()
    consent = Consent(yes, dry_run, as_json)
    found = [_found(wish, work_dir, now) for wish in dict.fromkeys(runs)]
    goes = [one for _, one in found]
    _refuse([one for one in goes if one.may is May.NOT or (one.may is May.FORCED and not force)], work_dir)
    told = counted(len(goes), sum(len(one.keys) for one in goes), sum(one.bytes for one in goes))
    if not as_json:
        show(goes, now)
        click.echo(told)
    agreed = is_agreed(consent, "all of it")
    for store, one in found if agreed else ():
        remove(store, one)
    if as_json:
        print_json({"goes": [one.to_json(now) for one in goes], "stays": [], "deleted": agreed})
    elif agreed:
        click.echo("Deleted.")


def _found(wish: str, work_dir: str | None, now: float) -> tuple[Store, Holding]:
    if work_dir is not None:
        store = open_store(work_dir)
        return store, holding(store, wish, now)
    entry = _only(wish)
    store = open_store(entry.work_dir)
    try:
        return store, holding(store, entry.run, now)
    except Gone:
        # Somebody else deleted it. What is left of it is our word that it was there.
        return store, Holding(entry.run, store.url, "", entry.created_at, "gone", entry.created_at, (), 0)


def _only(wish: str) -> IndexEntry:
    """The one run that is meant. To delete the latest of several would be too much of a guess."""
    entry = find(wish)
    matches = [one.run for one in entries() if one.run.startswith(wish)]
    if entry.run != wish and len(matches) > 1:
        raise RunNotFound(f"{wish!r} could be any of {', '.join(matches[:5])}", "Give more of the id.")
    return entry


def _refuse(runs: Sequence[Holding], work_dir: str | None) -> None:
    if not runs:
        return
    one = runs[0]
    where = f" --work-dir {work_dir}" if work_dir else ""
    fix = f"`muster stop {one.run}{where}` ends it."
    if one.may is May.FORCED:
        fix += " If you know that it is over, add --force."
    more = f" Nor can {', '.join(each.run for each in runs[1:])}." if runs[1:] else ""
    raise RemovalError(f"run {one.run} cannot be deleted: {one.why}", fix + more)
