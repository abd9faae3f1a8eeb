"""The contract of targets, on this machine."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from muster import launching
from muster.errors import LaunchError
from tests.harness import MARK, PLUGINS, Muster, eventually, marked
from tests.targets.target_contract import WAITS, TargetContract, job


@dataclass
class Here:
    muster: Muster
    on: str = "local"
    remote: bool = False
    fields: dict[str, Any] = field(default_factory=dict)

    def left(self) -> list[str]:
        return [*marked(self.muster.env[MARK]).values()]

    def refused(self, number: int) -> str:
        """A plan that names a folder which cannot be made."""
        file = self.muster.folder / "file"
        file.touch()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.muster.env.items():
                patch.setenv(name, value)
            patch.syspath_prepend(str(PLUGINS))
            plan = launching.plan(launching.load(job(self, WAITS, workers=3)), "local", self.muster.folder)
            nodes = list(plan.nodes)
            nodes[number - 1] = replace(nodes[number - 1], folder=str(file / "{run}" / nodes[number - 1].name))
            with pytest.raises(LaunchError) as refusal:
                launching.start(replace(plan, nodes=tuple(nodes)))
        return str(refusal.value)

    def kill(self, run: str, node: str) -> None:
        path = self.muster.runs / run / "nodes" / f"{node}.json"
        os.kill(json.loads(eventually(lambda: path.exists() and path.read_text()))["pid"], signal.SIGKILL)


@pytest.fixture
def place(muster: Muster) -> Here:
    return Here(muster)


class TestLocal(TargetContract):
    """Nodes are processes."""
