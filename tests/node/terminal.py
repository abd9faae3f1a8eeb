"""A terminal of one's own: a command in a session on a pseudo-terminal, what it shows, and what is typed."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys
import termios
import threading

from tests.harness import Muster

_LEAD = "import fcntl, os, sys, termios\nfcntl.ioctl(0, termios.TIOCSCTTY, 0)\nos.execvp(sys.argv[1], sys.argv[1:])\n"
"""Takes the terminal as that of its session, as a login does, and becomes the command."""


class Terminal:
    """Reads all that is shown in a thread of its own, so that the command never waits for us."""

    def __init__(self, words: list[str], muster: Muster, rows: int = 40, columns: int = 120, **env: str) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.modes = termios.tcgetattr(slave)
        self._slave = slave
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LEAD, *words],
            env={**muster.env, "TERM": "xterm-256color", **env},
            cwd=muster.folder,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            text=True,
        )
        muster.started.append(self._process)
        self._shown = b""
        self._closing = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _read(self) -> None:
        while not self._closing:
            # Never blocks in a read, which would keep the terminal open after it is closed.
            if not select.select([self._master], [], [], 0.05)[0]:
                continue
            try:
                self._shown += os.read(self._master, 1 << 16)
            except OSError:
                return  # hung up

    def read(self) -> str:
        """All that was shown so far."""
        return self._shown.decode("utf-8", "replace")

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def modes_now(self) -> list[object]:
        return termios.tcgetattr(self._slave)

    def close(self) -> None:
        """Hangs up, as a closed window does."""
        self._closing = True
        self._reader.join()
        os.close(self._slave)
        os.close(self._master)

    def wait(self, within: float = 60.0) -> int:
        return self._process.wait(within)
