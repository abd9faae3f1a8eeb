"""What this machine builds and pushes images with: a container tool, its daemon, and the disk that they fill."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import MusterError
from ..images.tool import find_tool
from ..spec.units import size_text
from .findings import Finding, ok, warn

ROOM = 10 * 10**9
"""Bytes. The layers of a framework for GPUs are several GB, and are there twice while they are made."""
_ONLY = "Needed only to build and push from here: a run does without."


def container_tool() -> Iterator[Finding]:
    """Whether an image could be built here. A run needs that only where the registry has no image yet."""
    try:
        tool = find_tool()
        told = tool.check()
    except MusterError as error:
        yield warn("container-tool", error.message, f"{error.fix}\n{_ONLY}".lstrip())
        return
    yield ok("container-tool", f"{tool.name} {_version(told)}".rstrip())
    yield from disk(_folder(told), tool.name)


def _version(told: Mapping[str, Any]) -> str:
    inner = told.get("version")
    return str(told.get("ServerVersion") or (inner.get("Version") if isinstance(inner, Mapping) else "") or "")


def _folder(told: Mapping[str, Any]) -> Path | None:
    store = told.get("store")
    place = store.get("graphRoot") if isinstance(store, Mapping) else told.get("DockerRootDir")
    return Path(str(place)) if place else None


def disk(folder: Path | None, tool: str = "docker", room: int = ROOM) -> Iterator[Finding]:
    """Whether the disk that images are built on has room. Nothing is known of one inside another machine."""
    if folder is None or not folder.exists():
        return
    free = shutil.disk_usage(folder).free
    if free < room:
        fix = f"`{tool} system df` shows what fills it; `{tool} system prune` deletes what nothing uses."
        yield warn("disk", f"{folder} has {size_text(free)} left, and a build may need {size_text(room)}", fix)
    else:
        yield ok("disk", f"{folder} has {size_text(free)} left")
