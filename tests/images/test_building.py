"""What a build sees and what it is told; how a container tool is found, and what is said where none can be used."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from muster.errors import MusterError
from muster.images import last_built
from muster.images.building import NATIVE, Wish, build, dockerfile_of, platform_of
from muster.images.context import foreign_context, own_context, read_dockerfile
from muster.images.records import remember_built, remember_pushed
from muster.images.requirements import Listed
from muster.images.tool import Tool, find_tool
from muster.spec.job import Job

pytestmark = pytest.mark.unit


def job(code: str | None, **fields: str) -> Job:
    return Job(name="tiny", framework="dask", code=code, entry="train.py", **fields)  # type: ignore[arg-type]


def quiet(_text: str) -> None:
    pass


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "data set").mkdir(parents=True)
    (folder / "$(touch pwned); `id`").write_text("a name")
    (folder / "data set" / "a\nb").write_text("another")
    (folder / "train.py").write_text("print()")
    (folder / "secret.env").write_text("TOKEN=1")
    (folder / ".musterignore").write_text("secret.env\n")
    return folder


def below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("code", ["image:/code", "folder"])
def test_a_build_sees_what_it_needs_and_nothing_that_is_ignored(project: Path, code: str) -> None:
    read = job(str(project) if code == "folder" else code)
    with own_context("FROM x\n", Listed("dask\n"), read, project, True, quiet) as place:
        found = below(place)
    wheels = {name for name in found if name.startswith("muster/musterpoint-")}
    assert len(wheels) == 1
    assert found - wheels == {
        "Dockerfile",
        "requirements.txt",
        "code/train.py",
        "code/$(touch pwned); `id`",
        "code/data set/a\nb",
        "code/.musterignore",
    }
    assert not place.exists()


def test_code_that_comes_with_the_run_is_not_in_the_build(project: Path) -> None:
    with own_context("FROM x\n", Listed("a: b", conda=True), job(str(project)), project, False, quiet) as place:
        assert not (place / "code").exists()
        assert (place / "env.yaml").read_text() == "a: b"


def test_anothers_dockerfile_sees_its_own_folder(project: Path) -> None:
    (project / "Dockerfile.train").write_text("FROM other\n")
    assert read_dockerfile(project / "Dockerfile.train") == ("FROM other\n", False)
    with foreign_context(project / "Dockerfile.train") as place:
        assert (place / "Dockerfile").read_text() == "FROM other\n"
        assert (place / "train.py").exists()
        assert not (place / "secret.env").exists()


def test_a_framework_that_the_user_lists_is_the_users_to_choose(tmp_path: Path) -> None:
    assert "'dask>=" in dockerfile_of(job("image:/code"), Wish())
    (tmp_path / "requirements.txt").write_text("Distributed==2024.5\n")
    made = dockerfile_of(job("image:/code", requirements=str(tmp_path / "requirements.txt")), Wish())
    assert "'dask>=" not in made
    assert read_dockerfile(write(tmp_path, made)) == (made, True)


def write(folder: Path, text: str) -> Path:
    (folder / "Dockerfile").write_text(text)
    return folder / "Dockerfile"


def test_code_is_baked_in_where_the_job_says_that_it_lies_in_its_image() -> None:
    assert "COPY --chown=1000 code/ /opt/train/\nWORKDIR /opt/train\n" in dockerfile_of(job("image:/opt/train"), Wish())
    assert "COPY --chown" not in dockerfile_of(job("."), Wish())
    assert "COPY --chown=1000 code/ /code/" in dockerfile_of(job("."), Wish(code=True))


def test_images_are_for_clouds_unless_they_are_for_here() -> None:
    assert platform_of(Wish()) == "linux/amd64"
    assert platform_of(Wish(platform=NATIVE)) in ("linux/amd64", "linux/arm64")


def script(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)
    return folder / name


def test_a_tool_is_found_or_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUSTER_CONTAINER_TOOL", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(MusterError, match="no container tool") as refusal:
        find_tool()
    assert "docker.io" in refusal.value.fix
    (tmp_path / ".rd").mkdir()
    script(tmp_path / ".rd" / "bin", "nerdctl", "")
    assert find_tool().name == "nerdctl"
    script(tmp_path / "bin", "podman", "")
    assert find_tool().name == "podman"
    script(tmp_path / "bin", "docker", "")
    assert find_tool() == Tool(str(tmp_path / "bin" / "docker"), "docker")
    assert find_tool("podman").name == "podman"
    monkeypatch.setenv("MUSTER_CONTAINER_TOOL", "podman")
    assert find_tool().name == "podman"
    with pytest.raises(MusterError, match="buildah is not a program"):
        find_tool("buildah")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?", "daemon is not running"),
        ("dial unix /var/run/docker.sock: connect: permission denied", "permission denied on its socket"),
    ],
)
def test_a_daemon_that_cannot_be_used_is_noticed_before_anything_is_made(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch, said: str, message: str
) -> None:
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))
    # docker itself, asked for its information, says such things in its answer and succeeds
    for answer in (f"echo '{said}' >&2; exit 1", f'echo \'{{"ServerErrors": ["{said}"]}}\''):
        tool = Tool(str(script(tmp_path / "bin", "docker", f'echo "$@" >> {tmp_path}/asked; {answer}')), "docker")
        with pytest.raises(MusterError, match=message):
            build(job("image:/code"), project, Wish(), tool, quiet)
    assert {line.split()[0] for line in (tmp_path / "asked").read_text().splitlines()} == {"info"}
    assert last_built() is None


def test_what_is_built_last_is_remembered_until_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path))
    assert last_built() is None
    remember_built("tiny:1", "sha256:1", "linux/amd64")
    remember_pushed("iad.ocir.io/n/other:1", "sha256:2", "iad.ocir.io/n/other@sha256:9")
    found = last_built()
    assert found is not None
    assert (found.name, found.id) == ("tiny:1", "sha256:1")
    remember_pushed("iad.ocir.io/n/tiny:1", "sha256:1", "iad.ocir.io/n/tiny@sha256:9")
    found = last_built()
    assert found is not None
    assert found.name == "iad.ocir.io/n/tiny@sha256:9"
    with contextlib.suppress(OSError):
        os.truncate(tmp_path / "images" / "last.json", 5)
    assert last_built() is None


@pytest.mark.parametrize("wish", [Wish(platform="linux/amd64 --privileged"), Wish(pip_config=Path("absent.conf"))])
def test_a_wish_that_no_tool_could_take_is_refused(project: Path, wish: Wish) -> None:
    with pytest.raises(MusterError, match="--p"):
        build(job("image:/code"), project, wish, Tool("/bin/false", "docker"), quiet)
