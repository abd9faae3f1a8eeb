"""Makes `live-view.svg`, the picture in the README: a real run of `examples/dask`, seen by the real live view.

    python docs/make_live_view.py

Run ids, ports and times are those of the run, so each picture differs a little from the last.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.control import Control
from rich.text import Text

from muster import launching
from muster.cli.live import Live
from muster.cli.run import follow
from muster.workdir.loglines import LogLine

DOCS = Path(__file__).parent
WIDTH, LINES = 92, 9
NODES = 4


class Keeping(Console):
    """A terminal that keeps what was printed above the live view."""

    kept: list[tuple[tuple[Any, ...], dict[str, Any]]]

    def print(self, *objects: Any, **options: Any) -> None:
        if not any(isinstance(one, Control) for one in objects):
            self.kept.append((objects, options))
        super().print(*objects, **options)


class Pictured(Live):
    """The live view, which has its picture taken once each node has told what it uses."""

    picture = ""

    def __init__(self, console: Keeping) -> None:
        self._told: set[str] = set()
        self._terminal = console
        super().__init__(console)

    def lines(self, lines: list[LogLine]) -> None:
        super().lines(lines)
        if not self.picture and len(self._told) == NODES and len(self._terminal.kept) > LINES:
            self.picture = self._draw()

    def state(self, state: dict[str, Any]) -> None:
        super().state(state)
        if state.get("kind") == "metrics" and (state["node"] != "main" or state["reported"]):
            self._told.add(state["node"])

    def _draw(self) -> str:
        paper = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
        paper.print(Text("$ muster run examples/dask/job.yaml"))
        for objects, options in self._terminal.kept[-LINES:]:
            paper.print(*objects, **options)
        paper.print(self._live.get_renderable())
        return paper.export_svg(title="muster", code_format=_format(), unique_id="muster")


def _format() -> str:
    """Rich's own frame, without the fonts that it would have every reader fetch from a stranger's server."""
    without_fonts = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return without_fonts.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")


def main() -> int:
    job = launching.load(DOCS.parent / "examples" / "dask" / "job.yaml")
    # Longer than the example: a picture of usage takes a few seconds of it.
    job = replace(job, args=("--rounds", "400"))
    console = Keeping(file=io.StringIO(), force_terminal=True, width=WIDTH, highlight=False)
    console.kept = []
    with tempfile.TemporaryDirectory() as home:
        os.environ["MUSTER_HOME"] = home
        shown = Pictured(console)
        code = follow(launching.start(launching.plan(job), say=shown.say), shown)
    if code or not shown.picture:
        return code or 1
    (DOCS / "live-view.svg").write_text(shown.picture, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
