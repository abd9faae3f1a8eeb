"""What docker or podman know of a registry: the login that their users made. It is read, used, and never shown."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .names import DOCKER_HUB

_HUB_KEY = "https://index.docker.io/v1/"


@dataclass(frozen=True)
class Login:
    user: str
    password: str = field(repr=False)


def login_of(registry: str) -> Login | None:
    """The login for a registry, in the order in which the tools themselves look for it."""
    keys = [_HUB_KEY, DOCKER_HUB] if registry == DOCKER_HUB else [registry, f"https://{registry}"]
    for config in filter(None, map(_read, _files())):
        for key in keys:
            found = _from_helper(config, key) or _from_file(config, key)
            if found:
                return found
    return None


def _files() -> list[Path]:
    """docker's configuration, then podman's."""
    docker = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    podman = [os.environ.get("REGISTRY_AUTH_FILE"), f"{runtime}/containers/auth.json" if runtime else None]
    return [docker, *(Path(path) for path in podman if path)]


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _from_file(config: dict[str, Any], key: str) -> Login | None:
    entry = config.get("auths", {}).get(key, {})
    try:
        user, _, password = base64.b64decode(entry.get("auth", "")).decode().partition(":")
    except ValueError:
        return None
    return Login(user, password) if user and password else None


def _from_helper(config: dict[str, Any], key: str) -> Login | None:
    """Asks the program in which the tool keeps its logins, as the tool does."""
    name = config.get("credHelpers", {}).get(key) or config.get("credsStore")
    program = shutil.which(f"docker-credential-{name}") if name else None
    if program is None:
        return None
    asked = subprocess.run([program, "get"], input=key, capture_output=True, text=True, check=False)
    try:
        answer = json.loads(asked.stdout)
        return Login(answer["Username"], answer["Secret"])
    except (ValueError, KeyError, TypeError):
        return None
