"""`muster image`: built, pushed to a registry that wants a login, and run from there by its digest."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from muster.images import digest, last_built
from tests.docker import BASE, PASSWORD, USER, Docker, Registry
from tests.docs.markdown import ROOT, Command, blocks, commands, matches
from tests.harness import Muster
from tests.needs import needs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PAGE = ROOT / "docs" / "images.md"


@pytest.fixture
def boxed(muster: Muster, docker: Docker) -> Muster:
    """The command, and the docker of the tests."""
    return Muster(muster.home, muster.folder, {**muster.env, **docker.env}, muster.started)


def pip_config(folder: Path) -> Path:
    """This machine's own settings of pip, for the build alone; what it has as folders a build does not see."""
    told = subprocess.run(["python3", "-m", "pip", "config", "list"], capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"^(?:global|install)\.([\w-]+)='(.*)'$", told, re.MULTILINE))
    wanted = {name: value for name, value in found.items() if name in ("index-url", "trusted-host", "proxy", "timeout")}
    lines = [f"{name} = {value}" for name, value in wanted.items()]
    file = folder / "pip.conf"
    file.write_text("\n".join(["[global]", *lines, "cert = /etc/ssl/certs/ca-certificates.crt", ""]), encoding="utf-8")
    return file


def typed(beginning: str) -> Command:
    """A command of the page that is not run with the others, because it takes a container tool."""
    shown = [block for block in blocks(PAGE) if block.language == "text" and block.text.startswith("$ ")]
    return next(one for block in shown for one in commands(block) if one.text.startswith(beginning))


def test_built_pushed_and_run_as_a_cluster_by_its_digest(
    boxed: Muster, docker: Docker, registry: Registry, tmp_path: Path
) -> None:
    """What the page shows, with a registry of our own in between."""
    for block in (block for block in blocks(PAGE) if block.file):
        (boxed.folder / str(block.file)).write_text(block.text, encoding="utf-8")
    # No image can be pulled here, and a build has no way out but this machine's own.
    how = ["--base", BASE, "--network", "host", "--pip-config", str(pip_config(tmp_path))]
    tag = f"{registry.host}/team/tiny:1"
    build = [*typed("muster image build").text.split()[1:], "--tag", tag, *how]

    built = boxed(*build)
    image = docker("image", "inspect", "--format", "{{.Id}}", tag)
    assert built.stdout == f"{tag} {image}\n"
    assert "muster: building" in built.stderr
    assert "Successfully installed" in built.stderr
    assert boxed(*build, "--quiet").stderr == ""  # each layer was there already
    look_inside(docker, tag)

    docker("logout", registry.host)
    refused = boxed("image", "push", check=125)
    assert f"{registry.host} wants a login" in refused.stderr
    assert f"docker login {registry.host}" in refused.stderr
    registry.login(docker)
    pushed = boxed("image", "push")
    pinned = pushed.stdout.strip()
    assert re.fullmatch(rf"{re.escape(registry.host)}/team/tiny@sha256:[0-9a-f]{{64}}", pinned)
    assert re.search(r"muster: (\d+) of \1 layers are there", pushed.stderr)
    assert PASSWORD not in pushed.stdout + pushed.stderr + refused.stderr

    docker("image", "rm", "--force", tag, image)
    planned = json.loads(boxed("plan", "--containers", "--json").stdout)
    assert {one["payload"].get("image") for one in planned["resources"]} == {None, pinned}
    run = typed("muster run")
    done = boxed(*run.text.split()[1:])
    assert matches(run.shown, f"...\n{done.stdout}...\n")
    assert docker.left() == []


def look_inside(docker: Docker, tag: str) -> None:
    """Two Pythons that share nothing, a user who is not root, and nothing of the build's settings."""
    ask = (
        "import importlib.util as u, os, pathlib, sys\n"
        "print(os.getuid(), u.find_spec('muster') is None, u.find_spec('distributed') is None, sys.prefix,"
        " pathlib.Path('/etc/pip.conf').exists() and pathlib.Path('/etc/pip.conf').stat().st_size)"
    )
    told = [
        docker("run", "--rm", "--network", "none", "--entrypoint", python, tag, "-c", ask).split()
        for python in ("/opt/muster/bin/python", "/opt/python/bin/python")
    ]
    assert [line[:4] for line in told] == [
        ["1000", "False", "True", "/opt/muster"],
        ["1000", "True", "False", "/opt/python"],
    ]
    assert {line[4] for line in told} <= {"False", "0"}
    refused = docker("run", "--rm", "--network", "none", tag, check=False, stderr_too=True)
    assert "WORK_DIR" in refused, "its entrypoint is the node program, which says what it lacks"


