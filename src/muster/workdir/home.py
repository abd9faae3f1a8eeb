"""The user's own folder of Muster: the default work dir, the index of runs, environments and nodes' folders."""

from __future__ import annotations

import os
from pathlib import Path

_TEMPORARY_LIMIT = 72
"""Sockets have names of at most 104 characters and are made in the temporary folder; a longer one breaks scripts."""

_KEPT = "kept"
"""Stands in the folder of a node that has not brought all home."""


def home() -> Path:
    """`MUSTER_HOME`, else `muster` in the user's state folder."""
    if given := os.environ.get("MUSTER_HOME"):
        return Path(given).expanduser().absolute()
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "muster"


def absolute_paths(env: dict[str, str]) -> dict[str, str]:
    """An environment for a process that starts in another folder, where relative paths would mean something else."""
    paths = {"MUSTER_HOME": str(home())} if env.get("MUSTER_HOME") else {}
    if path := env.get("PYTHONPATH"):
        paths["PYTHONPATH"] = os.pathsep.join(str(Path(entry).absolute()) for entry in path.split(os.pathsep))
    return {**env, **paths}


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


def temporary_folder(folder: Path) -> Path:
    """Where the processes of the node with this folder keep what is temporary: inside, unless the path is too long."""
    inside = folder / "tmp"
    if len(str(inside)) <= _TEMPORARY_LIMIT:
        return inside
    import hashlib
    import tempfile

    return Path(tempfile.gettempdir()) / f"muster-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"


def certificates_folder(folder: Path) -> Path:
    """Where the node with this folder has its certificates and their key."""
    return folder / "tls"


def keep_node_folder(folder: Path, keep: bool) -> None:
    """Whether there is something in a node's own folder that is not home, so that nobody may tidy it up."""
    mark = folder / _KEPT
    try:
        mark.touch() if keep else mark.unlink(missing_ok=True)
    except OSError:
        pass  # the disk is full or gone, and nothing more can be done for what is on it


def tidy_node_folder(folder: Path) -> bool:
    """Takes a node's own folder away unless it is kept; whether it did. Its key of TLS goes in any case."""
    import shutil

    shutil.rmtree(certificates_folder(folder), ignore_errors=True)
    if (folder / _KEPT).exists():
        return False
    remove_node_folder(folder)
    return True


def remove_node_folder(folder: Path) -> None:
    """Takes a node's own folder away, kept or not, and the run's above it when this was its last."""
    import shutil

    shutil.rmtree(temporary_folder(folder), ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.parent.rmdir()
    except OSError:
        pass  # other nodes of the run are still there
