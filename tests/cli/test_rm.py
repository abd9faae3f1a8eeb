"""`muster rm`: what goes is shown, asked for, and gone; what runs is refused."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest

from tests.harness import Muster, eventually, marked
from tests.node.hands import FOREVER, heard
from tests.node.terminal import Terminal

SCRIPT = "import pathlib\npathlib.Path('outputs/model.pt').write_text('x' * 1000)\n"


@pytest.fixture
def run(muster: Muster) -> str:
    """A run that has ended."""
    muster("run", muster.job(SCRIPT, name="done", workers=0))
    return muster.run_id()


def test_what_goes_is_shown_first_and_without_a_terminal_nothing_does(muster: Muster, run: str) -> None:
    folder = muster.runs / run
    objects = len([path for path in folder.rglob("*") if path.is_file()])
    done = muster("rm", run, check=2)
    assert "there is no terminal to ask at, so nothing was deleted" in done.stderr
    assert "Add --yes" in done.stderr
    head, row, summary = done.stdout.splitlines()
    assert head.split() == ["RUN", "STATE", "AGE", "OBJECTS", "SIZE"]
    assert row.split()[:2] == [run, "succeeded"]
    assert row.split()[3] == str(objects)
    assert summary.startswith(f"1 run: {objects} objects, ")
    assert muster("rm", run, "--dry-run").stdout.splitlines()[0] == head
    assert len([path for path in folder.rglob("*") if path.is_file()]) == objects


def test_it_is_gone_and_the_others_are_not(muster: Muster, run: str) -> None:
    muster("run", muster.job(SCRIPT, name="other", workers=0))
    other = muster.run_id((run,))
    assert muster("rm", run, "--yes").stdout.splitlines()[-1] == "Deleted."
    assert not (muster.runs / run).exists()
    shown = muster("ps").stdout
    assert run not in shown
    assert other in shown
    assert muster("outputs", other).stdout.split()[-1] == "model.pt"
    assert "no run is called" in muster("rm", run, "--yes", check=2).stderr


def test_at_a_terminal_it_is_asked_for(muster: Muster, run: str) -> None:
    assert answered(muster, run, "n") == 1
    assert (muster.runs / run).exists()
    assert answered(muster, run, "y") == 0
    assert not (muster.runs / run).exists()


def answered(muster: Muster, run: str, answer: str) -> int:
    terminal = Terminal(muster.argv("rm", run), muster)
    eventually(lambda: "Delete all of it for good? [y/N]" in terminal.read())
    terminal.type(f"{answer}\n")
    code = terminal.wait()
    terminal.close()
    return code


def test_for_programs(muster: Muster, run: str) -> None:
    assert "asks no questions" in muster("rm", run, "--json", check=2).stderr
    for way, deleted in (("--dry-run", False), ("--yes", True)):
        shown = json.loads(muster("rm", run, "--json", way).stdout)
        (goes,) = shown["goes"]
        assert (goes["run"], goes["state"], goes["work_dir"]) == (run, "succeeded", str(muster.runs))
        assert 0 <= goes["age_seconds"] < 600
        assert goes["bytes"] > 1000
        assert shown["deleted"] is deleted


def test_one_that_runs_is_refused_with_the_command_that_ends_it(muster: Muster, run: str) -> None:
    launcher = muster.start("run", muster.job(FOREVER, name="busy", workers=0))
    busy = muster.run_id((run,))
    heard(muster, busy, "here")
    for force in ([], ["--force"]):
        done = muster("rm", run, busy, "--yes", *force, check=2)
        assert re.search(rf"run {busy} cannot be deleted: it is running: main\n.*`muster stop {busy}`", done.stderr)
    assert (muster.runs / run).exists()
    muster("stop", busy)
    assert launcher.wait(60) == 130
    muster("rm", run, busy, "--yes")
    assert list(muster.runs.glob("b*-*")) == []


def test_one_that_was_lost_takes_force_and_what_its_nodes_left_goes_too(muster: Muster, mark: str) -> None:
    muster("run", "--detach", muster.job(FOREVER, name="lost", workers=1))
    run = muster.run_id()
    heard(muster, run, "here")
    # All at once, so that none of them can tidy up after another.
    while left := marked(mark):
        for pid in left:
            os.kill(pid, signal.SIGSTOP)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
    assert list((muster.home / "nodes" / run).iterdir())
    done = muster("rm", run, "--yes", check=2)
    assert "it is lost, and has no end" in done.stderr
    assert "add --force" in done.stderr
    muster("rm", run, "--yes", "--force")
    assert not (muster.runs / run).exists()
    assert not (muster.home / "nodes" / run).exists()


def test_what_is_no_run_is_not_touched(muster: Muster, run: str) -> None:
    (muster.runs / "datasets").mkdir()
    (muster.runs / "datasets" / "train.csv").write_text("precious")
    assert "is no run" in muster("rm", "datasets", "--yes", "--work-dir", muster.runs, check=2).stderr
    assert muster("rm", "../runs", "--yes", "--work-dir", muster.runs, check=125).stderr.startswith(
        "muster: not the name"
    )
    assert (muster.runs / "datasets" / "train.csv").read_text() == "precious"
    assert (muster.runs / run).exists()


def test_a_name_that_could_be_several_deletes_none(muster: Muster, run: str) -> None:
    muster("run", muster.job(SCRIPT, name="done", workers=0))
    done = muster("rm", "done", "--yes", check=2)
    assert "could be any of" in done.stderr
    assert len(list(muster.runs.glob("done-*"))) == 2


def test_one_that_somebody_else_deleted_is_forgotten(muster: Muster, run: str) -> None:
    muster("rm", run, "--yes", "--work-dir", muster.runs, MUSTER_HOME=str(muster.home.parent / "another"))
    assert not (muster.runs / run).exists()
    shown = muster("rm", run, "--yes").stdout
    assert f"{run:<32} gone" in shown
    assert muster("ps").stdout.startswith("No runs yet")
