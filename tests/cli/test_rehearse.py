"""`muster rehearse`: the real plan in a cloud of its own, with faults by flag, and nothing left afterwards."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.harness import Muster, eventually

TEMPORARY = "muster-*"


@pytest.fixture
def rehearse(muster: Muster, tmp_path: Path) -> Muster:
    """The command, with a folder of its own for what is temporary, in which nothing may stay."""
    (tmp_path / "temporary").mkdir()
    muster.env["TMPDIR"] = str(tmp_path / "temporary")
    return muster


SAYS = "import os\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'], flush=True)\n"
MARKS = """
import os, pathlib, time
mark = pathlib.Path("checkpoints", "mark")
again = mark.exists()
print("rank", os.environ["RANK"], "again" if again else "here", flush=True)
if not again:
    mark.with_suffix(".tmp").touch()
    mark.with_suffix(".tmp").rename(mark)
    time.sleep(600)
"""


def nothing_stays(muster: Muster) -> None:
    assert list(Path(muster.env["TMPDIR"]).glob(TEMPORARY)) == []
    assert not (muster.home / "index").exists(), "what is rehearsed is no run of the user's"


@pytest.mark.slow
def test_a_rehearsal_runs_the_job_in_a_cloud_and_leaves_nothing(rehearse: Muster) -> None:
    done = rehearse("rehearse", rehearse.job(SAYS, workers=1), "--delay", "accepted=1", "--lose", "create_run")
    assert "rank 1 of 2" in done.stdout
    assert "nothing is left behind" in done.stderr
    assert "create_job 1" in done.stderr
    assert "create_run 3" in done.stderr, "one reply was lost"
    nothing_stays(rehearse)


@pytest.mark.slow
def test_its_exit_code_is_the_scripts(rehearse: Muster) -> None:
    done = rehearse("rehearse", rehearse.job("raise SystemExit(7)", workers=0), check=7)
    assert "nothing is left behind" in done.stderr
    nothing_stays(rehearse)


def test_a_node_that_is_refused_takes_all_back(rehearse: Muster) -> None:
    done = rehearse("rehearse", rehearse.job(SAYS, workers=3), "--refuse", "3", "--delay", "accepted=1h", check=120)
    assert "LimitExceeded" in done.stderr
    assert "All of the launch is taken back" in done.stderr
    nothing_stays(rehearse)


@pytest.mark.slow
def test_a_killed_node_is_replaced(rehearse: Muster) -> None:
    done = rehearse("rehearse", rehearse.job(MARKS, workers=1, retries=3), "--kill", "worker-1=8")
    assert "again" in done.stdout
    assert "nothing is left behind" in done.stderr
    nothing_stays(rehearse)


def test_other_commands_find_a_cloud_that_is_served(rehearse: Muster, tmp_path: Path) -> None:
    cloud = rehearse.start("rehearse", rehearse.job(SAYS, workers=1), "--serve", "--delay", "accepted=1h")
    assert cloud.stdout is not None
    lines = [cloud.stdout.readline() for _ in range(5)]
    found = dict(line.removeprefix("export ").strip().split("=", 1) for line in lines if line.startswith("export "))
    assert "MUSTER_OCI_ENDPOINT" in found
    toml = tmp_path / "config" / "muster" / "muster.toml"
    toml.parent.mkdir(parents=True)
    toml.write_text(TARGET, encoding="utf-8")
    rehearse.env |= {**found, "XDG_CONFIG_HOME": str(toml.parents[1])}
    run = rehearse("run", rehearse.job(SAYS, workers=1), "--on", "oci", "--detach").stdout.strip()
    assert "stopped" in rehearse("stop", run).stdout
    os.kill(cloud.pid, signal.SIGINT)
    cloud.communicate(timeout=60)
    assert cloud.returncode == 0
    eventually(lambda: not list(Path(rehearse.env["TMPDIR"]).glob(TEMPORARY)))


TARGET = """
[targets.oci]
kind = "oci"
work_dir = "oci://rehearsal@rehearsal/runs"
compartment_id = "ocid1.compartment.oc1..rehearsal"
project_id = "ocid1.datascienceproject.oc1.iad.rehearsal"
subnet_id = "ocid1.subnet.oc1.iad.rehearsal"
log_group_id = "ocid1.loggroup.oc1.iad.rehearsal"
shape_name = "VM.Standard.E4.Flex"
image = "iad.ocir.io/rehearsal/image:1"
"""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--delay", "nonsense=1"), "--delay: there is no nonsense"),
        (("--delay", "accepted"), "NAME=SECONDS"),
        (("--lose", "make_coffee"), "make_coffee"),
        (("--kill", "worker-9=1"), "--kill: there is no worker-9"),
    ],
)
def test_a_fault_that_cannot_be_is_an_error(rehearse: Muster, words: tuple[str, ...], told: str) -> None:
    done = rehearse("rehearse", rehearse.job(SAYS, workers=1), *words, "--delay", "accepted=1h", check=None)
    assert done.returncode != 0
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    nothing_stays(rehearse)
