"""Long commands, one after the other: all they say goes to a log, and whoever waits hears how far they are."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import MusterError

Say = Callable[[str], None]

REMINDER = 10.0
_SHOWN = 6
_ERROR = re.compile(r"error: |^CMake Error|undefined reference|cannot find -l|^ERROR|Error: ")
_PROGRESS = re.compile(rb"^\[ *(\d+)%\]", re.MULTILINE)


@dataclass(frozen=True)
class Steps:
    """Commands of one undertaking, with its folder, its log and its environment."""

    folder: Path
    log: Path
    env: Mapping[str, str]
    say: Say

    def call(self, step: str, argv: list[str], cwd: Path | None = None, **variables: str) -> None:
        """Runs a command. An error has the first things that went wrong; the rest is in the log."""
        self.say(step)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        with self.log.open("ab") as log:
            start = log.tell()
            # A session of its own, so that no compiler is left when this is ended.
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=cwd or self.folder,
                env={**self.env, **variables},
                start_new_session=True,
            )
        try:
            while (code := _wait(process)) is None:
                self.say(f"{step}: {self._done(start)}{_span(time.monotonic() - began)}")
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        if code:
            raise self._failure(step, code, start)

    def _done(self, start: int) -> str:
        """How much is done, as make and CMake say it."""
        found = _PROGRESS.findall(self.log.read_bytes()[start:])
        return f"{int(found[-1])} %, " if found else ""

    def _failure(self, step: str, code: int, start: int) -> MusterError:
        lines = self.log.read_bytes()[start:].decode(errors="replace").splitlines()
        first = [line.strip() for line in lines if _ERROR.search(line)][:_SHOWN] or lines[-_SHOWN:]
        told = "".join(f"\n      {line[:300]}" for line in first)
        fix = f"All that was said stands in {self.log}"
        if any("Killed" in line for line in first):
            fix = f"The memory was too small for so many compilers: try again with --jobs 1.\n    {fix}"
        return MusterError(f"{step} failed with exit code {code}:{told}", fix)


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(REMINDER)
    except subprocess.TimeoutExpired:
        return None


def _span(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
