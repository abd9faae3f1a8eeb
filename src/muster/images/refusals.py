"""What a container tool says when it refuses, and what its user can do about it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from ..errors import MusterError
from ..spec.units import size_text
from .names import ImageName, login_fix

_STORES = ("/var/lib/docker", "/var/lib/containers", "/var/lib/containerd", "~/.local/share/docker")


def explained(tool: str, verb: str, code: int, told: str, about: str = "") -> MusterError:
    """The error for a refusal. `about` is the image that was asked for, if one was."""
    for pattern, explain in _KNOWN:
        if re.search(pattern, told, re.IGNORECASE):
            return explain(tool, told, about)
    lines = "\n    ".join(told.strip().splitlines()[-12:])
    return MusterError(f"{tool} {verb} failed with {code}:\n    {lines}")


def _permission(tool: str, _told: str, _about: str) -> MusterError:
    return MusterError(
        f"you may not talk to {tool}'s daemon: permission denied on its socket",
        "Join its group, then log in anew: sudo usermod -aG docker $USER\n"
        "    or use a tool that needs no daemon: --tool podman",
    )


def _not_running(tool: str, _told: str, _about: str) -> MusterError:
    start = "podman machine start" if tool == "podman" else "sudo systemctl start docker"
    return MusterError(
        f"{tool}'s daemon is not running, or DOCKER_HOST names another place",
        f"Start it: {start}\n    (on macOS: open Rancher Desktop or Docker Desktop), or unset DOCKER_HOST.",
    )


def _disk_full(tool: str, _told: str, _about: str) -> MusterError:
    places = [Path(place).expanduser() for place in _STORES]
    place = next((place for place in places if _is_there(place)), Path("/"))
    free = size_text(shutil.disk_usage(place).free)
    return MusterError(
        f"no space left on the disk that {tool} keeps its images on ({free} free at {place})",
        f"See what takes it: {tool} system df\n    Take away what nothing uses: {tool} system prune",
    )


def _is_there(place: Path) -> bool:
    try:
        return place.exists()
    except OSError:
        return False


def _login(tool: str, told: str, about: str) -> MusterError:
    name = _named(told, about)
    if name is None:
        return MusterError(f"{tool}: the registry wants a login", f"Log in with: {tool} login REGISTRY")
    return MusterError(
        f"{name.registry} wants a login for {name.repository}, or yours may not do that", login_fix(name, tool)
    )


def _absent(tool: str, told: str, about: str) -> MusterError:
    name = _named(told, about)
    which = f"image {name}" if name else "an image"
    fix = "See that its name, tag and platform are right."
    if name and not name.local:
        fix += f" If it is private, log in first. {login_fix(name, tool)}"
    return MusterError(f"{which} is not to be had", fix)


def _platform(tool: str, _told: str, _about: str) -> MusterError:
    return MusterError(
        f"{tool} cannot run programs of the platform that the image is for on this machine",
        f"Install its emulation once: {tool} run --privileged --rm tonistiigi/binfmt --install all\n"
        "    or build for this machine's own: --platform native",
    )


def _no_buildx(_tool: str, _told: str, _about: str) -> MusterError:
    return MusterError(
        "this docker builds with buildx, which is not installed",
        "Install it, such as: sudo apt-get install docker-buildx\n    or build the old way: DOCKER_BUILDKIT=0",
    )


def _named(told: str, about: str) -> ImageName | None:
    """The image that a tool's words speak of, else the one that was asked for."""
    found = re.search(
        r"(?:access denied for|manifest for|pull access denied for|docker://|denied for) ?([\w./:@-]+)", told
    )
    for text in (found[1].rstrip(",:.") if found else "", about):
        try:
            return ImageName.read(text)
        except MusterError:
            continue
    return None


_KNOWN: tuple[tuple[str, Callable[[str, str, str], MusterError]], ...] = (
    (r"permission denied.*(socket|docker\.sock|podman\.sock)|dial unix.*permission denied", _permission),
    (
        r"cannot connect to the docker daemon|is the docker daemon running|cannot connect to podman|"
        r"unable to connect to podman|dial unix.*(no such file|connection refused)|cannot access containerd socket",
        _not_running,
    ),
    (r"no space left on device|disk quota exceeded", _disk_full),
    (
        r"no basic auth credentials|authentication required|unauthorized|invalid username/password|"
        r"requested access to the resource is denied|403 forbidden",
        _login,
    ),
    (
        r"manifest unknown|manifest for .* not found|name unknown|repository .* not found|pull access denied|"
        r"unable to find image|no such image|repository does not exist|no match for platform|not found: .*manifest",
        _absent,
    ),
    (r"exec format error", _platform),
    (r"buildx component is missing", _no_buildx),
)
"""In this order: the first that fits is told."""
