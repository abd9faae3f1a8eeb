"""The job file that an Oracle ADS file stands for, while it is put together.

It is read like any job file, with the same checks; what is wrong with it is then told where the ADS file says it.
"""

from __future__ import annotations

from typing import Any

from ..errors import Problem
from .problems import Problems


class Draft:
    """Settings of a job file, and for each the field of the ADS file that it comes from."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        self._origins: dict[str, str] = {}

    def put(self, value: Any, origin: str, *keys: str) -> None:
        """Puts a value under `keys`, one inside the other."""
        table = self.settings
        for key in keys[:-1]:
            table = table.setdefault(key, {})
        table[keys[-1]] = value
        self._origins[".".join(keys)] = origin

    def get(self, *keys: str) -> Any:
        """What is under `keys`; None where nothing is."""
        found: Any = self.settings
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found

    def drop(self, *keys: str) -> None:
        """Takes away what is under `keys`, and the tables that it leaves empty."""
        for count in range(len(keys), 0, -1):
            table = self.get(*keys[: count - 1])
            if isinstance(table, dict) and (count == len(keys) or not table.get(keys[count - 1])):
                table.pop(keys[count - 1], None)

    def origin(self, path: str) -> str:
        """The field of the ADS file that a setting comes from; of a table's first setting, or of the one around it."""
        while path and path not in self._origins:
            inner = next((known for known in self._origins if known.startswith(f"{path}.")), None)
            path = inner or path[: max(path.rfind("."), path.rfind("["), 0)]
        return self._origins.get(path, "spec")

    def tell(self, found: list[Problem], problems: Problems) -> None:
        """Notes what is wrong with the job file, unless its field, or one around it, was complained about already."""
        blamed = {problem.field for problem in problems.found()}
        for problem in found:
            origin = self.origin(problem.field)
            around = {field for field in blamed if origin.startswith((f"{field}.", f"{field}["))}
            if problems.clean(origin) and not around:
                problems.add(origin, problem.message, problem.fix)
