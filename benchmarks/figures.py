"""Figures: rows of one table, with the machine that they were measured on."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .measuring import Sample, median

BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
_HEADS = ("benchmark", "case", "median", "least", "p95", "CPU", "ratio", "CPU ratio", "aim", "samples")


@dataclass(frozen=True)
class Row:
    benchmark: str
    case: str
    value: float
    unit: str
    samples: int
    least: float | None = None
    p95: float | None = None
    cpu: float | None = None
    """Seconds."""
    ratio: float | None = None
    """Of the value to the first case's."""
    cpu_ratio: float | None = None
    aim: str = ""

    def cells(self) -> tuple[str, ...]:
        return (
            self.benchmark,
            self.case,
            _quantity(self.value, self.unit),
            "" if self.least is None else _quantity(self.least, self.unit),
            "" if self.p95 is None else _quantity(self.p95, self.unit),
            "" if self.cpu is None else _quantity(self.cpu, "s"),
            "" if self.ratio is None else f"{self.ratio:.2f}",
            "" if self.cpu_ratio is None else f"{self.cpu_ratio:.2f}",
            self.aim,
            str(self.samples),
        )


def compared(benchmark: str, samples: dict[str, list[Sample]], aims: dict[str, str]) -> list[Row]:
    """A row for each case; the first is what the others are compared with."""
    walls = {case: median(sample.wall for sample in taken) for case, taken in samples.items()}
    cpus = {case: median(sample.cpu for sample in taken) for case, taken in samples.items()}
    base = next(iter(samples))
    return [
        Row(
            benchmark,
            case,
            walls[case],
            "s",
            len(taken),
            least=min(sample.wall for sample in taken),
            cpu=cpus[case],
            ratio=None if case == base else walls[case] / walls[base],
            cpu_ratio=None if case == base else cpus[case] / cpus[base],
            aim=aims.get(case, ""),
        )
        for case, taken in samples.items()
    ]


def machine() -> dict[str, Any]:
    """What a reader must know to compare the figures with others."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cpus": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": version("torch"),
        "distributed": version("distributed"),
        "load": round(os.getloadavg()[0], 2),
    }


def sentence(about: dict[str, Any]) -> str:
    return (
        f"Measured on {about['date']}: {about['cpus']} CPUs, {about['system']}, Python {about['python']}, "
        f"torch {about['torch']}, distributed {about['distributed']}; load average at the start {about['load']}."
    )


def aligned(rows: Iterable[Row]) -> str:
    """The table for a terminal."""
    cells = [_HEADS, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEADS))]
    left = {0, 1, 8}
    return "\n".join(
        "  ".join(
            text.ljust(width) if column in left else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    )


def write_page(page: Path, about: dict[str, Any], rows: Sequence[Row]) -> None:
    """Puts the figures of this run in the place of those that stand in the page."""
    head, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, tail = rest.partition(END)
    lines = [_markdown(_HEADS), _markdown(["---"] * len(_HEADS)), *(_markdown(row.cells()) for row in rows)]
    page.write_text("\n".join([f"{head}{BEGIN}", sentence(about), "", *lines, f"{END}{tail}"]), encoding="utf-8")


def as_json(about: dict[str, Any], rows: Iterable[Row]) -> dict[str, Any]:
    return {"machine": about, "rows": [asdict(row) for row in rows]}


def _markdown(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _quantity(value: float, unit: str) -> str:
    places = {"s": 3, "ms": 2}.get(unit, 0)
    return f"{value:.{places}f} {unit}"
