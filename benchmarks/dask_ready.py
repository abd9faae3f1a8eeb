"""A Dask scheduler and three workers, from nothing until all are registered: Dask's own command, and Muster."""

from __future__ import annotations

import json
import signal
import subprocess
import time
import urllib.request
from collections.abc import Sequence

import psutil

from .figures import Row, compared
from .measuring import Sample, Start, cpu_of_trees, interleaved, waited
from .world import World, free_port, tool

_WORKERS = 3
_PATIENCE = 120.0


def measure(world: World, rounds: int | None, quick: bool) -> list[Row]:
    cases = {"dask scheduler, dask worker": lambda: _by_hand(world), "muster run": lambda: _muster(world)}
    samples = interleaved(cases, rounds or (1 if quick else 9), warm=not quick)
    return compared(f"dask, {_WORKERS} workers ready", samples, {"muster run": "ratio 1.1"})


def _by_hand(world: World) -> Sample:
    port, dashboard = free_port(), free_port()
    here = ("--host", "127.0.0.1")
    scheduler = (*("dask", "scheduler"), *here, "--port", str(port), "--dashboard-address", f"127.0.0.1:{dashboard}")
    worker = (*("dask", "worker"), f"tcp://127.0.0.1:{port}", *here, "--no-dashboard", "--nthreads", "1")
    places = [("--local-directory", str(world.folder / f"dask-{number}")) for number in range(_WORKERS)]
    starts = [_dask(world, scheduler), *(_dask(world, (*worker, *place)) for place in places)]
    began = time.perf_counter()
    processes = [start.popen() for start in starts]
    try:
        return _until_ready(began, dashboard, processes)
    finally:
        _end(processes)


def _dask(world: World, argv: Sequence[str]) -> Start:
    return world.start(tool(argv[0]), *argv[1:])


def _muster(world: World) -> Sample:
    port, dashboard, release = free_port(), free_port(), world.folder / f"release-{time.monotonic_ns()}"
    options = {"port": port, "dashboard_port": dashboard}
    job = world.job("dask", "until_released.py", args=[str(release)], workers=_WORKERS, options=options)
    began = time.perf_counter()
    process = world.muster("run", job).popen()
    try:
        sample = _until_ready(began, dashboard, [process])
        release.touch()
        waited(process)
        return sample
    finally:
        _end([process])


def _until_ready(began: float, dashboard: int, processes: Sequence[subprocess.Popen[str]]) -> Sample:
    url = f"http://127.0.0.1:{dashboard}/json/counts.json"
    while _workers(url) < _WORKERS:
        if time.perf_counter() - began > _PATIENCE or any(process.poll() is not None for process in processes):
            raise RuntimeError("the cluster did not become ready")
        time.sleep(0.02)
    wall = time.perf_counter() - began
    return Sample(wall, cpu_of_trees(process.pid for process in processes))


def _workers(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - a page of a process of ours
            return int(json.load(answer)["workers"])
    except (OSError, ValueError):
        return 0


def _end(processes: Sequence[subprocess.Popen[str]]) -> None:
    """Ends what is left of these processes, with all below them: workers first, as Dask wants it."""
    for process in reversed([process for process in processes if process.poll() is None]):
        below = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for child in below:
            if child.is_running():
                child.kill()
