"""A docker of the tests' own: its daemon, a base image made from Debian's packages, and a registry that wants a login.

The daemon lives in a folder of its own, keeps its hands off this machine's firewall, and is ended by its number.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.harness import PLUGINS, eventually
from tests.needs import needs

BASE = "muster-tests/base:1"
"""A Debian with a Python, and nothing of Muster."""
PLAIN = "muster-tests/plain:1"
"""The same with the tests' own framework, and an entrypoint of its own that ends at once."""
BARE = "muster-tests/bare:1"
"""An image without any Python."""
USER, PASSWORD = "somebody", "open-sesame-of-the-registry"
_CA = Path("/etc/ssl/certs/ca-certificates.crt")


@dataclass
class Docker:
    """A daemon of our own, with a configuration of docker's that no user has."""

    folder: Path
    env: dict[str, str]

    def __call__(self, *words: str, check: bool = True, stderr_too: bool = False, **more: Any) -> str:
        done = subprocess.run(
            ["docker", *words], env={**os.environ, **self.env}, capture_output=True, text=True, timeout=120, **more
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return str(done.stdout + (done.stderr if stderr_too else "")).strip()

    def left(self) -> list[str]:
        """Containers and networks of runs: their labels tell them."""
        containers = self("ps", "--all", "--quiet", "--filter", "label=muster.run")
        networks = self("network", "ls", "--quiet", "--filter", "label=muster.run")
        volumes = self("volume", "ls", "--quiet")
        return [*containers.split(), *networks.split(), *volumes.split()]

    def build(self, tag: str, dockerfile: str, **files: bytes) -> None:
        folder = self.folder / f"build-{tag.replace('/', '-').replace(':', '-')}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "Dockerfile").write_text(dockerfile, encoding="utf-8")
        for name, data in files.items():
            (folder / name).write_bytes(data)
        self("build", "--quiet", "--tag", tag, str(folder))

    def platform(self) -> str:
        return "linux/" + self("version", "--format", "{{.Server.Arch}}")


@dataclass
class Registry:
    """A registry on loopback. Whoever pushes or pulls must be `USER`."""

    host: str

    def login(self, docker: Docker) -> None:
        docker("login", "--username", USER, "--password-stdin", self.host, input=PASSWORD)


@pytest.fixture(scope="session")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docker]:
    with running_docker(tmp_path_factory.mktemp("docker")) as running:
        yield running


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@contextmanager
def running_docker(folder: Path) -> Iterator[Docker]:
    """A daemon with the images that the tests use."""
    needs("docker", "dockerd", "mmdebstrap", root=True)
    place = f"unix://{folder}/sock"
    config = folder / "config"
    config.mkdir()
    docker = Docker(folder, {"DOCKER_HOST": place, "DOCKER_CONFIG": str(config)})
    words = ["--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "--pidfile", f"{folder}/pid"]
    # Other tests have bridges of their own at the same time: its usual rules would cut them off.
    apart = ["--iptables=false", "--ip6tables=false", "--ip-masq=false", "--ip-forward=false", "--bridge=none"]
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen(
            ["dockerd", "--host", place, *words, *apart, "--default-address-pool", f"base={_pool()},size=24"],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        eventually(lambda: _answers(docker, daemon), within=60)
        _make_images(docker)
        yield docker
    finally:
        _end(daemon)
        shutil.rmtree(folder / "data", ignore_errors=True)  # pytest keeps folders for a while, and these are large


def _pool() -> str:
    """Addresses of its own for each worker: two daemons with the same would take each other's packets."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    return f"10.{213 + int(worker) % 16}.0.0/16"


def _answers(docker: Docker, daemon: subprocess.Popen[bytes]) -> bool:
    assert daemon.poll() is None, (docker.folder / "log").read_text(errors="replace")[-2000:]
    return bool(docker("version", "--format", "{{.Server.Version}}", check=False))


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _make_images(docker: Docker) -> None:
    docker("import", str(_debian()), "muster-tests/debian:1")
    # pip inside a build trusts whom this machine trusts.
    trusts = "COPY ca /etc/ssl/certs/ca-certificates.crt\nENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt\n"
    docker.build(BASE, f"FROM muster-tests/debian:1\n{trusts}", ca=_CA.read_bytes())
    plugin = f"COPY plain_framework.py /opt/plugins/\nCOPY entry_points.txt METADATA /opt/plugins/{_PLUGIN.name}/\n"
    docker.build(
        PLAIN,
        f'FROM {BASE}\n{plugin}ENV PYTHONPATH=/opt/plugins\nENTRYPOINT ["/bin/false"]\nUSER 12345\n',
        **{path.name: path.read_bytes() for path in (PLUGINS / "plain_framework.py", *_PLUGIN.iterdir())},
    )
    docker.build(BARE, f'FROM {BASE}\nRUN rm /usr/bin/python3*\nENTRYPOINT ["/bin/false"]\n')


_PLUGIN = PLUGINS / "plain_framework-1.0.dist-info"


def _debian() -> Path:
    """Debian with a full Python, as an archive. It takes half a minute, so it is kept for the next time."""
    release = next(
        line.partition("=")[2].strip('"')
        for line in Path("/etc/os-release").read_text().splitlines()
        if line.startswith("VERSION_CODENAME")
    )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "muster-tests"
    made = cache / f"{release}-python-1.tar"
    if not made.exists():
        cache.mkdir(parents=True, exist_ok=True)
        part = cache / f"{os.getpid()}.tar"
        thin = 'rm -rf "$1"/usr/share/doc "$1"/usr/share/man "$1"/usr/share/locale'
        packages = "--include=python3,python3-venv,ca-certificates"
        subprocess.run(
            ["mmdebstrap", "--variant=minbase", packages, f"--customize-hook={thin}", release, str(part)],
            check=True,
            capture_output=True,
            timeout=250,
        )
        part.rename(made)
    return made


@contextmanager
def running_registry(folder: Path) -> Iterator[Registry]:
    """Debian's registry, with one user."""
    needs("docker-registry", "htpasswd")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{probe.getsockname()[1]}"
    users = subprocess.run(["htpasswd", "-Bbni", USER], input=PASSWORD, capture_output=True, text=True)
    if users.returncode:  # an older one takes the password from its arguments alone
        users = subprocess.run(["htpasswd", "-Bbn", USER, PASSWORD], capture_output=True, text=True, check=True)
    (folder / "htpasswd").write_text(users.stdout, encoding="utf-8")
    settings = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}},
        "http": {"addr": host, "secret": "of the tests"},
        "auth": {"htpasswd": {"realm": "tests", "path": str(folder / "htpasswd")}},
    }
    (folder / "config.yml").write_text(json.dumps(settings), encoding="utf-8")
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            ["docker-registry", "serve", str(folder / "config.yml")],
            # Whatever is called so would be taken for a setting of it.
            env={name: value for name, value in os.environ.items() if not name.startswith("REGISTRY_")},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        eventually(lambda: _serves(host), within=30)
        yield Registry(host)
    finally:
        _end(server)
        shutil.rmtree(folder / "storage", ignore_errors=True)


def _serves(host: str) -> bool:
    login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    request = urllib.request.Request(f"http://{host}/v2/", headers={"Authorization": f"Basic {login}"})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - our own
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False
