"""What `muster run` shows: a live view in a terminal, plain lines in a pipe, nothing when quiet."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..workdir.loglines import LogLine
from ..workdir.progress import Progress, lines, unseen
from ..workdir.records import Result

_NAMED = 6
_PATIENCE = 1.0
"""Seconds of waiting after which the missing nodes are named."""


class Screen:
    """Plain lines: the script's to standard output, Muster's own to standard error."""

    watches = True
    """Whether it shows what happens in between. Lines that nobody sees need not come here."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._links: dict[str, str] = {}
        self._missing: tuple[str, ...] = ()
        self._waiting: tuple[str, ...] = ()

    def say(self, text: str) -> None:
        print(f"muster: {text}", file=sys.stderr, flush=True)  # noqa: T201

    def progress(self, what: str) -> Progress:
        """Shows how far something has come, if it takes longer than a moment."""
        return lines(self.say, what)

    def begin(self, run: str) -> None:
        self._run = run
        self.say(f"run {run}")

    def lines(self, lines: list[LogLine]) -> None:
        for line in lines:
            if line.stream == "note":
                self.say(f"{line.node}: {line.text}")
        text = "".join(f"{prefix(line)}{line.text}\n" for line in lines if line.stream in ("out", "err"))
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()

    def state(self, state: dict[str, Any]) -> None:
        """What main says of the cluster, and each node of itself (of kind `metrics`)."""
        for name, link in state.get("links", {}).items():
            if self._links.get(name) != link:
                self._links[name] = link
                self.say(f"{name}: {link}")
        self._missing = tuple(state.get("missing", self._missing))
        self.remind()

    def remind(self) -> None:
        """Names the nodes that are awaited, each time they have become fewer. Called now and then."""
        if self._missing and self._missing != self._waiting and time.monotonic() - self._began > _PATIENCE:
            self._waiting = self._missing
            self.say(f"waiting for {some(self._missing)}")

    def end(self, result: Result) -> None:
        for line in summary(result, time.monotonic() - self._began):
            self.say(line)

    def close(self) -> None:
        """Leaves the terminal as it was."""


class Quiet(Screen):
    """Nothing but a failed end."""

    watches = False

    def say(self, text: str) -> None:
        pass

    def progress(self, what: str) -> Progress:
        return unseen

    def lines(self, lines: list[LogLine]) -> None:
        pass

    def end(self, result: Result) -> None:
        if result.exit_code:
            for line in summary(result, time.monotonic() - self._began):
                print(f"muster: {line}", file=sys.stderr)  # noqa: T201


@contextmanager
def screen(quiet: bool) -> Iterator[Screen]:
    shown = _screen(quiet)
    try:
        yield shown
    finally:
        shown.close()


def _screen(quiet: bool) -> Screen:
    # A script may print what the terminal has no letters for; that must not end the run.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if quiet:
        return Quiet()
    if sys.stdout.isatty() and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        from .live import Live

        return Live()
    return Screen()


def some(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def prefix(line: LogLine) -> str:
    who = f"rank {line.rank}" if line.rank is not None else f"{line.node} {line.process}"
    return f"[{who}] "


def summary(result: Result, seconds: float) -> list[str]:
    """The end in a few lines: a failing rank's own words come first."""
    told = []
    failure = result.failure
    if failure and result.exit_code:
        rank = f"{failure.process} on {failure.node}" if failure.process != "node" else failure.node
        words = "Its last lines:" if failure.tail else "It said nothing."
        told.append(f"{rank} failed first, with exit code {failure.exit_code}. {words}")
        told += [f"  {line}" for line in failure.tail]
    detail = f": {result.detail}" if result.detail else ""
    told.append(f"run {result.run} {result.state} after {seconds:.1f} s ({result.end.value}{detail})")
    return told
