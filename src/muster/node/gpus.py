"""How many GPUs a node has."""

from __future__ import annotations

import os
import re
from pathlib import Path


def count_gpus() -> int:
    """`MUSTER_GPUS` where somebody decided it, else what CUDA is allowed to see, else NVIDIA's device files."""
    if given := os.environ.get("MUSTER_GPUS"):
        return int(given)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([name for name in visible.split(",") if name.strip() not in ("", "-1")])
    return len([path for path in Path("/dev").glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name)])
