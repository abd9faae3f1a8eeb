"""The output of a node's processes as lines: stamped, numbered, free of secrets, each in full."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Sequence

from ..workdir.loglines import LogLine

_LONGEST = 64 << 10
"""A line without end is cut here, so that it neither fills memory nor waits for a newline that never comes."""
_TAIL = 250
BLOCK = 10**9
"""Each start of a node numbers its lines in a block of its own, so that no number ever stands for two lines."""
_MARK = re.compile(rb"(.*)\x1emuster (rank|exit) (\d+)", re.DOTALL)
"""What an agent says in the pipe of a rank that it started; it may follow a last line that has no end."""
_MASK = "***"


class Capture:
    """Numbers the lines of one node, in the order in which they were read."""

    def __init__(
        self, node: str, sink: Callable[[LogLine], None], secrets: Sequence[str] = (), incarnation: int = 1
    ) -> None:
        self._node, self._sink = node, sink
        self._next = (incarnation - 1) * BLOCK + 1
        # A key of several lines is printed line by line. Longest first: one that holds another is masked whole.
        parts = {part for secret in secrets for part in (secret, *secret.splitlines()) if len(part) >= 4}
        self._secrets = sorted(parts, key=len, reverse=True)
        self._encoded = [secret.encode("utf-8", "surrogateescape") for secret in self._secrets]

    def stream(self, process: str, name: str, rank: int | None = None) -> Stream:
        return Stream(self, process, name, rank)

    def cut(self, data: bytes) -> int:
        """Where to cut a line that has no end: through no secret and no character. 0: not yet, more must come first."""
        if len(data) < _LONGEST + max(map(len, self._encoded), default=0):
            return 0
        place = _LONGEST
        for secret in self._encoded:
            start = data.find(secret, max(0, place - len(secret) + 1), place + len(secret) - 1)
            place = start if start > 0 else place
        while 0 < place < len(data) and data[place] & 0xC0 == 0x80:
            place -= 1
        return place or _LONGEST

    def say(self, text: str) -> None:
        """A line of the node program itself, for the user."""
        self.line("muster", "note", None, text)

    def step(self, text: str) -> None:
        """A step of the node's life, for whoever wants to know how it went."""
        self.line("muster", "step", None, text)

    def line(self, process: str, stream: str, rank: int | None, text: str, at: float | None = None) -> str:
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, _MASK)
        number, self._next = self._next, self._next + 1
        self._sink(LogLine(number, at or time.time(), self._node, process, stream, text, rank))
        return text


class Stream:
    """One pipe of one process."""

    def __init__(self, capture: Capture, process: str, name: str, rank: int | None) -> None:
        self._capture, self._process, self._name = capture, process, name
        self.rank = rank
        self.exit_code: int | None = None
        """How its rank ended, where an agent started that rank and said so."""
        self._rest = b""
        self._returned = False
        """The last chunk ended in a carriage return: a newline that follows belongs to it."""
        self.tail: deque[str] = deque(maxlen=_TAIL)

    def feed(self, data: bytes) -> None:
        """Takes what was read. A carriage return ends a line as well: progress bars know no other end."""
        now = time.time()
        if self._returned and data.startswith(b"\n"):
            data = data[1:]
        self._returned = data.endswith(b"\r")
        data = (self._rest + data).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, self._rest = data.split(b"\n")
        for line in lines:
            self._line(line, now)
        while cut := self._capture.cut(self._rest):
            self._line(self._rest[:cut], now)
            self._rest = self._rest[cut:]

    def close(self) -> None:
        if self._rest:
            self._line(self._rest, time.time())
            self._rest = b""

    def _line(self, line: bytes, now: float) -> None:
        if b"\x1e" in line and (mark := _MARK.fullmatch(line)):
            if mark[1]:
                self._line(mark[1], now)
            self._marked(mark[2], int(mark[3]))
            return
        text = line.decode("utf-8", "replace")
        self.tail.append(self._capture.line(self._process, self._name, self.rank, text, now))

    def _marked(self, kind: bytes, number: int) -> None:
        if kind == b"exit":
            self.exit_code = number
            return
        # The agent gives ranks anew after each restart, and what the one before said is no part of this one's end.
        self.rank, self._process, self.exit_code = number, f"rank {number}", None
        self.tail.clear()


def traceback_of(tail: Sequence[str]) -> tuple[str, ...]:
    """The last traceback among these lines, with all that follows it; else the last lines as they are."""
    lines = list(tail)
    starts = [index for index, line in enumerate(lines) if "Traceback (most recent call last)" in line]
    if not starts:
        return tuple(lines[-20:])
    start = starts[-1]
    # A chained exception's first part is the cause, so the chain is shown from its head.
    for index in reversed(starts[:-1]):
        between = lines[index:start]
        if any("direct cause of the following" in line or "another exception occurred" in line for line in between):
            start = index
    return tuple(lines[start:])
