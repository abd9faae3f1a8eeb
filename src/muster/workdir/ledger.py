"""A file of lines that a program appends to and reads when it starts again, however it ended."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


class Ledger:
    """One JSON object a line."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def records(self) -> Iterator[Mapping[str, Any]]:
        """All that was written. What was cut short when the program was killed is left out."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return
        if data and not data.endswith(b"\n"):
            self._append(b"\n")
        for line in data.splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue

    def write(self, record: Mapping[str, Any]) -> None:
        self._append(json.dumps(record, separators=(",", ":")).encode() + b"\n")

    def _append(self, data: bytes) -> None:
        with self._path.open("ab", buffering=0) as file:
            file.write(data)
