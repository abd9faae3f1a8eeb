"""The argument RUN and the option --work-dir, as every verb on a run has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Command = TypeVar("Command", bound=Callable[..., Any])


def known_runs(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from ..workdir.index import entries

    return [CompletionItem(entry.run) for entry in entries() if entry.run.startswith(incomplete)]


def chooses_run(command: Command) -> Command:
    argument = click.argument("run", shell_complete=known_runs)
    option = click.option("--work-dir", metavar="URL", help="Where the run is, if it was launched elsewhere.")
    return argument(option(command))


def as_json(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="For programs.")(command)
