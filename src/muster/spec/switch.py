"""A setting that is on, off, or left to where the job runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .kinds import Shown, Wrong, refuse
from .nodes import Node, Scalar
from .problems import Problems

AUTO = "auto"


@dataclass(frozen=True)
class Switch(Shown):
    """`true`, `false` or `auto`."""

    expected: str = "true, false or auto"

    def read(self, node: Node, path: str, problems: Problems) -> bool | str | Wrong:
        if isinstance(node, Scalar) and (isinstance(node.value, bool) or node.value == AUTO):
            return node.value
        return refuse(self, node, path, problems)

    def schema(self) -> dict[str, Any]:
        return {"enum": [AUTO, True, False]}
