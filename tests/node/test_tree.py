"""Finding and ending every process of a node, wherever it hides."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from muster.node import tree
from tests.harness import eventually
from tests.node.hands import alive

SLEEP = "import time; time.sleep(600)"


@pytest.fixture
def start() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def sleeper(started: list[subprocess.Popen[bytes]], mark: str) -> int:
    env = {**os.environ, tree.MARK: mark}
    started.append(subprocess.Popen([sys.executable, "-c", SLEEP], env=env, start_new_session=True))
    return started[-1].pid


def test_a_mark_finds_the_processes_of_one_start_and_of_no_other(start: list[subprocess.Popen[bytes]]) -> None:
    run = f"run-{os.getpid()}"
    first, second = sleeper(start, f"{run}/main/1"), sleeper(start, f"{run}/main/12")
    other = sleeper(start, f"{run}/main-2/1")
    assert eventually(lambda: tree.members(f"{run}/main/1", descent=False)) == {first}
    assert eventually(lambda: tree.members(f"{run}/main/12", descent=False)) == {second}
    assert tree.members(f"{run}/main/", descent=False) == {first, second}
    assert tree.members(f"{run}/main-2/", descent=False) == {other}


def test_kill_ends_the_marked_and_leaves_the_others(start: list[subprocess.Popen[bytes]]) -> None:
    run = f"run-{os.getpid()}"
    mine, other = sleeper(start, f"{run}/main/1"), sleeper(start, f"{run}/worker-1/1")
    eventually(lambda: tree.members(f"{run}/main/", descent=False))
    assert tree.kill(f"{run}/main/", descent=False) == set()
    assert not alive(mine)
    assert alive(other)


def test_kill_says_who_could_not_be_ended(
    monkeypatch: pytest.MonkeyPatch, start: list[subprocess.Popen[bytes]]
) -> None:
    mark = f"run-{os.getpid()}/main/1"
    pid = sleeper(start, mark)
    eventually(lambda: tree.members(mark, descent=False))
    monkeypatch.setattr(tree, "signal_all", lambda _pids, _number: None)
    assert tree.kill(mark, descent=False, within=0.1) == {pid}


FAMILY = """
import os, pathlib, subprocess, sys, time

from muster.node import tree

tree.become_subreaper()
note = f"import os, pathlib; pathlib.Path({sys.argv[1]!r}, str(os.getpid())).touch(); import time; time.sleep(600)"
words = [sys.executable, "-c", note]
subprocess.Popen(words, env={}, start_new_session=True)
if os.fork() == 0:
    if os.fork() == 0:
        os.execve(sys.executable, words, {})
    os._exit(0)
while len(list(pathlib.Path(sys.argv[1]).iterdir())) < 2:
    time.sleep(0.01)
print(len(tree.members("nobody/has/this")), len(tree.kill("nobody/has/this")))
"""


def test_descent_finds_what_cleared_its_environment_and_left_its_parents(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FAMILY, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["2", "0"], done.stderr
    assert not [path.name for path in tmp_path.iterdir() if alive(int(path.name))]


REAPER = """
import os, subprocess, sys, time

from muster.node import tree

tree.become_subreaper()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os._exit(0)
    os._exit(0)
own = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.2)"])
until = time.monotonic() + 30
def children():
    with open(f"/proc/self/task/{os.getpid()}/children") as stream:
        return stream.read().split()
while children() != [str(own.pid)] and time.monotonic() < until:
    tree.reap([own.pid])
print(children() == [str(own.pid)], own.wait())
"""


def test_orphans_are_taken_off_the_process_table_and_our_own_are_left_to_their_owner() -> None:
    done = subprocess.run([sys.executable, "-c", REAPER], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["True", "0"], done.stderr


def test_the_same_is_found_where_there_is_no_proc(
    start: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = f"run-{os.getpid()}/main/1"
    pid = sleeper(start, mark)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert eventually(lambda: tree.members(mark, descent=False)) == {pid}
    assert pid in tree.members(f"run-{os.getpid()}/main/", descent=True)
    assert psutil.Process(pid).is_running()
    tree.become_subreaper()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not tree.members(mark, descent=False))
