"""The command explains itself: helps, its version, a near miss, and completion for three shells."""

from __future__ import annotations

import subprocess
import sys

import pytest

from muster import __version__
from muster.cli.main import VERBS
from tests.cli.conftest import Finished
from tests.harness import Muster


def test_help_lists_every_verb_with_its_line(muster: Muster) -> None:
    for flag in ("--help", "-h"):
        shown = muster(flag).stdout
        for verb, line in VERBS.items():
            assert f"  {verb} " in shown
            assert line in shown


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_help_and_no_option_without_one(muster: Muster, verb: str) -> None:
    shown = muster(verb, "--help").stdout
    assert f"Usage: python -m muster {verb}" in shown
    for line in shown.partition("Options:")[2].splitlines():
        if line.startswith("  -"):
            assert "  " in line.strip(), f"{line!r} says nothing"


def test_help_loads_nothing_that_only_a_verb_needs(muster: Muster) -> None:
    text = (
        "import sys\nfrom muster.cli import main\n"
        "try: main.main(['--help'], standalone_mode=False)\nexcept SystemExit: pass\n"
        "print(sorted({'asyncio', 'json', 'psutil', 'rich', 'yaml', 'dataclasses'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", text], env=muster.env, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_version_is_the_packages_own(muster: Muster) -> None:
    assert muster("--version").stdout == f"muster {__version__}\n"


def test_a_verb_that_is_not_there_gets_the_nearest_one(muster: Muster) -> None:
    done = muster("stauts", check=2)
    assert "no such command 'stauts'. Did you mean 'status'?" in done.stderr
    assert "Did you mean" not in muster("xyzzy", check=2).stderr
    assert "Traceback" not in done.stderr


def test_an_option_that_is_not_there_is_named(muster: Muster) -> None:
    assert "--folow" in muster("logs", "x", "--folow", check=2).stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_for_each_shell(muster: Muster, command: str, shell: str) -> None:
    env = {**muster.env, "_MUSTER_COMPLETE": f"{shell}_source"}
    done = subprocess.run([command], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "_MUSTER_COMPLETE" in done.stdout
    assert f"{shell}_complete" in done.stdout


def completed(finished: Finished, command: str, words: str) -> list[str]:
    """What a shell is offered for the last of these words."""
    asked = {"_MUSTER_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    env = {**finished.muster.env, **asked}
    done = subprocess.run([command], env=env, capture_output=True, text=True, timeout=60)
    return [line.partition(",")[2] for line in done.stdout.split()]


def test_verbs_options_and_runs_are_completed(finished: Finished, command: str) -> None:
    assert completed(finished, command, "muster st") == ["status", "stop"]
    assert completed(finished, command, "muster logs --gr") == ["--grep"]
    assert completed(finished, command, "muster status d") == [finished.run]
    assert completed(finished, command, "muster status x") == []
