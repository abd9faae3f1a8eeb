"""What every verb does that deletes: it shows what goes, asks, and only then lets it go."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from ..errors import RemovalError
from ..spec.units import age_text, size_text
from ..workdir.retention import Holding
from .choosing import as_json

Command = TypeVar("Command", bound=Callable[..., Any])


class Consent(NamedTuple):
    """How the user wants to be asked."""

    yes: bool
    dry_run: bool
    as_json: bool


def asks(command: Command) -> Command:
    """The options of a verb that deletes."""
    yes = click.option("--yes", is_flag=True, help="Ask nothing.")
    dry_run = click.option("--dry-run", is_flag=True, help="Only show what would go.")
    return yes(dry_run(as_json(command)))


def show(goes: Sequence[Holding], now: float) -> None:
    """A line for each run."""
    if not goes:
        return
    click.echo(f"{'RUN':<32} {'STATE':<10} {'AGE':>8} {'OBJECTS':>8} {'SIZE':>9}")
    for one in goes:
        row = f"{one.run:<32} {one.state:<10} {age_text(now - one.since):>8} {len(one.keys):>8}"
        click.echo(f"{row} {size_text(one.bytes):>9}")


def is_agreed(consent: Consent, what: str) -> bool:
    """Whether it may go now. Where nobody can be asked that is an error."""
    if consent.dry_run:
        return False
    if consent.yes:
        return True
    fix = "Add --yes if it may go, or --dry-run to see what would."
    if consent.as_json:
        raise RemovalError("--json asks no questions, so nothing was deleted", fix)
    if not sys.stdin.isatty():
        raise RemovalError("there is no terminal to ask at, so nothing was deleted", fix)
    if not click.confirm(f"Delete {what} for good?"):
        click.echo("Nothing was deleted.")
        sys.exit(1)
    return True


def counted(runs: int, objects: int, size: int) -> str:
    """What goes, in words."""
    told = f"{objects} object{'' if objects == 1 else 's'}, {size_text(size)}"
    return f"{runs} run{'' if runs == 1 else 's'}: {told}" if runs else told


def print_json(value: dict[str, Any]) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))
