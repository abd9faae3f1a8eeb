"""The live view: lines scroll by, and below them stands the cluster as it is now."""

from __future__ import annotations

import sys
import time
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live as RichLive
from rich.table import Table
from rich.text import Text

from ..spec.units import size_text
from ..workdir.loglines import LogLine
from ..workdir.names import node_order
from ..workdir.progress import Progress
from ..workdir.records import Result
from .bar import Bar
from .screen import Screen, prefix, summary

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_red", "bright_cyan", "bright_magenta")
_STATES = {
    "started": "green",
    "done": "green",
    "present": "yellow",
    "failed": "red",
    "lost": "red",
    "left": "dim",
}
_SHOWN = 12
"""Rows of nodes; a larger cluster is counted."""


class Live(Screen):
    def __init__(self, console: Console | None = None) -> None:
        super().__init__()
        self._console = console or Console(file=sys.stdout, highlight=False)
        self._seen: dict[str, str] = {}
        self._state: dict[str, Any] = {}
        self._metrics: dict[str, dict[str, Any]] = {}
        self._doing = ""
        self._bar: Bar | None = None
        self._live = RichLive(get_renderable=self._render, console=self._console, refresh_per_second=8, transient=True)
        self._live.start()

    def say(self, text: str) -> None:
        self._doing = text
        self._console.print(Text(f"muster: {text}", style="dim"))

    def progress(self, what: str) -> Progress:
        self._bar = Bar(what)
        return self._bar.tell

    def lines(self, lines: list[LogLine]) -> None:
        for line in lines:
            if line.stream == "note":
                self.say(f"{line.node}: {line.text}")
            elif line.stream in ("out", "err"):
                mark = prefix(line)
                text = Text.assemble((mark, self._colour(mark)))
                text.append_text(Text.from_ansi(line.text))
                self._console.print(text, soft_wrap=True)

    def state(self, state: dict[str, Any]) -> None:
        if state.get("kind") == "metrics":
            self._metrics[state["node"]] = state
            return
        self._state = state
        super().state(state)

    def end(self, result: Result) -> None:
        self.close()
        style = "green" if result.exit_code == 0 else "red"
        for line in summary(result, time.monotonic() - self._began):
            self._console.print(Text(line, style=style), soft_wrap=True)

    def close(self) -> None:
        self._live.stop()

    def _values(self, node: str) -> tuple[Text, Text]:
        """What the node uses, and what its script last reported."""
        metrics = self._metrics.get(node, {})
        usage, reported = metrics.get("usage") or {}, metrics.get("reported") or {}
        used = f"cpu {usage['cpu_percent']:.0f}%  {size_text(int(usage['memory_bytes']))}" if usage else ""
        said = [f"{name}={value:.4g}" for values in reported.values() for name, value in values.items()]
        return Text(used, style="dim"), Text("  ".join(said[:6]), style="cyan")

    def _colour(self, mark: str) -> str:
        return self._seen.setdefault(mark, _COLOURS[len(self._seen) % len(_COLOURS)])

    def _render(self) -> RenderableType:
        seconds = time.monotonic() - self._began
        missing = self._state.get("missing", [])
        if self._state.get("ready"):
            head = Text(f"● ready   {seconds:5.0f} s", style="bold green")
        elif missing:
            head = Text(f"○ waiting for {', '.join(missing[:6])}   {seconds:5.0f} s", style="bold yellow")
        else:
            head = Text(f"○ {self._doing or 'starting'}   {seconds:5.0f} s", style="bold yellow")
        nodes = Table.grid(padding=(0, 2))
        known = self._state.get("nodes", {})
        for name in sorted(known, key=node_order)[:_SHOWN]:
            state = known[name]
            nodes.add_row(Text(f"  {name}"), Text(state, style=_STATES.get(state, "")), *self._values(name))
        if len(known) > _SHOWN:
            nodes.add_row(Text(f"  and {len(known) - _SHOWN} more"), Text(""))
        links = Text("   ".join(f"{name}: {link}" for name, link in self._state.get("links", {}).items()), style="dim")
        return Group(Text(""), head, *([self._bar] if self._bar and self._bar.is_shown else []), nodes, links)
