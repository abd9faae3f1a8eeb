"""Timing processes, taking turns, and what is made of the samples."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil

T = TypeVar("T")


@dataclass(frozen=True)
class Sample:
    """One measurement, in seconds."""

    wall: float
    cpu: float
    """Of the processes and all that they started and waited for."""


@dataclass(frozen=True)
class Start:
    """A process to be started."""

    argv: Sequence[str | Path]
    env: Mapping[str, str]
    cwd: Path

    def popen(self, output: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        return subprocess.Popen(
            list(map(str, self.argv)),
            env=self.env,
            cwd=self.cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
            text=True,
        )


def timed(*starts: Start) -> Sample:
    """Starts these processes at once and waits for all of them."""
    began = time.perf_counter()
    processes = [start.popen() for start in starts]
    cpu = sum(waited(process) for process in processes)
    return Sample(time.perf_counter() - began, cpu)


def waited(process: subprocess.Popen[str]) -> float:
    """Waits for the end of a process and returns the CPU seconds of its whole tree. A bad end is an error."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def cpu_of_trees(pids: Iterable[int]) -> float:
    """CPU seconds so far of processes that still run, and of all below them."""
    total = 0.0
    for pid in pids:
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            try:
                total += sum(process.cpu_times()[:4])
            except psutil.Error:
                continue
    return total


def interleaved(cases: Mapping[str, Callable[[], T]], rounds: int, warm: bool = True) -> dict[str, list[T]]:
    """Takes turns: A B C, A B C, … so that whatever else the machine does hits all alike.

    `warm` adds a first round that does not count, in which files come into memory and bytecode is written.
    """
    samples: dict[str, list[T]] = {name: [] for name in cases}
    for turn in range(-1 if warm else 0, rounds):
        for name, case in cases.items():
            said = "warming up" if turn < 0 else f"round {turn + 1} of {rounds}"
            print(f"  {name}: {said}", file=sys.stderr, flush=True)
            sample = case()
            if turn >= 0:
                samples[name].append(sample)
    return samples


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def p95(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]
