"""The container tool of this machine: docker, podman or nerdctl, found, asked, and put into plain words."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import MusterError
from .names import ImageName
from .refusals import explained

Say = Callable[[str], None]

NAMES = ("docker", "podman", "nerdctl")
CHOICE = "MUSTER_CONTAINER_TOOL"
_KEPT = 30
"""Lines of a tool's last words that an error shows."""


@dataclass(frozen=True)
class Tool:
    """A program that is spoken to as docker is."""

    program: str
    """Its full path."""
    name: str
    """Which of `NAMES` it is."""

    def ask(self, *words: str, about: str = "", within: float | None = 60.0) -> str:
        """What it prints. A refusal is a `MusterError` with what mends it."""
        try:
            done = subprocess.run(
                [self.program, *words], capture_output=True, text=True, errors="replace", check=False, timeout=within
            )
        except subprocess.TimeoutExpired:
            raise self._silent(words, within) from None
        except OSError as error:
            raise MusterError(f"{self.program} cannot be started: {error.strerror}") from error
        if done.returncode:
            raise self.refusal(words, done.returncode, done.stderr or done.stdout, about)
        return done.stdout.strip()

    def follow(self, words: Sequence[str], say: Say, about: str = "", env: Mapping[str, str] | None = None) -> str:
        """Passes its lines on as they come, and gives them back once it is done."""
        told: list[str] = []
        with subprocess.Popen(
            [self.program, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, **(env or {})},
        ) as process:
            try:
                for line in process.stdout or ():
                    told.append(line.rstrip())
                    say(line.rstrip())
            except BaseException:
                process.terminate()  # a build goes on in the daemon only while somebody is there to see it
                raise
        if process.returncode:
            raise self.refusal(words, process.returncode, "\n".join(told[-_KEPT:]), about)
        return "\n".join(told)

    def check(self) -> dict[str, Any]:
        """That its daemon answers. What the daemon says of itself."""
        told = self.ask("info", "--format", "{{json .}}", within=20.0)
        value: dict[str, Any] = json.loads(told or "{}")
        if value.get("ServerErrors"):  # docker's own tool calls that a success
            raise self.refusal(("info",), 1, " ".join(value["ServerErrors"]))
        return value

    def look(self, image: str) -> dict[str, Any] | None:
        """What this machine has of an image; None if it is not here."""
        done = subprocess.run(
            [self.program, "image", "inspect", image], capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode == 0:
            found: list[dict[str, Any]] = json.loads(done.stdout)
            return found[0] if found else None
        told = done.stderr.lower()
        if any(word in told for word in ("no such image", "not known", "no such object", "not found")):
            return None
        raise self.refusal(("image", "inspect"), done.returncode, done.stderr, image)

    def plainly(self, image: str) -> list[str]:
        """What podman must be told of a registry on this machine, which speaks plain HTTP; docker knows."""
        return ["--tls-verify=false"] if self.name == "podman" and ImageName.read(image).local else []

    def refusal(self, words: Sequence[str], code: int, told: str, about: str = "") -> MusterError:
        return explained(self.name, words[0], code, told, about)

    def _silent(self, words: Sequence[str], within: float | None) -> MusterError:
        return MusterError(
            f"{self.name} {words[0]} did not answer within {within:g} s",
            f"See whether its daemon is well: {self.name} info",
        )


def find_tool(wish: str | None = None) -> Tool:
    """The tool that is wished for (or named in MUSTER_CONTAINER_TOOL), else the first that this machine has."""
    wish = wish or os.environ.get(CHOICE) or None
    for word in (wish,) if wish else NAMES:
        if program := shutil.which(word, path=_path()):
            return Tool(program, _name_of(word))
    if wish:
        raise MusterError(f"{wish} is not a program on this machine", "Install it, or choose another with --tool.")
    raise MusterError(
        "no container tool is on this machine: neither docker nor podman nor nerdctl was found",
        "Install one, such as: sudo apt-get install docker.io\n"
        "    (on macOS: Rancher Desktop, Docker Desktop or podman).",
    )


def _name_of(word: str) -> str:
    """`podman-remote` is spoken to as podman is; what is unknown, as docker is."""
    last = Path(word).name
    return next((name for name in NAMES if last.startswith(name)), "docker")


def _path() -> str:
    """Where Rancher Desktop puts its tools is not on everybody's path."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path.home() / ".rd" / "bin")])
