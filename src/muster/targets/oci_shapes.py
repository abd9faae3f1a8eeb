"""Which machine of Oracle's a node gets: the shape that the target names, else one that has what the job asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ..errors import LaunchError
from ..spec.job import Job, Resources

_FLEXIBLE = "VM.Standard.E4.Flex"
_SMALLEST_DISK, _LARGEST_DISK = 50, 10_240
_GPUS = {
    "P100": {1: "VM.GPU2.1", 2: "BM.GPU2.2"},
    "V100": {1: "VM.GPU3.1", 2: "VM.GPU3.2", 4: "VM.GPU3.4", 8: "BM.GPU3.8"},
    "A10": {1: "VM.GPU.A10.1", 2: "VM.GPU.A10.2", 4: "BM.GPU.A10.4"},
    "A100": {8: "BM.GPU4.8"},
    "H100": {8: "BM.GPU.H100.8"},
    "L40S": {4: "BM.GPU.L40S.4"},
}
"""By the GPU's name and how many of it a node has."""


@dataclass(frozen=True)
class Shape:
    """A machine: its shape, how much of a flexible one, and its disk in GB."""

    name: str
    ocpus: float | None
    memory: float | None
    disk: int

    def wire(self) -> dict[str, Any]:
        sizes = {"ocpus": self.ocpus, "memoryInGBs": self.memory}
        details = {name: value for name, value in sizes.items() if value is not None}
        return {
            "shapeName": self.name,
            "blockStorageSizeInGBs": self.disk,
            **({"jobShapeConfigDetails": details} if details else {}),
        }


def shape_of(job: Job, role: str, options: Mapping[str, Any]) -> Shape:
    """What a node of this role gets. A role's own options go before the target's."""
    said = (options.get("roles") or {}).get(role, {})
    # Another shape is not as large as the target's own is said to be.
    own = {**options, **({"shape_config_details": None} if "shape_name" in said else {}), **said}
    wanted = _laid_over(job.resources, job.role(role).resources)
    name = own.get("shape_name") or _fitting(wanted, role)
    details = own.get("shape_config_details") or {}
    flexible = name.endswith(".Flex")
    if details and not flexible:
        raise LaunchError(f"shape_config_details: {name} has a fixed size", "Leave them out, or name a .Flex shape.")
    ocpus, memory = details.get("ocpus"), details.get("memory_in_gbs")
    if flexible:
        # Two of what the job calls processors are one OCPU, on all of Oracle's x86 shapes.
        ocpus = ocpus or max(1, math.ceil((wanted.cpus or 2) / 2))
        memory = memory or (math.ceil(wanted.memory / 10**9) if wanted.memory else 16 * ocpus)
    return Shape(name, ocpus, memory, _disk(own.get("block_storage_size"), wanted.disk))


def _disk(given: int | None, wanted: int | None) -> int:
    size = given or (math.ceil(wanted / 10**9) if wanted else _SMALLEST_DISK)
    if size > _LARGEST_DISK:
        raise LaunchError(f"resources.disk: {size} GB is more than a job run can have", f"At most {_LARGEST_DISK} GB.")
    return max(_SMALLEST_DISK, size)


def _laid_over(base: Resources, own: Resources) -> Resources:
    said = {one.name: getattr(own, one.name) for one in fields(Resources)}
    return Resources(**{name: getattr(base, name) if value is None else value for name, value in said.items()})


def _fitting(wanted: Resources, role: str) -> str:
    if not wanted.gpus:
        return _FLEXIBLE
    known = _GPUS.get((wanted.gpu or "A10").upper(), {})
    enough = [count for count in sorted(known) if count >= wanted.gpus]
    if not enough:
        raise LaunchError(
            f"resources: no shape of Oracle's is known here with {wanted.gpus} {wanted.gpu} for {role}",
            'Name one in the target: `shape_name = "…"` (`oci data-science job-shape list` tells which there are).',
        )
    return known[enough[0]]
