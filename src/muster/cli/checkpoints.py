"""The checkpoints of a run, by node."""

from __future__ import annotations

from pathlib import Path

from ..workdir.run import RunFolder
from ..workdir.sync import checkpoints, fetch_checkpoint


def list_checkpoints_of(folder: RunFolder) -> dict[str, int]:
    """One that is not known to be complete says so: nothing goes on from it."""
    return {
        f"{node}/{checkpoint.number:06}/{checkpoint.name}{'' if checkpoint.complete else ' (written in place)'}": (
            checkpoint.manifest.bytes
        )
        for node in _nodes(folder)
        for checkpoint in checkpoints(folder, node)
    }


def fetch_checkpoints_of(folder: RunFolder, to: Path) -> dict[str, int]:
    """The newest complete checkpoint of each node, in a folder of the node's name."""
    fetched = {node: fetch_checkpoint(folder, node, to / node, over=True) for node in _nodes(folder)}
    return {f"{node}/{found.name}": found.manifest.bytes for node, found in fetched.items() if found}


def _nodes(folder: RunFolder) -> list[str]:
    return sorted(folder.store.list_names(folder.at("checkpoints/")))
