"""What container tools say when they refuse, and what their users are told to do."""

from __future__ import annotations

import pytest

from muster.images.refusals import explained

pytestmark = pytest.mark.unit

SOCKET = "Got permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock"


@pytest.mark.parametrize(
    ("told", "message", "fix"),
    [
        (SOCKET, "permission denied on its socket", "usermod -aG docker"),
        ("Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?", "not running", "systemctl"),
        ("Cannot connect to Podman. Please verify your connection", "not running", "podman machine start"),
        ("write /var/lib/docker/tmp: no space left on device", "no space left", "system prune"),
        ("no basic auth credentials", "iad.ocir.io wants a login", "oracleidentitycloudservice"),
        ("denied: requested access to the resource is denied", "iad.ocir.io wants a login", "login iad.ocir.io"),
        ("manifest for python:9 not found: manifest unknown", "image python:9 is not to be had", "name, tag"),
        ("exec /bin/sh: exec format error", "cannot run programs of the platform", "--platform native"),
        ("ERROR: BuildKit is enabled but the buildx component is missing or broken.", "buildx", "docker-buildx"),
    ],
)
def test_a_known_refusal_says_what_mends_it(told: str, message: str, fix: str) -> None:
    tool = "podman" if "odman" in told else "docker"
    error = explained(tool, "build", 1, told, "iad.ocir.io/n/t:1")
    assert message in error.message
    assert fix in error.fix


def test_free_space_is_told() -> None:
    assert " free at /" in explained("docker", "build", 1, "no space left on device").message


def test_an_unknown_refusal_is_shown_as_it_is() -> None:
    error = explained("docker", "build", 7, "\n".join(f"line {number}" for number in range(20)))
    assert error.message.startswith("docker build failed with 7:")
    assert "line 19" in error.message
    assert "line 7\n" not in error.message
