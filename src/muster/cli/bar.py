"""A bar that shows how far something has come, with rate and time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..workdir.progress import Pace, Progress, lines

if TYPE_CHECKING:
    from rich.console import RenderableType

_QUIET = 1.0
"""Seconds in which most things are done; then nothing is shown of them."""


class Bar:
    """Can be rendered by rich, again and again."""

    def __init__(self, what: str) -> None:
        self._what, self._began, self._pace = what, time.monotonic(), Pace()
        self.tell = self._pace.tell

    @property
    def is_shown(self) -> bool:
        late = time.monotonic() - self._began > _QUIET
        return late and self._pace.done < self._pace.total

    def __rich__(self) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        # In a narrow terminal the bar gives way: the numbers say more.
        row = Table.grid(padding=(0, 2))
        row.add_column(no_wrap=True)
        row.add_column(ratio=1, max_width=30)
        row.add_column(no_wrap=True)
        bar = ProgressBar(total=max(self._pace.total, 1), completed=self._pace.done)
        row.add_row(Text(f"  {self._what}"), bar, Text(str(self._pace), style="dim"))
        return row if self.is_shown else Text("")


@contextmanager
def shown_progress(what: str) -> Iterator[Progress]:
    """Progress for a command without a screen: a bar where a terminal is, else a plain line now and then."""
    if not sys.stderr.isatty():
        yield lines(lambda text: print(f"muster: {text}", file=sys.stderr, flush=True), what)  # noqa: T201
        return
    from rich.console import Console
    from rich.live import Live

    bar = Bar(what)
    with Live(bar, console=Console(stderr=True), refresh_per_second=8, transient=True):
        yield bar.tell
