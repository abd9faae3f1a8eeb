"""`muster run --containers`: the contract of targets where each node is a container, and what only containers have."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.docker import BARE, PLAIN, Docker
from tests.harness import MARK, Muster, eventually, marked
from tests.targets.target_contract import WAITS, TargetContract, job, logs, status

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


class Boxed(Muster):
    """The command, whose runs and plans are of containers."""

    def argv(self, *words: str | Path) -> list[str]:
        more = ["--containers"] if words[0] in ("run", "plan") else []
        return [*super().argv(*words), *more]


@dataclass
class Boxes:
    muster: Muster
    docker: Docker
    on: str = "local"
    remote: bool = False
    fields: dict[str, Any] = field(default_factory=lambda: {"image": PLAIN})

    def left(self) -> list[str]:
        return [*self.docker.left(), *marked(self.muster.env[MARK]).values()]

    def refused(self, number: int) -> str:
        """The node of this number has an image in which nothing can run."""
        role = "main" if number == 1 else "worker"
        fields: dict[str, Any] = {role: {"image": BARE}}
        return self.muster("run", job(self, WAITS, workers=2, **fields), check=120).stderr

    def kill(self, run: str, node: str) -> None:
        self.docker("kill", f"muster-{run}-{node}")


@pytest.fixture
def place(muster: Muster, docker: Docker) -> Boxes:
    return Boxes(Boxed(muster.home, muster.folder, {**muster.env, **docker.env}, muster.started), docker)


class TestContainers(TargetContract):
    """Nodes are containers."""


LOOKS = """
import os, pathlib, socket
rank = os.environ["RANK"]
name = socket.gethostname()
found = [os.getcwd(), name, socket.gethostbyname(name), os.environ["TOKEN"][::-1], str(os.getuid())]
found += [pathlib.Path("/code/script.py").read_text()[1:10], pathlib.Path("inputs/data/a").read_text()]
pathlib.Path("outputs", f"{rank}.txt").write_text("\\n".join(found))
print("rank", rank, "here", flush=True)
while not pathlib.Path("/muster/runs/go").exists():
    import time; time.sleep(0.05)
"""


def test_each_node_has_its_own_address_and_nobody_sees_its_secrets(place: Boxes, tmp_path: Path) -> None:
    """The folders' names hold what a shell or docker's own lists would stumble over."""
    data = tmp_path / "my, own: $(data)"
    data.mkdir()
    (data / "a").write_text("input")
    made = job(place, LOOKS, workers=1, secrets=["TOKEN"], inputs={"data": str(data)})
    launcher = place.muster.start("run", made, TOKEN="very-secret")
    run = place.muster.run_id()
    eventually(lambda: all(f"rank {rank} here" in logs(place, run) for rank in (0, 1)), within=90)
    seen = place.docker("inspect", f"muster-{run}-main", f"muster-{run}-worker-1", f"muster-{run}")
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert all("very-secret" not in text for text in (seen, *(line.decode(errors="replace") for line in lines)))
    assert {one["Labels"]["muster.run"] for one in _all(seen)} == {run}
    (place.muster.runs / "go").touch()
    _, told = launcher.communicate(timeout=90)
    assert launcher.returncode == 0, told
    place.muster("outputs", run, "--to", tmp_path / "out")
    found = [path.read_text().splitlines() for path in sorted((tmp_path / "out").rglob("?.txt"))]
    assert [one[:2] for one in found] == [["/code", "main"], ["/code", "worker-1"]]
    assert found[0][2] != found[1][2]
    assert all(one[3:] == ["very-secret"[::-1], str(os.getuid()), "import os", "input"] for one in found)
    kept = [path for path in place.muster.home.rglob("*") if path.is_file() and b"very-secret" in path.read_bytes()]
    assert kept == []
    assert place.left() == []


def _all(seen: str) -> list[dict[str, Any]]:
    return [{"Labels": one.get("Labels") or one["Config"]["Labels"]} for one in json.loads(seen)]


def test_ctrl_c_takes_all_of_it_away(place: Boxes) -> None:
    launcher = place.muster.start("run", job(place, WAITS, workers=1))
    run = place.muster.run_id()
    eventually(lambda: all(f"rank {rank} here" in logs(place, run) for rank in (0, 1)), within=90)
    launcher.send_signal(signal.SIGINT)
    launcher.communicate(timeout=60)
    assert place.left() == []
    assert status(place, run)["result"]["state"] == "stopped"


def test_the_plan_shows_the_containers_and_pins_their_image(place: Boxes) -> None:
    told = json.loads(place.muster("plan", job(place, WAITS, workers=1, image=PLAIN), "--json").stdout)
    image = place.docker("image", "inspect", "--format", "{{.Id}}", PLAIN)
    network, main, worker = told["resources"]
    assert (network["kind"], network["name"]) == ("network", "muster-{run}")
    assert [one["payload"]["image"] for one in (main, worker)] == [image, image]
    assert main["payload"]["network"] == "muster-{run}"
    assert [mount.rpartition(":")[2] for mount in main["payload"]["mounts"]] == [
        "/muster/runs",
        "/muster/node",
        "/code",
    ]
    assert "MUSTER_FREE_PORTS" not in told["nodes"][0]["environment"]
    words = place.muster("plan", job(place, WAITS, workers=1)).stdout
    assert image in words
    assert place.left() == []


def test_what_cannot_be_is_said_before_anything_is_made(place: Boxes) -> None:
    for fields, told in (
        ({"image": "127.0.0.1:1/nobody/nothing:1"}, "127.0.0.1:1 does not answer"),
        ({"image": PLAIN, "work_dir": "s3://bucket/runs"}, "cannot meet in s3://bucket/runs"),
        ({"image": "@image"}, "none was built here"),
    ):
        done = place.muster("run", job(place, WAITS, **fields), check=120)
        assert told in done.stderr
        assert not place.muster.runs.exists()
