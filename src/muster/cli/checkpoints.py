"""The checkpoints of a run, by node."""

from __future__ import annotations

from pathlib import Path

from ..workdir.checkpoints import listed, read_checkpoint
from ..workdir.parallel import at_once
from ..workdir.run import RunFolder
from ..workdir.sync import Checkpoint, fetch_checkpoint
from .bar import shown_progress


def list_checkpoints_of(folder: RunFolder) -> dict[str, int]:
    """One that is not known to be complete says so: nothing goes on from it."""

    def read(one: tuple[str, int]) -> tuple[str, Checkpoint | None]:
        return one[0], read_checkpoint(folder, *one)

    wanted = [(node, number) for node, numbers in listed(folder).items() for number in numbers]
    read_ones = at_once(folder.store.capabilities.parallel, read, wanted)
    found = sorted(((node, -one.number, one) for node, one in read_ones if one), key=lambda each: each[:2])
    return {
        f"{node}/{one.number:06}/{one.name}{'' if one.complete else ' (written in place)'}": one.manifest.bytes
        for node, _, one in found
    }


def fetch_checkpoints_of(folder: RunFolder, to: Path) -> dict[str, int]:
    """The newest complete checkpoint of each node, in a folder of the node's name."""
    found: dict[str, int] = {}
    for node in sorted(folder.store.list_names(folder.at("checkpoints/"))):
        with shown_progress(f"fetching the checkpoint of {node}") as progress:
            if fetched := fetch_checkpoint(folder, node, to / node, over=True, progress=progress):
                found[f"{node}/{fetched.name}"] = fetched.manifest.bytes
    return found
