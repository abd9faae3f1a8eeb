"""What the doctor finds, and how he looks: many checks at once, in order, within a bound."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from ..errors import MusterError

State = Literal["ok", "warn", "fail", "skipped"]
WITHIN = 9.0
"""Seconds for all checks together."""
_QUIET = 1.0


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    check: str
    state: State
    what: str
    fix: str = ""

    def to_json(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True)
class Check:
    """A look at one thing, which may bring several findings. What it raises is a finding too."""

    name: str
    look: Callable[[], Iterable[Finding]]


Waiting = Callable[[Sequence[str]], None]


def ok(check: str, what: str) -> Finding:
    return Finding(check, "ok", what)


def warn(check: str, what: str, fix: str) -> Finding:
    return Finding(check, "warn", what, fix)


def fail(check: str, what: str, fix: str) -> Finding:
    return Finding(check, "fail", what, fix)


def skipped(check: str, what: str, fix: str = "") -> Finding:
    return Finding(check, "skipped", what, fix)


def healthy(findings: Iterable[Finding]) -> bool:
    """Whether nothing is in the way of a run."""
    return all(finding.state != "fail" for finding in findings)


def look(checks: Sequence[Check], within: float = WITHIN, waiting: Waiting = lambda _names: None) -> list[Finding]:
    """The findings of all checks, in the checks' order. `waiting` is told whom it still waits for after a second."""
    until = time.monotonic() + within
    looks = [_Look(check) for check in checks]
    _wait(looks, min(until, time.monotonic() + _QUIET))
    if late := [each.check.name for each in looks if each.is_alive()]:
        waiting(late)
    _wait(looks, until)
    return [finding for each in looks for finding in each.findings(within)]


def _wait(looks: Iterable[_Look], until: float) -> None:
    for each in looks:
        each.join(max(until - time.monotonic(), 0.0))


class _Look(threading.Thread):
    """One check. Nobody waits for a service that does not answer: it is left behind."""

    def __init__(self, check: Check) -> None:
        super().__init__(name=f"doctor-{check.name}", daemon=True)
        self.check = check
        self._found: list[Finding] = []
        self.start()

    def run(self) -> None:
        found: list[Finding] = []
        try:
            for finding in self.check.look():
                found.append(finding)
                self._found = list(found)
        except MusterError as error:
            self._found = [*found, Finding(self.check.name, "fail", error.message, error.fix)]

    def findings(self, within: float) -> list[Finding]:
        late = Finding(
            self.check.name,
            "fail",
            f"no answer within {within:g} s",
            "Can this machine reach the service? Behind a proxy, HTTPS_PROXY must be set.",
        )
        return [*self._found, *([late] if self.is_alive() else [])]
