"""An image's name taken apart: its registry, its repository, and which version of it is meant."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ..errors import MusterError

DOCKER_HUB = "docker.io"

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_REGISTRY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]+)?|\[[0-9a-fA-F:]+\](?::[0-9]+)?")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class ImageName:
    """`registry/repository:tag@digest`; a name without a registry is Docker Hub's."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def read(cls, text: str) -> ImageName:
        """The parts of a name as people write it. A name that no registry could have is an error."""
        name, _, digest = text.partition("@")
        first, slash, rest = name.partition("/")
        named = bool(slash) and ("." in first or ":" in first or first == "localhost")
        registry, path = (first, rest) if named else (DOCKER_HUB, name)
        repository, _, tag = path.partition(":")
        if registry == DOCKER_HUB and "/" not in repository:
            repository = f"library/{repository}"
        fits = _REGISTRY.fullmatch(registry) and _REPOSITORY.fullmatch(repository)
        if not fits or (tag and not _TAG.fullmatch(tag)) or (digest and not _DIGEST.fullmatch(digest)):
            raise MusterError(
                f"image: {text!r} is not the name of an image",
                "Write registry/repository:tag or registry/repository@sha256:…, such as "
                "iad.ocir.io/namespace/team/train:1. Repositories have no capital letters.",
            )
        return cls(registry, repository, tag, digest)

    @property
    def reference(self) -> str:
        """What a registry is asked for."""
        return self.digest or self.tag or "latest"

    @property
    def local(self) -> bool:
        """Whether the registry is on this machine, where the tools speak plain HTTP."""
        host = self.registry.rpartition(":")[0] if ":" in self.registry else self.registry
        return host in ("localhost", "[::1]") or re.fullmatch(r"127(\.[0-9]+){3}", host) is not None

    @property
    def oracle(self) -> bool:
        """Whether it is one of Oracle's registries."""
        return self.registry.endswith(".ocir.io") or self.registry.endswith(".oci.oraclecloud.com")

    def pinned(self, digest: str) -> ImageName:
        """The same image, and this very content of it."""
        return replace(self, digest=digest, tag="")

    def __str__(self) -> str:
        path = self.repository.removeprefix("library/") if self.registry == DOCKER_HUB else self.repository
        name = path if self.registry == DOCKER_HUB else f"{self.registry}/{path}"
        return name + (f":{self.tag}" if self.tag else "") + (f"@{self.digest}" if self.digest else "")


def login_fix(name: ImageName, tool: str = "docker") -> str:
    """What logs a user in to the registry of an image."""
    if name.oracle:
        return (
            f"Log in with: {tool} login {name.registry}\n"
            "    Username: <tenancy-namespace>/<user>, or if federated\n"
            "              <tenancy-namespace>/oracleidentitycloudservice/<user>\n"
            "    Password: an auth token of the user (Console: My profile, Auth tokens), not the Console's password."
        )
    registry = "" if name.registry == DOCKER_HUB else f" {name.registry}"
    return f"Log in with: {tool} login{registry}"
