"""The door to all that brings folders to the work dir and back: outputs and checkpoints."""

from __future__ import annotations

from .checkpoint_shipper import CheckpointShipper
from .checkpoints import Checkpoint, Complete, checkpoints, fetch_checkpoint
from .outputs import Output, fetch_outputs, outputs_tree
from .settling import Settling
from .shipper import Shipped, Shipper
from .units import Units

__all__ = [
    "Checkpoint",
    "CheckpointShipper",
    "Complete",
    "Output",
    "Settling",
    "Shipped",
    "Shipper",
    "Units",
    "checkpoints",
    "fetch_checkpoint",
    "fetch_outputs",
    "outputs_tree",
]
