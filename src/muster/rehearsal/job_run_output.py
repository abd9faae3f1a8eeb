"""What the nodes of a run print: it goes to the run's log, where it has one, else to a file of the rehearsal's own."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from .data_science_permits import has
from .data_science_settings import Settings
from .identity import Principal
from .job_run_node import Node

KIND = "com.oraclecloud.datascience.jobrun"


def output_file(folder: Path, run: str) -> Path:
    return folder / "output" / f"{run}.log"


class Output:
    """Takes lines, from any thread."""

    def __init__(self, row: Mapping[str, Any], settings: Settings) -> None:
        self._run = str(row["id"])
        self._details = row.get("logDetails") or {}
        self._log = "" if settings.logs is None else str(self._details.get("logId", ""))
        self._settings = settings
        self._file: TextIO | None = None
        self._lock = threading.Lock()

    def refused(self, who: Principal) -> str:
        """Why the run cannot log; its lines go to the file then."""
        if self._settings.logs is None or not self._log:
            return ""
        group = str(self._details["logGroupId"])
        where = self._settings.logs.compartment_of(group)
        if has(self._settings.permit, who, "push_logs", where, {"target.loggroup.id": group}):
            return ""
        log, self._log = self._log, ""
        return f"The job run is not allowed to write to its log {log}."

    def __call__(self, node: Node, line: str) -> None:
        if self._settings.logs is not None and self._log:
            subject = f"{node.group.name}/{node.replica}" if node.group.name else ""
            self._settings.logs.write(self._log, line, self._run, KIND, subject)
            return
        with self._lock:
            if self._file is None:
                path = output_file(self._settings.folder, self._run)
                path.parent.mkdir(parents=True, exist_ok=True)
                self._file = path.open("a", encoding="utf-8", buffering=1)
            self._file.write(line + "\n")

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.close()
