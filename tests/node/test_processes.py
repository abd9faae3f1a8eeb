"""A node's processes: real ones, listened to until their last word, and ended with all that they started."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from muster.errors import NodeError
from muster.frameworks.base import Command
from muster.node import tree
from muster.node.capture import Capture
from muster.node.processes import Exit, Processes
from muster.workdir.loglines import LogLine
from tests.node.hands import alive
from tests.node.loop import in_loop, soon


class Room:
    """Processes in a folder of their own, the lines they wrote and how they ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[LogLine] = []
        self.exits: list[Exit] = []
        self.tasks: list[asyncio.Future[None]] = []
        self.processes = Processes(
            f"room/{os.getpid()}/1", Capture("main", self.lines.append), self.exits.append, self._task
        )

    def start(self, code: str, *words: str, process: str = "script", streams: int = 0, **env: str) -> None:
        command = Command(process, (sys.executable, "-c", code, *words), env, script=True, streams=streams)
        self.processes.start(command, 1, dict(os.environ), self.folder, self.folder)

    def _task(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.ensure_future(work))

    def texts(self, stream: str = "out") -> list[str]:
        return [line.text for line in self.lines if line.stream == stream]


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


@in_loop
async def test_output_errors_and_exit_code_of_a_process_arrive(room: Room) -> None:
    room.start(
        "import sys\nprint('out', sys.argv[1:])\nprint('err', file=sys.stderr)\nsys.exit(3)", "a b", "$HOME", "'\""
    )
    exit_ = (await soon(lambda: room.exits))[0]
    assert (exit_.code, exit_.generation, exit_.command.process) == (3, 1, "script")
    assert room.texts() == [f"out {['a b', '$HOME', chr(39) + chr(34)]}"]
    assert room.texts("err") == ["err"]
    assert room.processes.pids() == []


@in_loop
async def test_all_of_a_lot_arrives_before_the_end_is_told(room: Room) -> None:
    room.start("import sys\nfor n in range(200_000): print(n)\nsys.stdout.write('last words')")
    await soon(lambda: room.exits, within=50)
    assert room.texts() == [*map(str, range(200_000)), "last words"]


@in_loop
async def test_a_signal_shows_as_a_shell_shows_it(room: Room) -> None:
    room.start("import os\nos.kill(os.getpid(), 9)")
    assert (await soon(lambda: room.exits))[0].code == 137


@in_loop
async def test_a_traceback_is_the_last_word_of_a_failure(room: Room) -> None:
    room.start("print('fine so far')\nraise RuntimeError('boom')")
    tail = (await soon(lambda: room.exits))[0].tail
    assert tail[0] == "Traceback (most recent call last):"
    assert tail[-1] == "RuntimeError: boom"


@in_loop
async def test_a_grandchild_that_keeps_the_pipe_does_not_hold_the_end_up(room: Room) -> None:
    room.start(
        "import subprocess, sys\n"
        "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid, flush=True)"
    )
    assert (await soon(lambda: room.exits))[0].code == 0
    grandchild = int(room.texts()[0])
    assert alive(grandchild)
    await room.processes.end(patient=False)
    assert not alive(grandchild)


@in_loop
async def test_ending_asks_first_and_the_last_words_are_kept(room: Room) -> None:
    room.start(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), sys.exit(0)))\n"
        "print('here', flush=True)\ntime.sleep(600)"
    )
    await soon(room.texts)
    await room.processes.end(patient=True)
    assert room.texts() == ["here", "saved"]
    assert room.exits == []


@in_loop
async def test_ending_takes_the_deaf_and_the_daemons_too(room: Room) -> None:
    deaf = "import os, signal, time; signal.signal(15, signal.SIG_IGN); print(os.getpid(), flush=True); time.sleep(600)"
    room.start(
        "import os, subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {deaf!r}], start_new_session=True, env={{}})\n"
        "if os.fork() == 0:\n    os.setsid()\n"
        f"    if os.fork() == 0: os.execv(sys.executable, [sys.executable, '-c', {deaf!r}])\n    os._exit(0)\n"
        f"{deaf}"
    )
    await soon(lambda: len(room.texts()) == 3)
    await room.processes.end(patient=False)
    # We are no sub-reaper, as a node program is, and so lose sight of a killed orphan before it is quite gone.
    await soon(lambda: not [pid for pid in map(int, room.texts()) if alive(pid)])
    assert room.processes.pids() == []


@in_loop
async def test_a_program_that_is_not_there_is_an_error_with_its_name(room: Room) -> None:
    with pytest.raises(NodeError, match=r"scheduler could not be started: .*no-such-program"):
        room.processes.start(Command("scheduler", ("no-such-program",)), 1, {}, room.folder, room.folder)


@in_loop
async def test_ranks_of_an_agent_write_to_pipes_of_their_own(room: Room) -> None:
    agent = (
        "import os, sys\n"
        "for local in range(2):\n"
        "    for name in ('out', 'err'):\n"
        "        with open(os.path.join(os.environ['MUSTER_STREAMS'], f'{name}-{local}'), 'w') as pipe:\n"
        "            pipe.write(f'\\x1emuster rank {local + 4}\\n{name} of {local + 4}\\n')\n"
        "            if local and name == 'err': pipe.write('\\x1emuster exit 7\\n')\n"
        "sys.exit(1)\n"
    )
    room.start(agent, process="torchrun", streams=2)
    ended = (await soon(lambda: room.exits))[0]
    assert sorted((line.rank or 0, line.text) for line in room.lines) == [
        (4, "err of 4"),
        (4, "out of 4"),
        (5, "err of 5"),
        (5, "out of 5"),
    ]
    assert (ended.rank, ended.code) == (5, 7)


@in_loop
async def test_every_process_carries_the_mark_of_its_node(room: Room) -> None:
    room.start(f"import os\nprint(os.environ[{tree.MARK!r}], os.environ['OWN'], os.getcwd())", OWN="1")
    await soon(lambda: room.exits)
    assert room.texts() == [f"room/{os.getpid()}/1 1 {room.folder}"]


def test_signals_to_whoever_is_gone_are_no_error() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    assert ended.wait() == 0
    tree.signal_all([ended.pid], signal.SIGTERM)
    tree.signal_group(ended.pid, signal.SIGTERM)
