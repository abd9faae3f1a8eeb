"""Bringing an image to its registry, and learning by which digest others get just this content."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from ..errors import MusterError
from .names import DOCKER_HUB, ImageName
from .records import last_built, remember_pushed
from .registry import digest
from .tool import Say, Tool

Layers = Callable[[int, int], None]
"""Is told how many layers have arrived, and of how many is known."""

_STEP = re.compile(r"([0-9a-f]{12}): (.+)")
_DONE = ("Pushed", "Layer already exists", "Mounted from")


def push(image: str | None, to: str | None, tool: Tool, say: Say, layers: Layers) -> str:
    """Pushes an image, or the last one built; `to` is the name that it gets there. `repository@sha256:…`."""
    source = image or _last()
    target = to or source
    name = ImageName.read(target)
    if name.registry == DOCKER_HUB and "/" not in target:
        raise MusterError(
            f"image: {target} names no registry",
            f"Say where it goes: muster image push {source} --to REGISTRY/REPOSITORY:TAG",
        )
    if name.digest:
        raise MusterError(f"image: {target} is pinned by its digest; a push needs a tag", "Give one with --to.")
    tool.check()
    found = tool.look(source)
    if found is None:
        raise MusterError(f"image: {source} is not on this machine", f"Build it: muster image build --tag {source}")
    if to and to != source:
        tool.ask("tag", source, to)
    say(f"pushing {target} to {name.registry}")
    pinned = str(name.pinned(_pushed(tool, target, say, layers)))
    remember_pushed(target, str(found.get("Id", "")), pinned)
    return pinned


def _last() -> str:
    built = last_built()
    if built is None:
        raise MusterError("no image was built from this account yet", "Build one: muster image build")
    return built.tag


def _pushed(tool: Tool, target: str, say: Say, layers: Layers) -> str:
    """The digest that the registry has it under: the tool tells it, else the registry is asked."""
    with tempfile.TemporaryDirectory(prefix="muster-push-") as folder:
        file = Path(folder) / "digest"
        extra = ["--digestfile", str(file)] if tool.name == "podman" else []
        told = tool.follow(["push", *extra, *tool.plainly(target), target], _counted(say, layers), target)
        if file.exists():
            return file.read_text(encoding="utf-8").strip()
    found = re.search(r"digest: (sha256:[0-9a-f]{64})", told)
    return found[1] if found else digest(target).rpartition("@")[2]


def _counted(say: Say, layers: Layers) -> Say:
    """Counts the layers in what docker says, and passes on what is not about them."""
    known: dict[str, bool] = {}

    def look(line: str) -> None:
        if not (step := _STEP.fullmatch(line)):
            say(line)
            return
        known[step[1]] = step[2].startswith(_DONE)
        layers(sum(known.values()), len(known))

    return look


def local_digest(tool: Tool, image: str) -> str | None:
    """What pins an image that this machine has: its registry's digest, or its id where no registry knows it."""
    found = tool.look(image)
    if found is None:
        return None
    name = ImageName.read(image) if not image.startswith("sha256:") else None
    digests = [ImageName.read(one) for one in found.get("RepoDigests") or ()]
    same = [one for one in digests if name and (one.registry, one.repository) == (name.registry, name.repository)]
    return str(same[0]) if same else str(found["Id"])
