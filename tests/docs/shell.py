"""A reader at a shell: the commands of a page in one shell, in order, each with what it printed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.docs.cloud import put_image
from tests.docs.markdown import ROOT, Command


@dataclass(frozen=True)
class Done:
    printed: str
    code: int


def _is_target(command: str) -> str:
    # Not run: both set up the environment that this very test runs in, and the second would run this test again.
    targets = re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert command.split()[1] in targets, f"the Makefile has no target for {command!r}"
    return NOTHING


def _is_extra(command: str) -> str:
    # Not run: it would change the environment of this test. tests/packaging installs Muster into one of its own.
    named = re.findall(r"\[([a-z,]+)\]", command)
    extras = re.findall(r"^([a-z]+) = \[", _optional_dependencies(), re.MULTILINE)
    assert named, f"{command!r} names no extra"
    assert set(named[0].split(",")) <= set(extras), f"there is no such extra as {named[0]}"
    return NOTHING


def _optional_dependencies() -> str:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return text.split("[project.optional-dependencies]")[1].split("\n[")[0]


def _is_composition(command: str) -> str:
    # Not run: it takes a container engine. test_nodes_by_hand.py starts the services of the page's file without one.
    assert command in ("docker compose up", "docker compose down")
    return NOTHING


def _is_login(command: str) -> str:
    # Not run: it takes a container engine and a registry.
    assert re.fullmatch(r"docker login \S+", command)
    return NOTHING


def _is_image(command: str) -> str:
    # Not run: it takes a container engine and what it fetches. tests/cli/test_image.py builds, pushes and runs images.
    from muster.cli.image import command as image

    words = command.split()[2:]
    known = image.commands[words[0]]
    known.make_context(words[0], words[1:])
    return put_image(words[words.index("--to") + 1]) if words[0] == "push" else NOTHING


NOTHING = "true"
CHECKED: Mapping[str, Callable[[str], str]] = {
    "make ": _is_target,
    "pip install --editable ": _is_extra,
    "docker compose ": _is_composition,
    "docker login ": _is_login,
    "muster image push": _is_image,
    "muster image build --tag": _is_image,
}
"""Commands that are checked instead of run, by how they begin; and what is run in their place."""


def run(
    commands: Sequence[Command], folder: Path, env: Mapping[str, str], notes: Path, patience: float = 280.0
) -> list[Done]:
    """Types the commands into one shell, so that `cd`, `export`, `&` and `$?` mean what they mean to a reader."""
    notes.mkdir()
    script = notes / "script.sh"
    script.write_text("".join(_step(number, command, notes) for number, command in enumerate(commands)))
    with subprocess.Popen(
        ["bash", "--noprofile", "--norc", str(script)],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as shell:
        try:
            shell.wait(patience)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
    return [_done(number, notes) for number in range(len(commands))]


def _step(number: int, command: Command, notes: Path) -> str:
    for begin, check in CHECKED.items():
        if command.text.startswith(begin):
            return _typed(check(command.text), number, notes)
    return _typed(command.text, number, notes)


def _typed(text: str, number: int, notes: Path) -> str:
    return f"{{\n{text}\n}} >{notes}/{number}.out 2>&1\ncode=$?\necho $code >{notes}/{number}.code\n(exit $code)\n"


def _done(number: int, notes: Path) -> Done:
    printed, code = notes / f"{number}.out", notes / f"{number}.code"
    if not code.exists():
        return Done(printed.read_text() if printed.exists() else "", -1)
    return Done(printed.read_text(errors="replace"), int(code.read_text()))
