"""A run whose nodes meet only through a bucket behaves as one whose nodes meet in a folder."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.rehearsal.faults import Fault
from tests.harness import Muster, eventually
from tests.targets.buckets import Bucket, bucket

KINDS = ("folder", "s3", "oci")
buckets_alone = pytest.mark.parametrize("place", ["s3", "oci"], indirect=True)
"""A folder of this machine is never away, and code in one is bundled."""

TRAIN = """
import os, pathlib, sys
rank = os.environ["RANK"]
print("rank", rank, "sees", sorted(path.name for path in pathlib.Path("inputs/data").iterdir()), flush=True)
pathlib.Path("outputs").mkdir(exist_ok=True)
pathlib.Path(f"outputs/rank-{rank}.txt").write_text("model " + rank)
pathlib.Path("checkpoints/one.tmp").write_text("state " + rank)
pathlib.Path("checkpoints/one.tmp").rename("checkpoints/one.pt")
"""


@pytest.fixture(scope="module", params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with bucket(request.param, tmp_path_factory.mktemp(request.param)) as made:
        yield made


@pytest.fixture
def there(place: Bucket, muster: Muster, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """The bucket, within reach of the command and of this test."""
    muster.env.update(place.env)
    for name, value in place.env.items():
        monkeypatch.setenv(name, value)
    return place


def elsewhere(muster: Muster, folder: Path) -> Muster:
    """Another machine: nothing of the first but access to the bucket."""
    (folder / "elsewhere").mkdir(exist_ok=True)
    return Muster(
        folder / "elsewhere-home", folder / "elsewhere", {**muster.env, "MUSTER_HOME": str(folder / "elsewhere-home")}
    )


def said(done: Any) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(done.stdout)
    return value


def test_a_whole_run(there: Bucket, muster: Muster, tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d"):
        there.store.put(f"sets/{name}.bin", name.encode() * 10)
    base, _, _ = there.url.partition("?")
    job = muster.job(
        TRAIN, workers=2, work_dir=there.url, inputs={"data": {"from": f"{base}/sets", "shard": True}}, name="whole"
    )
    muster("run", job)
    run = muster.run_id()
    status = said(muster("status", run, "--json"))
    assert status["result"]["state"] == "succeeded"
    texts = muster("logs", run).stdout
    assert sorted(re.findall(r"rank (\d) sees (.*)", texts)) == [
        ("0", "['a.bin', 'd.bin']"),
        ("1", "['b.bin']"),
        ("2", "['c.bin']"),
    ]
    assert [*said(muster("outputs", run, "--json"))] == ["rank-0.txt", "rank-1.txt", "rank-2.txt"]
    muster("outputs", run, "--to", tmp_path / "home-again")
    assert (tmp_path / "home-again" / "rank-1.txt").read_text() == "model 1"
    listed = said(muster("outputs", run, "--checkpoints", "--json"))
    assert listed
    muster("outputs", run, "--code", "--to", tmp_path / "code")
    assert (tmp_path / "code" / "script.py").read_text() == TRAIN


@pytest.mark.parametrize("place", ["s3"], indirect=True)
def test_a_main_that_dies_before_anybody_saw_it_ends_the_run_at_once(there: Bucket, muster: Muster) -> None:
    assert there.steering is not None
    there.steering.add(Fault("hold", method="PUT", key="/generations/000001/MAIN_config"))
    launcher = muster.start("run", muster.job("print('never')\n", workers=1, work_dir=there.url))
    run = muster.run_id()
    eventually(lambda: there.steering and there.steering.held() == 1)
    os.kill(json.loads(there.store.get(f"{run}/nodes/main.json"))["pid"], signal.SIGKILL)
    _, told = launcher.communicate(timeout=50)
    there.steering.let_go()
    # Not the ten minutes that a worker waits for a main that may yet come.
    assert "main-lost: main ended without a word" in told


@buckets_alone
def test_code_that_is_in_a_bucket_already_is_not_uploaded(there: Bucket, muster: Muster) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("script.py", "import os\nprint('rank', os.environ['RANK'], 'from the archive')\n")
    there.store.put("archives/code.zip", archive.getvalue())
    before = {entry.key for entry in there.store.list("code/")}
    job = muster.job(None, workers=1, work_dir=there.url, code=f"{there.url}/archives/code.zip", entry="script.py")
    muster("run", job)
    texts = muster("logs", muster.run_id()).stdout
    assert sorted(re.findall(r"rank (\d) from the archive", texts)) == ["0", "1"]
    assert {entry.key for entry in there.store.list("code/")} == before


def test_a_failing_script_ends_the_run_with_its_exit_code(there: Bucket, muster: Muster) -> None:
    job = muster.job("import os, sys\nsys.exit(7 if os.environ['RANK'] == '1' else 0)\n", workers=1, work_dir=there.url)
    muster("run", job, check=7)
    assert said(muster("status", muster.run_id(), "--json"))["result"]["exit_code"] == 7


def test_all_can_be_seen_and_stopped_from_another_machine(there: Bucket, muster: Muster, tmp_path: Path) -> None:
    other = elsewhere(muster, tmp_path)
    job = muster.job("import time\nprint('here', flush=True)\ntime.sleep(600)\n", workers=1, work_dir=there.url)
    muster("run", "--detach", job)
    run = muster.run_id()
    eventually(lambda: "here" in other("logs", run, "--work-dir", there.url, check=None).stdout, within=60)
    assert run in other("ps", "--work-dir", there.url).stdout
    # What changes in a node's record waits two seconds for what else may change, where each writing is billed.
    eventually(lambda: said(other("status", run, "--work-dir", there.url, "--json"))["state"] == "running")
    other("stop", run, "--work-dir", there.url)
    status = said(other("status", run, "--work-dir", there.url, "--json"))
    assert status["result"]["end"] == "stop-requested"
    assert {node["state"] for node in status["nodes"]} == {"ended"}


def test_nothing_of_the_credentials_is_in_the_bucket(there: Bucket, muster: Muster) -> None:
    job = muster.job("import os\nprint(dict(os.environ))\n", workers=1, work_dir=there.url, secrets=["TOKEN"])
    muster("run", job, TOKEN="token-" + "x" * 20)
    store = there.store
    for entry in store.list(f"{muster.run_id()}/"):
        if "/logs/" in entry.key:
            continue  # what the script itself printed
        content = store.get(entry.key)
        assert not any(secret in content for secret in (*there.secrets, b"token-xxx")), entry.key


@buckets_alone
def test_a_store_that_is_away_for_a_while_costs_nothing(there: Bucket, muster: Muster, tmp_path: Path) -> None:
    assert there.steering is not None
    gate, gone_on = tmp_path / "gate", tmp_path / "gone-on"
    script = f"""
