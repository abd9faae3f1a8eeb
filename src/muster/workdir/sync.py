"""The door to all that brings folders to the work dir and back: outputs and checkpoints."""

from __future__ import annotations

from .checkpoints import Checkpoint, CheckpointShipper, checkpoints, fetch_checkpoint
from .outputs import Output, fetch_outputs, outputs_tree
from .shipper import Shipped, Shipper

__all__ = [
    "Checkpoint",
    "CheckpointShipper",
    "Output",
    "Shipped",
    "Shipper",
    "checkpoints",
    "fetch_checkpoint",
    "fetch_outputs",
    "outputs_tree",
]
