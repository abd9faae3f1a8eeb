"""How many GPUs a node has."""

from __future__ import annotations

import os
import re
from pathlib import Path


def count_gpus() -> int:
    """`MUSTER_GPUS` where somebody decided it, else what CUDA is allowed to see, else NVIDIA's device files."""
    if given := os.environ.get("MUSTER_GPUS"):
        return int(given)
    return len(visible_gpus())


def visible_gpus() -> list[str]:
    """The GPUs of this machine by the names that CUDA knows them by."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name.strip() for name in visible.split(",") if name.strip() not in ("", "-1")]
    count = len([path for path in Path("/dev").glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name)])
    return [str(number) for number in range(count)]
