"""The floor plan: a file imports only from its own floor or below. Read from the sources; nothing is imported."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import muster

pytestmark = pytest.mark.unit

ROOT = Path(muster.__file__).parent

FLOORS = (
    {"errors", "report"},
    {"spec"},
    {"clouds"},
    {"workdir", "frameworks"},
    {"node", "images", "access"},
    {"targets"},
    {"rehearsal", "pool", "launching", "cloud_runs"},
    {"web"},
    {"cli"},
)
"""From the ground up. `__init__` is the door and `__main__` the command: both lead everywhere."""

FLOOR = {unit: number for number, units in enumerate(FLOORS) for unit in units}
ROOF = {"web", "cli"}


def sources() -> list[Path]:
    """Every module of the package; scripts that run in the user's own Python are none."""
    return [path for path in sorted(ROOT.rglob("*.py")) if not {"shim", "templates"} & set(path.parts)]


def unit_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Each unit of ours that a file imports, with the line: by statement, or by a name that is imported when used."""
    package = ("muster", *path.relative_to(ROOT).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            names = [f"{module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value.partition(":")[0]] if re.fullmatch(r"muster(\.\w+)+(:\w+)?", node.value) else []
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "muster" and len(parts) > 1 and is_unit(parts[1]):
                yield getattr(node, "lineno", 0), parts[1]


def is_unit(name: str) -> bool:
    return (ROOT / name).is_dir() or (ROOT / f"{name}.py").is_file()


def test_every_folder_and_module_has_its_floor() -> None:
    found = {unit_of(path) for path in sources()} - {"__init__", "__main__"}
    assert found <= set(FLOOR), f"give {sorted(found - set(FLOOR))} a floor"


def test_nothing_is_imported_from_a_floor_above() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {unit}"
        for path in sources()
        if (own := unit_of(path)) in FLOOR
        for line, unit in imports(path)
        if FLOOR[unit] > FLOOR[own]
    ]
    assert wrong == []


def test_nothing_but_the_command_imports_the_roof() -> None:
    for path in sources():
        own = unit_of(path)
        used = {unit for _, unit in imports(path)} & ROOF - {own}
        assert not used or own == "__main__", f"{path.relative_to(ROOT)} imports {used}"


def test_the_walk_sees_what_it_must() -> None:
    """Else a change of this test's own code could let everything pass."""
    assert {unit for _, unit in imports(ROOT / "cli" / "run.py")} >= {"launching"}
    assert {unit for _, unit in imports(ROOT / "targets" / "registry.py")} >= {"errors", "spec", "targets"}
    assert {unit for _, unit in imports(ROOT / "node" / "program.py")} >= {"errors", "frameworks", "spec", "workdir"}
    assert {unit for _, unit in imports(ROOT / "launching.py")} >= {"targets", "workdir", "node"}


def test_what_is_pure_opens_no_file_and_starts_no_process() -> None:
    """`life` and `cluster` decide; they have neither clock nor file nor process."""
    for name in ("life", "cluster", "messages"):
        tree = ast.parse((ROOT / "node" / f"{name}.py").read_text(encoding="utf-8"))
        modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert modules & {"os", "time", "asyncio", "subprocess", "socket", "random", "pathlib"} == set()
