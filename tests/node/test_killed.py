"""Whoever is killed, asked to end or hung up on: no process of the run stays, unless it was detached."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.workdir.home import remove_node_folder
from tests.harness import Muster, eventually
from tests.node.hands import FOREVER, alive, by_hand, heard, parent_of, record_of, result_of, script_of
from tests.node.terminal import Terminal

FAMILY = """
import os, pathlib, signal, subprocess, sys, time

pids = pathlib.Path(os.environ["PIDS"])
DEAF = '''
import os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1], str(os.getpid())).touch()
time.sleep(600)
'''
child = [sys.executable, "-c", DEAF, str(pids)]
subprocess.Popen(child)
subprocess.Popen(child, start_new_session=True)
subprocess.Popen(child, start_new_session=True, env={})
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(child[0], child)
    os._exit(0)
while len(list(pids.iterdir())) < 4 * int(os.environ["WORLD_SIZE"]):
    time.sleep(0.02)
if "DEAF" in os.environ:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
(pids / str(os.getpid())).touch()
print("here", flush=True)
time.sleep(600)
"""
"""A script with a child, one in a session of its own, one with no environment and a daemon, all deaf to SIGTERM.

With DEAF in its environment it is so itself.
"""


@pytest.fixture
def pids(tmp_path: Path) -> Iterator[Path]:
    """Where a family writes its process ids down; none of them may outlive the test."""
    folder = tmp_path / "pids"
    folder.mkdir()
    yield folder
    left = [int(path.name) for path in folder.iterdir() if alive(int(path.name))]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left


def family(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir()]


def gone(folder: Path, members: int) -> None:
    found = family(folder)
    assert len(found) == members
    eventually(lambda: not any(alive(pid) for pid in found), within=60)


@pytest.mark.parametrize("victim", ["program", "guardian"])
def test_killing_either_of_a_nodes_pair_ends_its_whole_tree(muster: Muster, pids: Path, victim: str) -> None:
    node = by_hand(muster, "pair", "MAIN", script_of(muster, FAMILY), WORKER_COUNT="0", PIDS=str(pids))
    heard(muster, "pair", "here")
    program = record_of(muster, "pair", "main")["pid"]
    guardian = parent_of(program)
    assert node.pid == guardian
    os.kill(program if victim == "program" else guardian, signal.SIGKILL)
    gone(pids, members=5)
    eventually(lambda: not alive(program) and not alive(guardian), within=60)
    # Nobody is left who could take the folder away; the next node of this name would.
    remove_node_folder(muster.home / "nodes" / "pair" / "main")


def test_killing_the_launcher_ends_every_tree_and_the_run_says_why(muster: Muster, pids: Path) -> None:
    launcher = muster.start("run", muster.job(FAMILY, workers=1), PIDS=str(pids))
    run = muster.run_id()
    heard(muster, run, "here", times=2)
    launcher.kill()
    gone(pids, members=10)
    result = result_of(muster, run)
    assert (result["state"], result["detail"]) == ("stopped", "the launcher went away")
    assert_nothing_runs(muster, run)


def assert_nothing_runs(muster: Muster, run: str) -> None:
    nodes = [record_of(muster, run, path.stem)["pid"] for path in (muster.runs / run / "nodes").iterdir()]
    eventually(lambda: not any(alive(pid) for pid in nodes), within=60)


def test_a_closed_terminal_ends_the_run(muster: Muster, pids: Path) -> None:
    terminal = Terminal(muster.argv("run", muster.job(FAMILY, workers=1)), muster, PIDS=str(pids))
    run = muster.run_id()
    heard(muster, run, "here", times=2)
    terminal.close()
    gone(pids, members=10)
    assert result_of(muster, run)["state"] == "stopped"
    assert_nothing_runs(muster, run)
    terminal.wait()


SHELL = "import subprocess, sys\nsubprocess.run(sys.argv[1:], check=True)\nsys.stdin.readline()\n"


def test_a_detached_run_outlives_its_terminal_and_its_shell_and_stop_ends_it(muster: Muster, pids: Path) -> None:
    words = muster.argv("run", "--detach", muster.job(FAMILY, workers=1))
    terminal = Terminal([sys.executable, "-c", SHELL, *words], muster, PIDS=str(pids))
    run = muster.run_id()
    eventually(lambda: run in terminal.read())
    heard(muster, run, "here", times=2)
    terminal.close()
    terminal.wait()
    assert not alive(terminal.pid)
    assert all(alive(pid) for pid in family(pids))
    assert "running" in muster("status", run).stdout
    assert "stopped" in muster("stop", run).stdout
    gone(pids, members=10)
    assert_nothing_runs(muster, run)


SAVES = """
import pathlib, signal, sys, time

def save(*_):
    pathlib.Path("outputs/saved.txt").write_text("in time")
    print("saved", flush=True)
    sys.exit(0)

signal.signal(signal.SIGTERM, save)
print("here", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_launcher_that_is_asked_to_end_leaves_scripts_time_to_save(muster: Muster, number: int) -> None:
    launcher = muster.start("run", muster.job(SAVES, workers=1))
    run = muster.run_id()
    heard(muster, run, "here", times=2)
    launcher.send_signal(number)
    assert launcher.wait(60) == 130
    assert "stopping; once more to end it at once" in launcher.communicate()[1]
    assert result_of(muster, run)["end"] == "stop-requested"
    assert "saved.txt" in muster("outputs", run).stdout
    heard(muster, run, "saved", times=2)


def test_a_second_ctrl_c_ends_a_run_that_will_not_listen(muster: Muster, pids: Path) -> None:
    launcher = muster.start("run", muster.job(FAMILY, workers=1), PIDS=str(pids), DEAF="1")
    run = muster.run_id()
    heard(muster, run, "here", times=2)
    launcher.send_signal(signal.SIGINT)
    eventually((muster.runs / run / "stop").exists)
    launcher.send_signal(signal.SIGINT)
    assert launcher.wait(60) == 130
    gone(pids, members=10)


def test_a_node_that_is_asked_to_end_stops_the_run_of_which_it_is_main(muster: Muster) -> None:
    nodes = [
        by_hand(muster, "asked", mode, script_of(muster, FOREVER), WORKER_COUNT="1") for mode in ("MAIN", "WORKER")
    ]
    heard(muster, "asked", "here", times=2)
    nodes[0].terminate()
    assert [node.wait(60) for node in nodes] == [130, 130]
    assert result_of(muster, "asked")["detail"] == "main was asked to end by SIGTERM"


def test_ctrl_c_before_the_first_node_leaves_nothing(muster: Muster) -> None:
    job = muster.job(FOREVER, workers=1)
    patched = (
        "import os, signal, sys\n"
        "from muster.targets.local_nodes import LocalNodes\n"
        "LocalNodes.start = lambda *_: os.kill(os.getpid(), signal.SIGINT)\n"
        "from muster.cli import main\nmain()\n"
    )
    words = [sys.executable, "-c", patched, "run", str(job)]
    done = subprocess.run(words, env=muster.env, cwd=muster.folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
