"""A finished run seen from a machine that has nothing of it but access to its bucket."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from muster.rehearsal import s3
from muster.workdir.parts import AT_ONCE, PART, PARTIAL
from tests.harness import MARK, PLUGINS, Muster, eventually, marked
from tests.node.terminal import Terminal

pytestmark = pytest.mark.slow

URL = "s3://training/team"
LARGE = 200 << 20
SCRIPT = f"""
import os, pathlib, muster
rank = os.environ["RANK"]
for number in range(100):
    print(f"line {{number}} of {{rank}}", flush=True)
pathlib.Path("outputs", f"{{rank}}.txt").write_text("of " + rank)
if rank == "0":
    with open("outputs/model.pt", "wb") as file:
        for number in range({LARGE >> 20}):
            file.write(number.to_bytes(4, "big") * (1 << 18))
    pathlib.Path("checkpoints/step-1.tmp").write_text("1")
    os.rename("checkpoints/step-1.tmp", "checkpoints/step-1")
"""


@dataclass
class Elsewhere:
    """Another machine: a home of its own, in which nobody ever launched anything."""

    muster: Muster
    run: str
    server: s3.S3Server

    def __call__(self, *words: str | Path, check: int = 0) -> str:
        return self.muster(*words, "--work-dir", URL, check=check).stdout


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[s3.S3Server, str, dict[str, str]]]:
    """A run of two ranks in a bucket. Of the machine that launched it nothing is left."""
    folder = tmp_path_factory.mktemp("launched")
    mark = f"{os.getpid()}-{folder.name}"
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MUSTER_", "OCI_", "AWS_"))}
    with s3.started("training") as server:
        env |= {**server.environment, MARK: mark, "PYTHONPATH": str(PLUGINS)}
        launcher = Muster(folder / "home", folder, {**env, "MUSTER_HOME": str(folder / "home")})
        launcher("run", launcher.job(SCRIPT, name="done", workers=1, work_dir=URL))
        run = launcher.run_id()
        eventually(lambda: not marked(mark))
        yield server, run, env


@pytest.fixture
def elsewhere(bucket: tuple[s3.S3Server, str, dict[str, str]], tmp_path: Path) -> Iterator[Elsewhere]:
    server, run, env = bucket
    (tmp_path / "work").mkdir()
    muster = Muster(tmp_path / "home", tmp_path / "work", {**env, "MUSTER_HOME": str(tmp_path / "home")})
    yield Elsewhere(muster, run, server)
    server.steering.clear()


def test_its_log_needs_only_the_bucket(elsewhere: Elsewhere) -> None:
    before = elsewhere.server.steering.counts()
    shown = elsewhere("logs", elsewhere.run).splitlines()
    spent = elsewhere.server.steering.counts() - before
    for rank in range(2):
        assert [line for line in shown if line.endswith(f" of {rank}")] == [
            f"[rank {rank}] line {number} of {rank}" for number in range(100)
        ]
    assert spent.of("list") == 1
    assert not (elsewhere.muster.home / "runs").exists()


def test_a_fetch_that_is_killed_goes_on_where_it_stopped(elsewhere: Elsewhere, tmp_path: Path) -> None:
    to, steering = tmp_path / "to", elsewhere.server.steering
    steering.slow(0.3)
    before = steering.counts()
    fetching = elsewhere.muster.start("outputs", elsewhere.run, "--work-dir", URL, "--to", to)
    eventually(lambda: sum(path.read_text().count("number") for path in to.glob(f"{PARTIAL}*.jsonl")) >= 4, within=60)
    os.kill(fetching.pid, signal.SIGKILL)
    fetching.communicate()
    steering.slow(0)
    assert not (to / "model.pt").exists()
    fetched = json.loads(elsewhere("outputs", elsewhere.run, "--to", to, "--json"))
    spent = steering.counts() - before
    assert 0 < fetched["model.pt"] <= LARGE - 4 * PART
    assert spent.bytes_out < LARGE + AT_ONCE * PART + (1 << 20)
    assert sorted(path.name for path in to.iterdir()) == ["0.txt", "1.txt", "model.pt"]
    content = (to / "model.pt").read_bytes()
    assert all(content[number << 20 : (number << 20) + 4] == number.to_bytes(4, "big") for number in range(LARGE >> 20))
    assert json.loads(elsewhere("outputs", elsewhere.run, "--to", to, "--json"))["model.pt"] == 0


def test_what_takes_its_time_is_shown_with_rate_and_time_left(elsewhere: Elsewhere, tmp_path: Path) -> None:
    elsewhere.server.steering.slow(2.0)  # long enough between two of its parts for a look at the terminal
    words = elsewhere.muster.argv("outputs", elsewhere.run, "--work-dir", URL, "--to", tmp_path / "to")
    terminal = Terminal(words, elsewhere.muster)
    eventually(lambda: re.search(r"fetching outputs .* of 210MB, .*B/s, .*s left", terminal.read()), within=60)
    assert terminal.wait() == 0
    terminal.close()


def test_its_checkpoints_can_be_fetched(elsewhere: Elsewhere, tmp_path: Path) -> None:
    assert "main/000001/step-1" in elsewhere("outputs", elsewhere.run, "--checkpoints")
    elsewhere("outputs", elsewhere.run, "--checkpoints", "--to", tmp_path / "to")
    assert (tmp_path / "to" / "main" / "step-1").read_text() == "1"


def test_last_of_all_it_can_be_deleted(elsewhere: Elsewhere) -> None:
    steering = elsewhere.server.steering
    shown = json.loads(elsewhere("prune", "--older-than", "1d", "--json", "--dry-run"))
    assert [one["run"] for one in shown["stays"]] == [elsewhere.run]
    before = steering.counts()
    gone = json.loads(elsewhere("rm", elsewhere.run, "--yes", "--json"))
    spent = steering.counts() - before
    assert gone["deleted"]
    assert gone["goes"][0]["objects"] > 10
    assert gone["goes"][0]["bytes"] > LARGE
    # The run, its nodes because it has only just ended, and what came while it was deleted.
    assert spent.of("list") <= 3
    assert spent.of("delete") == 3
    assert elsewhere("ps") == "No runs yet. `muster init` makes a job to start from.\n"
    assert "no run is called" in elsewhere.muster("rm", elsewhere.run, "--yes", "--work-dir", URL, check=2).stderr
