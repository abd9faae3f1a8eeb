"""The user's own folder of Muster: the default work dir, the index of runs, environments and nodes' folders."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """`MUSTER_HOME`, else `muster` in the user's state folder."""
    if given := os.environ.get("MUSTER_HOME"):
        return Path(given).expanduser().absolute()
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "muster"


def default_work_dir() -> Path:
    return home() / "runs"


def index_folder() -> Path:
    return home() / "index"


def launcher_log(run: str) -> Path:
    """Where the launcher of a detached run says what it cannot say to a terminal."""
    return index_folder() / f"{run}.launcher"


def environments_folder() -> Path:
    return home() / "envs"


def nodes_folder() -> Path:
    return home() / "nodes"


def remove_node_folder(folder: Path) -> None:
    """Takes a node's own folder away, and the run's above it when this was its last."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.parent.rmdir()
    except OSError:
        pass  # other nodes of the run are still there
