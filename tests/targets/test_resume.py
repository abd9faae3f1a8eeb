"""A launcher that is killed half way: `muster run --resume` finishes what it began, and nothing else is resumed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.harness import MARK, Muster, eventually, marked
from tests.node.hands import FOREVER, alive, heard, read_json, record_of, result_of, texts_of

SUDDEN = """
import os, signal, sys
from muster import launching
from muster.targets.local_nodes import LocalNodes

begin, after = LocalNodes.start, int(sys.argv.pop())

def start(self, node):
    if len(self._nodes) == after:
        os.kill(os.getpid(), signal.SIGKILL)
    begin(self, node)

LocalNodes.start = start
from muster.cli import main
main()
"""
"""The command, killed before it starts the node of this number."""


def killed_after(muster: Muster, job: Path, nodes: int) -> str:
    """A run whose launcher was killed after so many nodes, once they have noticed."""
    words = [sys.executable, "-c", SUDDEN, "run", str(job), str(nodes)]
    done = subprocess.run(words, env=muster.env, cwd=muster.folder, capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL
    eventually(lambda: not marked(muster.env[MARK]), within=60)
    return muster.run_id()


def test_a_run_without_a_node_is_resumed_and_finishes(muster: Muster) -> None:
    run = killed_after(muster, muster.job("print('well')", workers=1), nodes=0)
    shown = muster("status", run).stdout
    assert "created" in shown
    assert f"muster run --resume {run}" in shown
    done = muster("run", "--resume", run)
    assert sorted(done.stdout.splitlines()) == ["[rank 0] well", "[rank 1] well"]
    assert result_of(muster, run)["state"] == "succeeded"
    assert len(list(muster.runs.glob("test-*"))) == 1


def test_a_run_whose_first_node_was_there_is_resumed_and_finishes(muster: Muster) -> None:
    run = killed_after(muster, muster.job("print('well')", workers=1), nodes=1)
    assert not (muster.runs / run / "result.json").exists()
    assert f"muster run --resume {run}" in muster("status", run).stdout
    muster("run", "--resume", run)
    assert result_of(muster, run)["state"] == "succeeded"
    assert texts_of(muster, run) == ["well", "well"]
    assert record_of(muster, run, "worker-1")["incarnation"] == 1


def test_code_that_changed_since_is_not_what_a_resumed_run_runs(muster: Muster) -> None:
    job = muster.job("print('as it was')", workers=0)
    run = killed_after(muster, job, nodes=0)
    (job.parent / "code" / "script.py").write_text("print('as it is')")
    assert muster("run", "--resume", run).stdout == "[rank 0] as it was\n"


def test_a_resumed_run_may_be_elsewhere(muster: Muster, tmp_path: Path) -> None:
    job = muster.job("print('well')", workers=0, work_dir=str(tmp_path / "elsewhere"))
    run = killed_after(muster, job, nodes=0)
    (muster.home / "index" / f"{run}.json").unlink()
    assert "no run is called" in muster("run", "--resume", run, check=2).stderr
    muster("run", "--resume", run, "--work-dir", tmp_path / "elsewhere")
    assert read_json(tmp_path / "elsewhere" / run / "result.json")["state"] == "succeeded"


def test_an_ended_run_is_not_resumed(muster: Muster) -> None:
    muster("run", muster.job("", workers=0))
    done = muster("run", "--resume", muster.run_id(), check=120)
    assert "has ended already: script-ended" in done.stderr
    assert "as a new run" in done.stderr


def test_a_run_that_still_goes_on_is_not_resumed_and_not_disturbed(muster: Muster) -> None:
    launcher = muster.start("run", muster.job(FOREVER, workers=1))
    run = muster.run_id()
    heard(muster, run, "here", times=2)
    done = muster("run", "--resume", run, check=120)
    assert f"run {run} still has nodes: main, worker-1" in done.stderr
    assert f"muster stop {run}" in done.stderr
    assert alive(record_of(muster, run, "main")["pid"])
    muster("stop", run)
    assert launcher.wait(60) == 130


def test_a_run_that_nobody_launched_is_not_resumed(muster: Muster) -> None:
    done = muster("run", "--resume", "nothing", check=2)
    assert "no run is called 'nothing'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_that_never_began_can_be_stopped(muster: Muster) -> None:
    run = killed_after(muster, muster.job("print('well')", workers=1), nodes=0)
    assert "stopped" in muster("stop", run).stdout
    assert result_of(muster, run)["end"] == "stop-requested"
    assert "has ended already" in muster("run", "--resume", run, check=120).stderr


def test_of_two_who_resume_at_once_one_does_and_the_run_is_whole(muster: Muster) -> None:
    run = killed_after(muster, muster.job("print('well')", workers=1), nodes=0)
    both = [muster.start("run", "--resume", run) for _ in range(2)]
    told = [process.communicate(timeout=90) for process in both]
    assert sorted(process.returncode for process in both) == [0, 120]
    assert any("being launched already" in stderr or "still has nodes" in stderr for _, stderr in told)
    assert result_of(muster, run)["state"] == "succeeded"
    assert texts_of(muster, run) == ["well", "well"]


def test_a_run_is_resumed_without_a_terminal(muster: Muster) -> None:
    run = killed_after(muster, muster.job("print('well')", workers=1), nodes=0)
    assert muster("run", "--resume", run, "--detach").stdout == f"{run}\n"
    assert result_of(muster, run)["state"] == "succeeded"


def test_a_detached_launcher_takes_no_module_of_the_users_folder_for_pythons_own(muster: Muster) -> None:
    job = muster.job("print('well')", workers=0)
    (muster.folder / "queue.py").write_text("raise RuntimeError('taken for the standard library')")
    done = subprocess.run(
        [str(Path(sys.executable).with_name("muster")), "run", str(job), "--detach"],
        env=muster.env,
        cwd=muster.folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert result_of(muster, done.stdout.strip())["state"] == "succeeded"
