"""A node's checkpoint folder at a test's hands: every change is heard of, in order, without the kernel's help."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import muster
from muster.workdir.run import RunFolder
from muster.workdir.store import Store
from muster.workdir.sync import CheckpointShipper, Settling, Units
from muster.workdir.units import Heard
from muster.workdir.walking import Stamp


class Clock:
    """The time that units become complete at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("muster.workdir.units.time", SimpleNamespace(time=lambda: self.now))

    def __call__(self) -> float:
        return self.now


class Desk:
    def __init__(self, store: Store, base: Path, node: str = "main", own: bool = True) -> None:
        self.store, self.base, self.node, self.own = store, base, node, own
        self.folder = base / "code" / "checkpoints"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.heard: list[Heard] = []
        self.now: Callable[[], float] = time.time
        self.run = RunFolder(store, "run")
        self.units = Units(self.folder, base / "checkpoints.jsonl", self._take, own)
        self.shipper = CheckpointShipper(store, f"run/checkpoints/{node}", self.units)

    def again(self) -> Desk:
        """The node is killed and started again in its folder."""
        return Desk(self.store, self.base, self.node, self.own)

    def write(self, path: str, content: str = "half", at: float | None = None) -> None:
        """In place."""
        place = self.folder / path
        for above in reversed(place.parents[: len(Path(path).parts) - 1]):
            if not above.exists():
                above.mkdir()
                self.heard.append(Heard(str(above.relative_to(self.folder)), renamed=False))
        place.write_text(content)
        self.heard.append(Heard(path, renamed=False))
        if at is not None:
            os.utime(place, (at, at))

    def move(self, source: str, path: str) -> None:
        (self.folder / source).rename(self.folder / path)
        self.heard.append(Heard(path, renamed=True))

    def replace(self, path: str, content: str) -> None:
        """Written under another name, and renamed."""
        self.write(f"{path}.tmp", content)
        self.move(f"{path}.tmp", path)

    def step(self, name: str, **files: str) -> None:
        """A folder, renamed into place."""
        for path, content in files.items():
            self.write(f"{name}.tmp/{path}", content)
        self.move(f"{name}.tmp", name)

    def name(self, path: str, at: float | None = None) -> bool:
        """By `muster.checkpoint`, as the node reads it."""
        reports = self.base / "reports.jsonl"
        reports.unlink(missing_ok=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MUSTER_REPORT", str(reports))
            patch.setenv("MUSTER_CHECKPOINTS", str(self.folder))
            muster.checkpoint(self.folder / path)  # type: ignore[no-untyped-call]
        said = [json.loads(line) for line in reports.read_text().splitlines()]
        taken = [self._say(one, at) for one in said]
        return all(taken)

    def _say(self, record: dict[str, Any], at: float | None) -> bool:
        stamps = {below: Stamp(*stamp) for below, *stamp in record.get("files", ())}
        return self.units.name(record["checkpoint"], stamps, self.now() if at is None else at)

    def settle(self, generation: int = 2) -> list[str]:
        settling = Settling(self.run, self.node, self.units, self.shipper, self.base / "unfinished")
        settling.settle(generation)
        return settling.told

    def tree(self, folder: Path | None = None) -> dict[str, str]:
        """All files that stand in the folder."""
        top = folder or self.folder
        return {str(path.relative_to(top)): path.read_text() for path in sorted(top.rglob("*")) if path.is_file()}

    def aside(self) -> dict[str, str]:
        """What was moved out of it."""
        return self.tree(self.base / "unfinished")

    def _take(self) -> list[Heard]:
        heard, self.heard = self.heard, []
        return heard
