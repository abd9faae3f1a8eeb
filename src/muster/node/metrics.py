"""What a node uses, and what its scripts report."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from ..workdir.segments import SegmentWriter
from . import proc
from .pace import Pace


class Usage:
    """CPU and memory of the node's process tree, and the machine's network traffic, between two looks."""

    def __init__(self, since: float) -> None:
        """The first look counts from `since`, on the monotonic clock, when none of the processes was there yet."""
        self._cpu: dict[int, float] = {}
        self._at = since
        self._network = self._traffic()

    def look(self) -> dict[str, float]:
        now = time.monotonic()
        elapsed = max(now - self._at, 1e-6)
        used, memory = self._processes()
        network = self._traffic()
        sample = {
            "cpu_percent": round(100 * used / elapsed, 1),
            "memory_bytes": float(memory),
            "network_sent_per_second": round((network[0] - self._network[0]) / elapsed),
            "network_received_per_second": round((network[1] - self._network[1]) / elapsed),
        }
        self._at, self._network = now, network
        return sample

    def _processes(self) -> tuple[float, int]:
        used, memory, seen = 0.0, 0, {}
        for pid, use in _descendants().items():
            seen[pid] = use.seconds
            used += use.seconds - self._cpu.get(pid, 0.0)
            memory += use.memory
        self._cpu = seen
        return max(used, 0.0), memory

    def _traffic(self) -> tuple[float, float]:
        try:
            import psutil
        except ImportError:
            return proc.traffic()
        counters = psutil.net_io_counters()
        return (float(counters.bytes_sent), float(counters.bytes_recv)) if counters else (0.0, 0.0)


def _descendants() -> dict[int, proc.Use]:
    try:
        import psutil
    except ImportError:
        return proc.descendants(os.getpid())
    found = {}
    for process in psutil.Process(os.getpid()).children(recursive=True):
        try:
            times = process.cpu_times()
            found[process.pid] = proc.Use(times.user + times.system, process.memory_info().rss)
        except psutil.Error:
            continue
    return found


class MetricsOut:
    """Usage and reports on their way into the run's folder: soon, unless each request there costs money.

    Then what a script reports waits a little at first and longer while it goes on, and usage waits for it.
    """

    _SOON = 5.0

    def __init__(self, writer: SegmentWriter, pace: Pace, now: float) -> None:
        self._writer, self._pace = writer, pace
        self._wait = min(self._SOON, pace.reports)
        self._sent_at = now
        self._report_at: float | None = None

    def add_usage(self, sample: dict[str, Any]) -> None:
        self._writer.add(json.dumps(sample).encode())

    def add_report(self, record: dict[str, Any], now: float) -> None:
        self._writer.add(json.dumps(record).encode())
        if self._report_at is None:
            self._report_at = now
            if now - self._sent_at > self._pace.reports:
                self._wait = min(self._SOON, self._pace.reports)

    def due(self, now: float) -> bool:
        reported = self._report_at is not None and now - self._report_at >= self._wait
        return reported or now - self._sent_at >= self._pace.usage

    def flush(self, now: float) -> None:
        """Blocks. On an error all of it is kept for the next time."""
        self._writer.flush()
        if self._report_at is not None:
            self._wait = min(2 * self._wait, self._pace.reports)
        self._sent_at, self._report_at = now, None


class Reports:
    """The file that `muster.report` appends to, read line by line as it grows."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0

    def new(self) -> list[dict[str, Any]]:
        """The records since the last look; a line that is not whole yet waits."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as stream:
            stream.seek(self._offset)
            data = stream.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        records = []
        for line in whole.splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue  # the script wrote there by other means; nothing of ours is lost
            if isinstance(record, dict):
                records.append(record)
        return records


def numbers(values: Any) -> dict[str, float]:
    """What of a report can be shown; anybody may write into its file."""
    found = values.items() if isinstance(values, dict) else ()
    return {str(name): float(value) for name, value in found if isinstance(value, (int, float))}
