"""`muster logs`: what is asked for, live while the run goes on, and from its folder alone when it is over."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path

from tests.cli.conftest import Finished
from tests.harness import Muster
from tests.node.hands import FOREVER, heard


def test_lines_of_all_ranks_are_merged_in_time_each_with_its_rank(finished: Finished) -> None:
    shown = finished.muster("logs", finished.run).stdout.splitlines()
    told = [line for line in shown if " of " in line and "xxx" not in line]
    assert sorted(told) == sorted(f"[rank {rank}] {what} of {rank}" for rank in (0, 1) for what in FIRST)
    assert "[main muster] ready: 2 nodes" in shown
    assert len(shown) >= 3007
    times = [json.loads(line)["time"] for line in finished.muster("logs", finished.run, "--json").stdout.splitlines()]
    assert times == sorted(times)


FIRST = ("first", "warning", "last")


def test_only_what_is_asked_for_is_shown(finished: Finished) -> None:
    def texts(*words: str) -> list[str]:
        return finished.muster("logs", finished.run, "--grep", "^(first|warning|last) of", *words).stdout.splitlines()

    # Output and errors are two pipes: which of them is read first is anybody's guess.
    assert sorted(texts("--rank", "1")) == ["[rank 1] first of 1", "[rank 1] last of 1", "[rank 1] warning of 1"]
    assert sorted(texts("--node", "main")) == ["[rank 0] first of 0", "[rank 0] last of 0", "[rank 0] warning of 0"]
    assert len(texts("--rank", "0", "--rank", "1")) == 6
    assert len(texts("--node", "main", "--node", "worker-1")) == 6
    assert texts("--rank", "7") == []
    assert texts("--node", "main", "--rank", "1") == []
    assert len(texts("--since", "1h")) == 6
    assert texts("--since", "0.001s") == []


def test_steps_are_shown_only_on_demand(finished: Finished) -> None:
    assert "→ running" not in finished.muster("logs", finished.run).stdout
    assert "[main muster] gathering → running: all are here" in finished.muster("logs", finished.run, "--steps").stdout


def test_lines_for_programs_are_whole_values(finished: Finished) -> None:
    shown = finished.muster("logs", finished.run, "--json", "--rank", "1", "--grep", "first").stdout
    value = json.loads(shown)
    assert {**value, "time": 0, "n": 0} == {
        "n": 0,
        "time": 0,
        "node": "worker-1",
        "process": "rank 1",
        "stream": "out",
        "text": "first of 1",
        "rank": 1,
    }


def test_mistakes_in_what_is_asked_for_are_clear(finished: Finished) -> None:
    assert "--grep '(' is not a regular expression" in finished.muster("logs", "done", "--grep", "(", check=125).stderr
    assert "--since" in finished.muster("logs", "done", "--since", "soon", check=125).stderr
    assert "'one' is not a valid integer" in finished.muster("logs", "done", "--rank", "one", check=2).stderr


def test_a_finished_runs_lines_come_from_its_folder_alone(finished: Finished, tmp_path: Path) -> None:
    moved = tmp_path / "moved away"
    shutil.copytree(finished.muster.runs, moved)
    words = ("logs", finished.run, "--work-dir", moved, "--grep", "of")
    shown = finished.muster(*words, MUSTER_HOME=str(tmp_path / "other home")).stdout
    assert "[rank 1] last of 1" in shown
    followed = finished.muster(*words, "-f", MUSTER_HOME=str(tmp_path / "other home")).stdout
    assert sorted(followed.splitlines()) == sorted(shown.splitlines())


WAITS = """
import os, pathlib, time
print("before", os.environ["RANK"], flush=True)
while not pathlib.Path(os.environ["GO"]).exists():
    time.sleep(0.02)
print("after", os.environ["RANK"], flush=True)
"""


def test_followed_lines_appear_while_the_script_runs_and_end_with_it(muster: Muster) -> None:
    go = muster.folder / "go"
    launcher = muster.start("run", muster.job(WAITS, workers=1), GO=str(go))
    run = muster.run_id()
    follower = muster.start("logs", run, "-f", "--grep", "before|after", "--node", "worker-1")
    assert follower.stdout is not None
    assert follower.stdout.readline() == "[rank 1] before 1\n"
    assert launcher.poll() is None
    late = muster.start("logs", run, "-f", "--grep", "before|after")
    assert late.stdout is not None
    assert sorted(late.stdout.readline() for _ in range(2)) == ["[rank 0] before 0\n", "[rank 1] before 1\n"]
    go.touch()
    assert follower.communicate(timeout=60)[0] == "[rank 1] after 1\n"
    assert sorted(late.communicate(timeout=60)[0].splitlines()) == ["[rank 0] after 0", "[rank 1] after 1"]
    assert (follower.returncode, late.returncode, launcher.wait(60)) == (0, 0, 0)


def test_ctrl_c_ends_the_following_and_not_the_run(muster: Muster) -> None:
    launcher = muster.start("run", muster.job(FOREVER, workers=0))
    run = muster.run_id()
    follower = muster.start("logs", run, "-f")
    heard(muster, run, "here")
    assert follower.stdout is not None
    while follower.stdout.readline() != "[rank 0] here\n":
        pass
    follower.send_signal(signal.SIGINT)
    assert follower.wait(60) == 130
    assert "Traceback" not in follower.communicate()[1]
    assert launcher.poll() is None
    muster("stop", run)
    assert launcher.wait(60) == 130


def test_whoever_reads_one_line_only_is_no_trouble(finished: Finished) -> None:
    words = " ".join(f"'{word}'" for word in finished.muster.argv("logs", finished.run, "--rank", "0"))
    for command in (f"{words} | head -1", f"{words} --json | head -1"):
        shell = ["bash", "-c", f"{command}; echo ${{PIPESTATUS[0]}}"]
        done = subprocess.run(shell, env=finished.muster.env, capture_output=True, text=True, timeout=60)
        first, code = done.stdout.splitlines()
        assert "first of 0" in first
        assert code == "141"
        assert done.stderr == ""
