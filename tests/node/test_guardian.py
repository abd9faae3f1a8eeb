"""The guardian alone, around programs of a few lines: what it passes on, and what it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import eventually
from tests.node.hands import alive


def guarded(program: str, *words: str, ignored: bool = False) -> subprocess.Popen[str]:
    """A guardian in a process of its own, around a function `program(watch)` of this text.

    `ignored`: whoever starts it ignores SIGINT, as a shell does for what it starts in the background.
    """
    body = "\n".join(f"    {line}" for line in program.splitlines())
    text = (
        "import os, select, signal, subprocess, sys, time\n"
        f"signal.signal(2, signal.{'SIG_IGN' if ignored else 'default_int_handler'})\n"
        "from muster.node.guardian import guarded\n"
        f"def program(watch):\n{body}\n"
        "sys.exit(guarded('guardian/test/1', program))\n"
    )
    argv = [sys.executable, "-c", text, *words]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("return 0", 0),
        ("return 7", 7),
        ("sys.exit(9)", 9),
        ("sys.exit('a text')", 1),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(600)", 143),
    ],
)
def test_the_exit_code_is_the_programs_own(program: str, code: int) -> None:
    process = guarded(program)
    process.communicate(timeout=60)
    assert process.returncode == code


def test_a_bug_in_the_program_is_shown_and_has_a_code_of_its_own() -> None:
    process = guarded("raise RuntimeError('a bug')")
    _, told = process.communicate(timeout=60)
    assert process.returncode == 125
    assert "RuntimeError: a bug" in told


def asked(number: signal.Signals, ignored: bool = False) -> tuple[str, int]:
    """What a program prints, and how it ends, whose guardian is asked by a signal."""
    process = guarded(
        f"signal.signal({number.value}, lambda *_: (print('asked', flush=True), sys.exit(3)))\n"
        # Not one long sleep: a signal that comes just before it begins would not end it.
        "print('here', flush=True)\nwhile True: time.sleep(0.05)",
        ignored=ignored,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    process.send_signal(number)
    shown, _ = process.communicate(timeout=60)
    return shown, process.returncode


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_what_is_asked_of_the_guardian_is_asked_of_the_program(number: signal.Signals) -> None:
    assert asked(number) == ("asked\n", 3)


def test_a_guardian_that_was_started_in_the_background_is_asked_all_the_same() -> None:
    assert asked(signal.SIGINT, ignored=True) == ("asked\n", 3)


LEAVES = (
    "words = [sys.executable, '-c', 'import os, pathlib, signal, sys, time; signal.signal(15, signal.SIG_IGN); '"
    " 'pathlib.Path(sys.argv[1], str(os.getpid())).touch(); time.sleep(600)', sys.argv[1]]\n"
    "subprocess.Popen(words, start_new_session=True, env={})\n"
    "if os.fork() == 0:\n    os.setsid()\n    os.execv(words[0], words)\n"
    "while len(os.listdir(sys.argv[1])) < 2: time.sleep(0.01)\n"
)


@pytest.mark.parametrize("end", ["return 0", "os.kill(os.getpid(), signal.SIGKILL)", "raise RuntimeError"])
def test_whatever_the_program_leaves_ends_with_it_however_it_went(tmp_path: Path, end: str) -> None:
    process = guarded(LEAVES + end, str(tmp_path))
    process.communicate(timeout=60)
    left = [int(path.name) for path in tmp_path.iterdir()]
    assert len(left) == 2
    assert not [pid for pid in left if alive(pid)]


def test_the_program_sees_at_once_that_its_guardian_was_killed(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    process = guarded(
        "print(os.getpid(), flush=True)\nselect.select([watch], [], [])\nopen(sys.argv[1], 'w').close()\nreturn 0",
        str(seen),
    )
    assert process.stdout is not None
    program = int(process.stdout.readline())
    assert alive(program)
    os.kill(process.pid, signal.SIGKILL)
    eventually(seen.exists)
    eventually(lambda: not alive(program))
    process.communicate(timeout=60)
