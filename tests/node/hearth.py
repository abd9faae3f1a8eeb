"""What a node brings home, without the rest of the node: its own folder, a real work dir, and whoever writes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from muster.node.homebound import Homebound
from muster.spec.job import Job
from muster.workdir.checkpoints import Checkpoint, checkpoints
from muster.workdir.folder import FolderStore
from muster.workdir.records import NodeRecord
from muster.workdir.run import RunFolder
from muster.workdir.store import Store


class Hearth:
    """Must be made in a running loop, before whoever writes."""

    def __init__(self, base: Path, node: str = "main", own: bool = True, store: Store | None = None) -> None:
        """Where a store is given, outputs are brought there too."""
        self.base, self.node, self.own, self.store = base, node, own, store
        self.folder = base / node
        self.checkpoints = self.folder / "code" / "checkpoints"
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        self.outputs = self.folder / "code" / "outputs"
        self.outputs.mkdir(exist_ok=True)
        self.run = RunFolder(store or FolderStore(base / "runs"), "run")
        self.said: list[str] = []
        self.home = Homebound(cast("Any", self._node()))
        self._tasks: list[asyncio.Task[None]] = []

    def _node(self) -> SimpleNamespace:
        outputs = "outputs" if self.store else None
        job = Job(name="test", framework="plain", entry="script.py", outputs=outputs, checkpoints="checkpoints")
        return SimpleNamespace(
            job=job,
            run=self.run,
            ground=SimpleNamespace(code=self.folder / "code"),
            settings=SimpleNamespace(folder=self.folder, code="digest" if self.own else None),
            record=NodeRecord(node=self.node, role=self.node.partition("-")[0], state="running", host="here", pid=1),
            side=SimpleNamespace(show=lambda _message: None),
            say=self.said.append,
        )

    def again(self) -> Hearth:
        """The node program was killed, and starts again in its folder."""
        self.close()
        return Hearth(self.base, self.node, self.own, self.store)

    def ships(self) -> None:
        """From now on it looks by itself, as in a run."""
        self._tasks.append(asyncio.ensure_future(self.home.ship()))

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self.home._checkpoints:
            self.home._checkpoints.close()

    def writer(self, script: str) -> subprocess.Popen[str]:
        """A process of this node; each line that it prints is a place to wait for."""
        env = {
            **os.environ,
            "MUSTER_REPORT": str(self.folder / "reports.jsonl"),
            "MUSTER_CHECKPOINTS": str(self.checkpoints),
            "TMPDIR": str(self.folder),
        }
        return subprocess.Popen(
            [sys.executable, "-c", script], cwd=self.folder / "code", env=env, stdout=subprocess.PIPE, text=True
        )

    async def run_until(self, script: str, line: str | None = None) -> None:
        """Runs a script to its end, or kills it when it prints this."""
        with self.writer(script) as process:
            assert process.stdout is not None
            while (said := await asyncio.to_thread(process.stdout.readline)) and said.strip() != line:
                pass
            if line is not None:
                assert said, f"the script ended with {process.wait()} and did not print {line!r}"
                process.send_signal(signal.SIGKILL)
            else:
                assert process.wait() == 0

    def tree(self) -> dict[str, str]:
        """The files that stand in the checkpoint folder."""
        found = sorted(path for path in self.checkpoints.rglob("*") if path.is_file())
        return {str(path.relative_to(self.checkpoints)): path.read_text(errors="replace") for path in found}

    def kept(self, where: Callable[[Checkpoint], bool] = lambda _: True) -> list[str]:
        """The names of what is in the work dir."""
        return [one.name for one in checkpoints(self.run, self.node) if where(one)]
