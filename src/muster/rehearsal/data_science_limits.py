"""What Data Science does not take: values beyond its limits, shapes it has not, and more nodes than the quota."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .routing import Refusal

ENVIRONMENT = 20_000
"""Characters, of names and values together."""
ARGUMENTS = 4_000
STORAGE = (50, 10_240)
RUNTIME = (1, 43_200)
"""Minutes: thirty days."""


@dataclass(frozen=True)
class Shape:
    """A machine that the service offers. A flexible one has as many cores as are asked for, up to these."""

    cores: int
    memory: int
    series: str

    def row(self, name: str) -> dict[str, Any]:
        """As the list of shapes shows it."""
        return {"name": name, "coreCount": self.cores, "memoryInGBs": self.memory, "shapeSeries": self.series}


SHAPES: Mapping[str, Shape] = {
    "VM.Standard.E3.Flex": Shape(64, 1024, "AMD_ROME"),
    "VM.Standard.E4.Flex": Shape(64, 1024, "AMD_ROME"),
    "VM.Standard.E5.Flex": Shape(94, 1049, "AMD_ROME"),
    "VM.Standard3.Flex": Shape(32, 512, "INTEL_SKYLAKE"),
    "VM.Optimized3.Flex": Shape(18, 256, "INTEL_SKYLAKE"),
    "VM.Standard2.1": Shape(1, 15, "INTEL_SKYLAKE"),
    "VM.Standard2.2": Shape(2, 30, "INTEL_SKYLAKE"),
    "VM.Standard2.4": Shape(4, 60, "INTEL_SKYLAKE"),
    "VM.Standard2.8": Shape(8, 120, "INTEL_SKYLAKE"),
    "VM.Standard2.16": Shape(16, 240, "INTEL_SKYLAKE"),
    "VM.Standard2.24": Shape(24, 320, "INTEL_SKYLAKE"),
    "VM.GPU2.1": Shape(12, 72, "NVIDIA_GPU"),
    "VM.GPU3.1": Shape(6, 90, "NVIDIA_GPU"),
    "VM.GPU3.2": Shape(12, 180, "NVIDIA_GPU"),
    "VM.GPU3.4": Shape(24, 360, "NVIDIA_GPU"),
    "VM.GPU.A10.1": Shape(15, 240, "NVIDIA_GPU"),
    "VM.GPU.A10.2": Shape(30, 480, "NVIDIA_GPU"),
    "BM.GPU.A10.4": Shape(64, 1024, "NVIDIA_GPU"),
    "BM.GPU4.8": Shape(64, 2048, "NVIDIA_GPU"),
    "BM.GPU.A100-v2.8": Shape(128, 2048, "NVIDIA_GPU"),
    "BM.GPU.H100.8": Shape(112, 2048, "NVIDIA_GPU"),
}


def check_configuration(details: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> None:
    """The environment (with `more`, which it joins), the arguments and the runtime of a job or a run."""
    environment = {**(more or {}), **(details.get("environmentVariables") or {})}
    for name, value in environment.items():
        _insist(isinstance(value, str), f"the value of the environment variable {name} must be a text")
    size = sum(len(name) + len(value) for name, value in environment.items())
    _insist(size <= ENVIRONMENT, f"the environment variables have {size} characters, and {ENVIRONMENT} is the limit")
    arguments = len(details.get("commandLineArguments", ""))
    _insist(arguments <= ARGUMENTS, f"commandLineArguments has {arguments} characters, and {ARGUMENTS} is the limit")
    _check_range("maximumRuntimeInMinutes", details.get("maximumRuntimeInMinutes"), RUNTIME)


def check_infrastructure(details: Mapping[str, Any], shapes: Mapping[str, Shape]) -> None:
    """The shape and the disk."""
    if details.get("jobInfrastructureType") == "EMPTY":
        return
    name = str(details.get("shapeName", ""))
    _insist(name in shapes, f"the shape {name} is not offered here")
    _check_range("blockStorageSizeInGBs", details.get("blockStorageSizeInGBs"), STORAGE)
    wanted = details.get("jobShapeConfigDetails") or {}
    _insist(not wanted or name.endswith(".Flex"), f"jobShapeConfigDetails is for flexible shapes, and {name} is none")
    _check_range("ocpus", wanted.get("ocpus"), (1, shapes[name].cores))
    _check_range("memoryInGBs", wanted.get("memoryInGBs"), (1, shapes[name].memory))


def _check_range(what: str, value: float | None, bounds: tuple[int, int]) -> None:
    least, most = bounds
    _insist(value is None or least <= value <= most, f"{what} must be from {least} to {most}, and is {value}")


def _insist(holds: bool, message: str) -> None:
    if not holds:
        raise Refusal(400, "InvalidParameter", message)


class Quota:
    """How many nodes of a shape there may be at once. A shape that is not named has no limit."""

    def __init__(self, limits: Mapping[str, int] | None = None) -> None:
        self.limits = dict(limits or {})
        self._used: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, wanted: Mapping[str, int]) -> None:
        """Takes all of it, or nothing."""
        with self._lock:
            for shape, count in wanted.items():
                limit = self.limits.get(shape)
                if limit is not None and self._used[shape] + count > limit:
                    told = f"The following service limits were exceeded: {shape} ({limit}). Request an increase."
                    raise Refusal(400, "LimitExceeded", told)
            self._used.update(wanted)

    def give_back(self, wanted: Mapping[str, int]) -> None:
        with self._lock:
            self._used.subtract(wanted)


class Throttle:
    """How many requests a second are answered."""

    def __init__(self) -> None:
        self._per_second: float | None = None
        self._left = 0.0
        self._at = 0.0
        self._lock = threading.Lock()

    def set(self, per_second: float | None) -> None:
        """None: as many as come."""
        with self._lock:
            self._per_second, self._left, self._at = per_second, per_second or 0.0, time.monotonic()

    def check(self) -> None:
        with self._lock:
            if self._per_second is None:
                return
            now = time.monotonic()
            self._left = min(self._per_second, self._left + (now - self._at) * self._per_second)
            self._at = now
            if self._left < 1:
                raise Refusal(429, "TooManyRequests", "Too many requests for the user")
            self._left -= 1


def nodes_by_shape(groups: Iterator[tuple[str, int]]) -> Counter[str]:
    """How many nodes of each shape a run has."""
    found: Counter[str] = Counter()
    for shape, count in groups:
        found[shape] += count
    return found
