"""`muster outputs`: what a script left, listed as one tree and fetched; and the code that it was."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import SCRIPT, Finished
from tests.harness import Muster, eventually
from tests.node.hands import heard

TREE = {
    "deep ä/0.txt": 4,
    "deep ä/1.txt": 4,
    "own.txt": 9,
    "same.txt": 6,
    "worker-1/own.txt": 9,
}


def test_what_all_ranks_left_is_one_tree(finished: Finished) -> None:
    shown = finished.muster("outputs", finished.run).stdout.splitlines()
    assert sorted(line.split(None, 1)[1] for line in shown) == sorted(TREE)
    assert json.loads(finished.muster("outputs", finished.run, "--json").stdout) == TREE


def test_it_is_fetched_and_a_second_time_only_what_is_missing(finished: Finished, tmp_path: Path) -> None:
    to = tmp_path / "brought home"
    first = json.loads(finished.muster("outputs", finished.run, "--to", to, "--json").stdout)
    assert first == TREE
    assert (to / "own.txt").read_text() == "of rank 0"
    assert (to / "worker-1" / "own.txt").read_text() == "of rank 1"
    (to / "own.txt").write_text("changed")
    (to / "deep ä" / "0.txt").unlink()
    second = json.loads(finished.muster("outputs", finished.run, "--to", to, "--json").stdout)
    assert {path for path, size in second.items() if size} == {"own.txt", "deep ä/0.txt"}
    assert (to / "own.txt").read_text() == "of rank 0"


def test_the_code_that_was_run_can_be_seen_later(finished: Finished, tmp_path: Path) -> None:
    assert finished.muster("outputs", finished.run, "--code").stdout.split()[-1] == "script.py"
    finished.muster("outputs", finished.run, "--code", "--to", tmp_path / "code")
    assert (tmp_path / "code" / "script.py").read_text() == SCRIPT
    done = finished.muster("outputs", finished.run, "--code", "--to", tmp_path / "code", check=125)
    assert "exists already" in done.stderr


def test_outputs_come_home_while_the_script_still_runs(muster: Muster) -> None:
    text = (
        "import pathlib, time\npathlib.Path('outputs/early.txt').write_text('early')\nprint('here', flush=True)\n"
        "while not pathlib.Path('outputs/never').exists(): time.sleep(0.05)\n"
    )
    launcher = muster.start("run", muster.job(text, workers=0))
    run = muster.run_id()
    heard(muster, run, "here")
    eventually(lambda: "early.txt" in muster("outputs", run).stdout, within=60)
    assert launcher.poll() is None
    muster("stop", run)
    assert launcher.wait(60) == 130


def test_a_run_that_left_nothing_says_so(muster: Muster) -> None:
    muster("run", muster.job("", workers=0))
    assert muster("outputs", muster.run_id()).stdout == "nothing (yet)\n"
