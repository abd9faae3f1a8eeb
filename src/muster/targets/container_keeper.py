"""Waits for the launcher of a run of containers to be done or gone, and then takes away what is left of the run.

A program of its own: `python -m muster.targets.container_keeper TOOL RUN FOLDER`. Its standard input ends with the
launcher, however that ends.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from ..workdir.home import tidy_node_folder

_PATIENCE = 30.0
"""Seconds that containers have to end by themselves: their nodes have heard it too, and bring home what is there."""


def keep(tool: str, run: str, folder: Path) -> None:
    label = f"label=muster.run={run}"
    until = time.monotonic() + _PATIENCE
    while (left := _ask(tool, "ps", "--all", "--quiet", "--filter", label)) and time.monotonic() < until:
        time.sleep(0.2)
    if left:
        _ask(tool, "rm", "-f", "-v", *left)
    for network in _ask(tool, "network", "ls", "--quiet", "--filter", label):
        _ask(tool, "network", "rm", network)
    for node in folder.iterdir() if folder.is_dir() else ():
        (node / "node.err").unlink(missing_ok=True)
        tidy_node_folder(node)


def _ask(tool: str, *words: str) -> list[str]:
    return subprocess.run([tool, *words], capture_output=True, text=True, check=False).stdout.split()


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # whoever ends the launcher so ends us through it
    sys.stdin.buffer.read()
    keep(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
