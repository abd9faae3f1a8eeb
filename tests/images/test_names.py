"""Names of images, taken apart as container tools do."""

from __future__ import annotations

import pytest

from muster.errors import MusterError
from muster.images.names import ImageName, login_fix

pytestmark = pytest.mark.unit

SHA = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("text", "registry", "repository", "tag", "digest"),
    [
        ("train", "docker.io", "library/train", "", ""),
        ("python:3.11-slim", "docker.io", "library/python", "3.11-slim", ""),
        ("team/train:1", "docker.io", "team/train", "1", ""),
        ("iad.ocir.io/namespace/team/train:1", "iad.ocir.io", "namespace/team/train", "1", ""),
        ("localhost/train", "localhost", "train", "", ""),
        ("127.0.0.1:5000/train:v1", "127.0.0.1:5000", "train", "v1", ""),
        (f"iad.ocir.io/n/t@{SHA}", "iad.ocir.io", "n/t", "", SHA),
        (f"iad.ocir.io/n/t:1@{SHA}", "iad.ocir.io", "n/t", "1", SHA),
    ],
)
def test_a_name_has_its_parts(text: str, registry: str, repository: str, tag: str, digest: str) -> None:
    name = ImageName.read(text)
    assert (name.registry, name.repository, name.tag, name.digest) == (registry, repository, tag, digest)
    assert str(name) == text


@pytest.mark.parametrize(
    "text", ["", "Train", "a b", "a;rm", "$(x)", "a//b", "iad.ocir.io/", "a:b c", "a@sha256:1", "-x", "--privileged"]
)
def test_what_no_registry_could_have_is_refused(text: str) -> None:
    with pytest.raises(MusterError, match="is not the name of an image"):
        ImageName.read(text)


def test_a_pinned_name_has_a_digest_and_no_tag() -> None:
    assert str(ImageName.read("iad.ocir.io/n/t:1").pinned(SHA)) == f"iad.ocir.io/n/t@{SHA}"


@pytest.mark.parametrize(
    ("text", "local"),
    [("localhost:5000/a", True), ("127.0.0.1:5/a", True), ("127.example.com/a", False), ("iad.ocir.io/n/a", False)],
)
def test_plain_http_is_for_this_machine_alone(text: str, local: bool) -> None:
    assert ImageName.read(text).local is local


def test_oracles_registry_has_its_own_way_to_log_in() -> None:
    fix = login_fix(ImageName.read("iad.ocir.io/n/t"))
    assert "docker login iad.ocir.io" in fix
    assert "<tenancy-namespace>/oracleidentitycloudservice/<user>" in fix
    assert "auth token" in fix
    assert login_fix(ImageName.read("team/train"), "podman") == "Log in with: podman login"
