"""A Muster for tests: the command in a world of its own, jobs made of a script, and a look at what is running."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PLUGINS = Path(__file__).parent / "plugins"
MARK = "TEST_MARK"
"""Not `MUSTER_…`: a launcher keeps such variables from its nodes, and the mark must reach every process."""


@dataclass
class Muster:
    """The command, with a home and an environment of its own."""

    home: Path
    folder: Path
    env: dict[str, str]
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def __call__(self, *words: str | Path, check: int | None = 0, **env: str) -> subprocess.CompletedProcess[str]:
        """Runs the command to its end and, unless `check` is None, insists on its exit code."""
        done = subprocess.run(
            self.argv(*words), env={**self.env, **env}, cwd=self.folder, capture_output=True, text=True, timeout=240
        )
        if check is not None:
            assert done.returncode == check, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def start(self, *words: str | Path, **env: str) -> subprocess.Popen[str]:
        """Starts the command and leaves it running."""
        process = subprocess.Popen(
            self.argv(*words),
            env={**self.env, **env},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def argv(self, *words: str | Path) -> list[str]:
        return [sys.executable, "-m", "muster", *map(str, words)]

    def job(self, script: str | None, framework: str = "plain", **fields: Any) -> Path:
        """A job file, with its script beside it."""
        import yaml

        folder = self.folder / f"job-{len(list(self.folder.iterdir()))}"
        (folder / "code").mkdir(parents=True)
        whole = {"name": "test", "framework": framework, "code": "code", **fields}
        if script is not None:
            (folder / "code" / "script.py").write_text(script, encoding="utf-8")
            whole.setdefault("entry", "script.py")
        (folder / "job.yaml").write_text(yaml.safe_dump(whole, allow_unicode=True), encoding="utf-8")
        return folder / "job.yaml"

    @property
    def runs(self) -> Path:
        return self.home / "runs"

    def run_id(self, known: tuple[str, ...] = ()) -> str:
        """The id of the newest run, once there is one."""
        return str(eventually(lambda: next((run for run in self._ids() if run not in known), None)))

    def _ids(self) -> list[str]:
        index = self.home / "index"
        paths = sorted(index.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
        return [path.stem for path in paths]


def eventually(look: Callable[[], Any], within: float = 30.0) -> Any:
    """The first answer of `look` that is true. Fails when none comes in time."""
    until = time.monotonic() + within
    while not (found := look()):
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)
    return found


def marked(mark: str) -> dict[int, str]:
    """The living processes that carry this test's mark, and their command lines."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if f"{MARK}={mark}\0".encode() in (entry / "environ").read_bytes() + b"\0":
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                if state not in ("Z", "X"):
                    found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
    return found
