"""Each benchmark works: it runs once in its smallest form, says what it measured, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.__main__ import BENCHMARKS
from benchmarks.figures import BEGIN, END
from benchmarks.simulated import LATE, totals

from tests.harness import eventually

ROOT = Path(__file__).parents[2]
CASES = {
    "startup": ["python -c pass", "muster --help", "muster ps (20 runs)"],
    "pytorch": ["by hand", "muster run", "torchrun"],
    "dask": ["dask scheduler, dask worker", "muster run"],
    "tensorflow": ["by hand", "muster run"] * 3,
    "horovod": ["horovodrun", "muster run"] * 3,
    "leaving": ["python script.py", "muster run, 2 nodes", "muster run, dask with 3 workers"],
    "lines": ["plain pipe", "muster run, 2 nodes", "torchrun --tee 3, unbuffered"],
    "second_upload": [
        f"{tree}: {case}"
        for tree, large in (("50 files of 100 KB", "0017.bin"), ("one of 2 MB", "weights.bin"))
        for case in ("all of it", "a line in train.py", f"a line in {large}")
    ],
    "transfers": ["rclone, 32 transfers", "s3fs", "muster"] * 4,
    "log_shipping": ["CPU per million lines", "lines per second taken"],
    "requests": ["1 nodes: main", "10 nodes: main", "10 nodes: a worker", "100 nodes: main", "100 nodes: a worker"],
    "meeting": [
        "limit: one put and one get",
        "50 nodes until ready",
        "50 nodes: a worker",
        "50 nodes: main",
        "50 nodes: all",
    ],
    "oci": [
        *[
            "ADS's sequence",
            "muster run --detach",
            "ADS's sequence",
            "muster run --detach",
            "muster run --detach: the work dir",
        ]
        * 2,
        "1 to 4 nodes",
        "python script.py",
        "muster run: all job runs ended",
        "muster run: returned, job deleted",
    ],
}


def calls_of_a_launch(rows: list[dict[str, Any]]) -> None:
    """One for each node; for all together the subnet, the job, and looks at the job until it is active."""
    calls = {(row["benchmark"], row["case"]): row["value"] for row in rows if row["unit"] == "calls"}
    assert calls["oci: calls, each node more", "1 to 4 nodes"] == 1
    for nodes in (1, 4):
        assert nodes + 2 <= calls[f"oci: calls, {nodes} nodes", "muster run --detach"] <= nodes + 5
        assert calls[f"oci: calls, {nodes} nodes", "ADS's sequence"] == 3 + 2 * nodes


COUNTS: dict[str, Callable[[list[dict[str, Any]]], None]] = {"oci": calls_of_a_launch}
"""What is counted and not timed is the same on every machine."""


def run(module: str, *words: str | Path, temporary: Path) -> str:
    """What a module of the benchmarks prints, with a temporary folder of its own that is empty again afterwards."""
    temporary.mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", module, *map(str, words)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            printed, said = process.communicate(timeout=280)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == 0, said
    eventually(lambda: not processes_of(temporary))
    assert list(temporary.iterdir()) == []
    return printed


def processes_of(temporary: Path) -> list[str]:
    """The processes that were started with this temporary folder, which everything below a benchmark inherits."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if str(temporary).encode() in (entry / "environ").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_measures_each_of_its_cases(name: str, tmp_path: Path) -> None:
    printed = run("benchmarks", name, "--quick", "--json", tmp_path / "figures.json", temporary=tmp_path / "t")
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert [row["case"] for row in figures["rows"]] == CASES[name]
    assert all(row["value"] > 0 and row["samples"] > 0 for row in figures["rows"])
    assert all(case in printed for case in CASES[name])
    assert f"{os.cpu_count()} CPUs" in printed
    if name in COUNTS:
        COUNTS[name](figures["rows"])


@pytest.mark.slow
def test_requests_of_a_worker_are_constant_and_those_of_main_do_not_grow_with_nodes(tmp_path: Path) -> None:
    counted: dict[int, dict[str, Any]] = {
        nodes: json.loads(run("benchmarks.simulated", str(nodes), temporary=tmp_path / f"t{nodes}"))
        for nodes in (1, 10, 100)
    }
    for nodes, seen in counted.items():
        requests, seconds = totals(seen["requests"]), seen["clock"]
        assert len(requests) == nodes
        assert nodes == 1 or seconds >= LATE
        # Each second main looks for a stop file and for nodes without a channel; the rest is once per life or beat.
        assert requests.pop("main") <= 20 + 3 * seconds
        assert all(count <= 20 + seconds for count in requests.values())


@pytest.mark.slow
def test_the_figures_of_a_run_take_the_place_of_those_in_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{BEGIN}\nold\n{END}\n\nafter\n")
    run("benchmarks", "startup", "--quick", "--page", page, temporary=tmp_path / "t")
    before, _, rest = page.read_text().partition(BEGIN)
    figures, _, after = rest.partition(END)
    assert (before, after) == ("before\n\n", "\n\nafter\n")
    assert "old" not in figures
    assert "| start-up | muster --help |" in figures
    assert "Measured on" in figures