def test_a_dockerfile_is_written_once_and_taken_as_it_is_then(boxed: Muster, docker: Docker) -> None:
    job = boxed.job("print()", "dask", code="image:/code", name="own")
    shutil.copy(job.parent / "code" / "script.py", job.parent / "script.py")
    boxed("image", "build", job, "--write", "--apt", "git")
    file = job.parent / "Dockerfile"
    assert "install-recommends git" in file.read_text()
    boxed("image", "build", job, "--write", "--apt", "git")
    assert "says something else" in boxed("image", "build", job, "--write", check=125).stderr
    boxed("image", "build", job, "--write", "--force")
    assert "git" not in file.read_text()
    file.write_text(f"FROM {BASE}\nCOPY script.py /code/own.py\n")
    boxed("image", "build", job, "--dockerfile", file, "--tag", "own:1", "--platform", "native")
    assert docker("run", "--rm", "--network", "none", "own:1", "cat", "/code/own.py") == "print()"


def test_what_goes_wrong_says_what_mends_it(boxed: Muster, docker: Docker, registry: Registry, tmp_path: Path) -> None:
    job = boxed.job("print()", "dask", code="image:/code", name="wrong")
    shutil.copy(job.parent / "code" / "script.py", job.parent / "script.py")
    absent = f"{registry.host}/nobody/nothing:1"
    docker("logout", registry.host)
    done = boxed("image", "build", job, "--base", absent, "--platform", "native", check=125)
    assert f"docker login {registry.host}" in done.stderr
    registry.login(docker)
    done = boxed("image", "build", job, "--base", absent, "--platform", "native", check=125)
    assert f"image {absent} is not to be had" in done.stderr
    done = boxed("image", "build", job, check=125, DOCKER_HOST=f"unix://{tmp_path}/nobody")
    assert "daemon is not running" in done.stderr
    assert "systemctl start docker" in done.stderr
    assert "names no registry" in boxed("image", "push", "own", check=125).stderr
    assert "is not on this machine" in boxed("image", "push", absent, check=125).stderr
    assert "no image was built" in boxed("image", "push", check=125).stderr
    assert "Traceback" not in done.stderr


def test_podman_builds_and_pushes_too(muster: Muster, registry: Registry, tmp_path: Path) -> None:
    """Without a step that runs something: podman's own runtime takes more than every machine of tests lets it have."""
    needs("podman", root=True)
    (tmp_path / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{tmp_path}/images"\nrunroot = "{tmp_path}/podman"\n'
    )
    env = {
        "CONTAINERS_STORAGE_CONF": str(tmp_path / "storage.conf"),
        "REGISTRY_AUTH_FILE": str(tmp_path / "auth.json"),
        "DOCKER_CONFIG": str(tmp_path),
    }
    boxed = Muster(muster.home, muster.folder, {**muster.env, **env})
    (tmp_path / "auth.json").write_text("{}")
    job = boxed.job("print()", "dask", code="image:/code", name="own")
    shutil.copy(job.parent / "code" / "script.py", job.parent / "script.py")
    (job.parent / "Dockerfile").write_text("FROM scratch\nCOPY script.py /code/\n")
    tag = f"{registry.host}/team/podman:1"
    boxed("image", "build", job, "--tool", "podman", "--dockerfile", job.parent / "Dockerfile", "--tag", "own:1")
    push = ("image", "push", "own:1", "--to", tag, "--tool", "podman")
    assert f"podman login {registry.host}" in boxed(*push, check=125).stderr
    login = ["podman", "login", "--tls-verify=false", "--username", USER, "--password-stdin", registry.host]
    subprocess.run(login, input=PASSWORD, text=True, env=boxed.env, check=True, capture_output=True)
    pinned = boxed(*push).stdout.strip()
    assert re.fullmatch(rf"{re.escape(registry.host)}/team/podman@sha256:[0-9a-f]{{64}}", pinned)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in boxed.env.items():
            patch.setenv(name, value)
        assert digest(tag) == pinned
        built = last_built()
    assert built is not None
    assert built.name == pinned
