"""Faults that a server can be told to have.

Each request asks `Faults.meet`, which hands out the first fault that fits and uses it up. A `Fault` is a value and
travels as JSON, so that a test steers a server in another process as well as one in its own (`steering.py`).
"""

from __future__ import annotations

import re
import threading
from dataclasses import asdict, dataclass
from typing import Any, Literal

Way = Literal["answer", "lose", "close", "cut", "hold", "keep"]


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong, for which requests, and how often.

    The ways: `answer` answers with `status` and does nothing else; `lose` does the work and closes the connection
    without a reply; `close` closes it before the work; `cut` sends half of the reply's body and closes; `hold` waits
    before the work, and `keep` after it, until it is let go: time to do something to the client.
    """

    way: Way = "answer"
    status: int = 503
    code: str = ""
    """What the error is called; each service has a name of its own for the common ones."""
    body: str | None = None
    """The whole body of the answer, in place of one in the service's own form."""
    method: str = ""
    kind: str = ""
    """One of the kinds of `counts.py`, or several with `|` between them."""
    key: str = ""
    """A regular expression that is searched for in the object's name (in a list, in the prefix)."""
    times: int | None = 1
    """None: until it is cleared."""
    skip: int = 0
    """So many requests that fit are let through first."""

    def fits(self, method: str, kind: str, key: str) -> bool:
        return (
            (not self.method or self.method == method)
            and (not self.kind or kind in self.kind.split("|"))
            and (not self.key or re.search(self.key, key) is not None)
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class _Waiting:
    fault: Fault
    skip: int
    left: int | None


class Faults:
    """The faults that wait for their requests, the delay of every answer, and whether the server is away."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._away: Fault | None = None
        self._delay = 0.0
        self._delay_ended = threading.Event()
        self._let_go = threading.Event()
        self._held = 0

    def add(self, fault: Fault) -> None:
        with self._lock:
            self._waiting.append(_Waiting(fault, fault.skip, fault.times))

    def set_delay(self, seconds: float) -> None:
        """From now on; answers that are late already come at once."""
        ended, self._delay_ended = self._delay_ended, threading.Event()
        self._delay = seconds
        ended.set()

    def set_away(self, fault: Fault | None) -> None:
        """Every request meets this fault until it is None again."""
        self._away = fault

    def clear(self) -> None:
        with self._lock:
            self._waiting.clear()
            self._away = None
        self.set_delay(0)
        self.let_go()

    def hold(self) -> None:
        """Waits until somebody lets it go."""
        with self._lock:
            self._held += 1
            let_go = self._let_go
        let_go.wait(60)
        with self._lock:
            self._held -= 1

    def held(self) -> int:
        """How many requests are held now."""
        return self._held

    def let_go(self) -> None:
        """What is held goes on."""
        with self._lock:
            former, self._let_go = self._let_go, threading.Event()
        former.set()

    def pause(self) -> None:
        """Waits as long as an answer is to be late."""
        if self._delay:
            self._delay_ended.wait(self._delay)

    def meet(self, method: str, kind: str, key: str) -> Fault | None:
        """The fault that this request has, if any. Asking uses it up."""
        if self._away is not None:
            return self._away
        if not self._waiting:
            return None
        with self._lock:
            return next((one.fault for one in self._waiting if self._takes(one, method, kind, key)), None)

    def _takes(self, one: _Waiting, method: str, kind: str, key: str) -> bool:
        if one.left == 0 or not one.fault.fits(method, kind, key):
            return False
        if one.skip:
            one.skip -= 1
            return False
        if one.left is not None:
            one.left -= 1
        return True

    def waiting(self) -> list[Fault]:
        """The faults that are not used up yet."""
        with self._lock:
            return [one.fault for one in self._waiting if one.left != 0]