import pathlib, time
print("before", flush=True)
while not pathlib.Path({str(gate)!r}).exists():
    time.sleep(0.02)
for number in range(200):
    print("line", number, flush=True)
pathlib.Path("outputs").mkdir(exist_ok=True)
pathlib.Path("outputs/model.txt").write_text("trained meanwhile")
pathlib.Path({str(gone_on)!r}).touch()
time.sleep(1)
"""
    job = muster.job(script, workers=0, work_dir=there.url)
    running = muster.start("run", job)
    run = muster.run_id()
    eventually(lambda: "before" in muster("logs", run, check=None).stdout, within=60)
    with there.steering.away():
        gate.touch()
        eventually(gone_on.exists)  # training did not wait for the store
    assert running.wait(120) == 0
    texts = re.findall(r"line (\d+)", muster("logs", run).stdout)
    assert texts == [str(number) for number in range(200)]
    assert [*said(muster("outputs", run, "--json"))] == ["model.txt"]


LONG = 125
"""Seconds without a store: longer than anything in a node that gives up on a request."""


@pytest.mark.slow
def test_two_minutes_without_the_store_lose_nothing(muster: Muster, tmp_path: Path) -> None:
    script = f"""
import os, pathlib, time
until, number = time.monotonic() + {LONG + 10}, 0
while time.monotonic() < until:
    print("line", number, flush=True)
    pathlib.Path("checkpoints/state.tmp").write_text(str(number))
    pathlib.Path("checkpoints/state.tmp").rename("checkpoints/state.pt")
    number += 1
    time.sleep(0.25)
pathlib.Path("outputs/last.txt").write_text(str(number))
"""
    with bucket("s3", tmp_path) as there:
        assert there.steering is not None
        muster.env.update(there.env)
        running = muster.start("run", muster.job(script, workers=1, work_dir=there.url))
        run = muster.run_id()
        eventually(lambda: "line 3" in muster("logs", run, check=None).stdout, within=60)
        with there.steering.away("close"):
            time.sleep(LONG)
        assert running.wait(120) == 0, running.stderr and running.stderr.read()
        texts = muster("logs", run).stdout
        muster("outputs", run, "--to", tmp_path / "out")
    for rank in range(2):
        numbers = [int(number) for number in re.findall(rf"\[rank {rank}\] line (\d+)", texts)]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) >= 2 * LONG  # it went on meanwhile
    kept = sorted((tmp_path / "out").rglob("last.txt"))
    assert kept
    assert "generation 2" not in texts
