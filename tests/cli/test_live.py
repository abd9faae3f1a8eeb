"""The live view in a real terminal: nodes, lines and state; and the terminal as it was afterwards."""

from __future__ import annotations

import re
from pathlib import Path

from tests.harness import Muster, eventually
from tests.node.hands import FOREVER, heard, result_of
from tests.node.terminal import Terminal

WAITS = """
import os, pathlib, time, muster
print(f"hello from {os.environ['RANK']} \\x1b[31mred\\x1b[0m", flush=True)
muster.report(step=7, loss=0.25)
while not pathlib.Path(os.environ["GO"]).exists():
    time.sleep(0.02)
"""


def plain(shown: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


def shows(terminal: Terminal, part: str) -> None:
    eventually(lambda: part in plain(terminal.read()), within=60)


def assert_intact(terminal: Terminal, shown: str) -> None:
    """The cursor is back, no colour goes on, and input is echoed as before."""
    assert shown.count("\x1b[?25l") >= 1
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    assert terminal.modes_now() == terminal.modes
    colours = re.findall(r"\x1b\[([0-9;]*)m", shown)
    assert colours[-1] in ("0", "")


def test_it_shows_nodes_and_lines_and_leaves_the_terminal_as_it_was(muster: Muster) -> None:
    go = muster.folder / "go"
    terminal = Terminal(muster.argv("run", muster.job(WAITS, workers=1)), muster, GO=str(go))
    eventually(lambda: "hello from 1" in terminal.read(), within=60)
    for part in ("● ready", "main", "worker-1", "started", "[rank 0] hello from 0 red", "[rank 1] hello from 1 red"):
        shows(terminal, part)
    shows(terminal, "loss=0.25")
    go.touch()
    assert terminal.wait() == 0
    eventually(lambda: "succeeded after" in terminal.read())
    assert_intact(terminal, terminal.read())
    terminal.close()


def test_ctrl_c_in_the_terminal_stops_the_run(muster: Muster) -> None:
    terminal = Terminal(muster.argv("run", muster.job(FOREVER, workers=1)), muster)
    run = muster.run_id()
    heard(muster, run, "here", times=2)
    terminal.type("\x03")
    assert terminal.wait() == 130
    eventually(lambda: "stop-requested" in terminal.read())
    assert "Traceback" not in terminal.read()
    assert_intact(terminal, terminal.read())
    terminal.close()
    assert result_of(muster, run)["detail"] == "stopped from its terminal"


def test_a_failed_run_shows_the_traceback_and_leaves_the_terminal_as_it_was(muster: Muster) -> None:
    terminal = Terminal(muster.argv("run", muster.job("raise RuntimeError('boom')", workers=0)), muster)
    assert terminal.wait() == 1
    eventually(lambda: "failed after" in terminal.read())
    assert "RuntimeError: boom" in terminal.read()
    assert_intact(terminal, terminal.read())
    terminal.close()


def test_a_terminal_that_can_do_nothing_gets_plain_lines(muster: Muster) -> None:
    terminal = Terminal(muster.argv("run", muster.job("print('well')", workers=0)), muster, TERM="dumb")
    assert terminal.wait() == 0
    eventually(lambda: "succeeded after" in terminal.read())
    assert "\x1b" not in terminal.read()
    terminal.close()


def test_mistakes_are_told_in_a_terminal_too(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("name: x\nframework: plain\nwrokers: 1\n")
    terminal = Terminal(muster.argv("run", tmp_path / "job.yaml"), muster)
    assert terminal.wait() == 2
    eventually(lambda: "job.yaml:3: wrokers" in plain(terminal.read()))
    assert terminal.modes_now() == terminal.modes
    terminal.close()
