"""How a test steers a server: faults, delay, absence, counts. Over HTTP, so it works for any process.

>>> steering = Steering(server.endpoint)
>>> steering.fail(times=2, status=503, kind="put")        # the next two puts are told 503
>>> steering.lose(kind="complete")                        # done, but the reply never comes
>>> steering.counts().of("put")
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from ..errors import MusterError
from .control import PREFIX
from .counts import Counted
from .faults import Fault, Way


class Steering:
    """The wheel of one server."""

    def __init__(self, endpoint: str) -> None:
        self._address = urlsplit(endpoint).netloc

    def fail(
        self,
        times: int | None = 1,
        status: int = 503,
        *,
        code: str = "",
        body: str | None = None,
        method: str = "",
        kind: str = "",
        key: str = "",
        skip: int = 0,
    ) -> None:
        """The next so many requests that fit are answered with this status; `times=None` until cleared."""
        self.add(Fault("answer", status, code, body, method, kind, key, times, skip))

    def lose(
        self,
        times: int | None = 1,
        *,
        method: str = "",
        kind: str = "",
        key: str = "",
        skip: int = 0,
        way: Way = "lose",
    ) -> None:
        """The work is done and the reply lost. Ways: `lose`, `close` (before the work), `cut` (half of the body)."""
        self.add(Fault(way, method=method, kind=kind, key=key, times=times, skip=skip))

    def held(self) -> int:
        """How many requests wait to be let go (ways `hold` and `keep`)."""
        return int(self.ask("GET", "held"))

    def let_go(self) -> None:
        self.ask("DELETE", "held")

    def add(self, fault: Fault) -> None:
        self.ask("POST", "faults", fault.to_json())

    def slow(self, seconds: float) -> None:
        """Every answer comes so much later, until it is set to 0."""
        self.ask("PUT", "delay", seconds)

    def leave(self, way: Way = "answer", status: int = 503) -> None:
        """Away: every request is answered with this status, or (`close`) with a closed connection."""
        self.ask("PUT", "away", Fault(way, status).to_json())

    def come_back(self) -> None:
        self.ask("PUT", "away", None)

    @contextmanager
    def away(self, way: Way = "answer", status: int = 503) -> Iterator[None]:
        """Away for the length of a `with`."""
        self.leave(way, status)
        try:
            yield
        finally:
            self.come_back()

    def clear(self) -> None:
        """No fault, no delay, not away."""
        self.ask("DELETE", "faults")

    def waiting(self) -> list[Fault]:
        """The faults that no request has used up yet."""
        return [Fault(**said) for said in self.ask("GET", "faults")]

    def counts(self) -> Counted:
        return Counted.from_json(self.ask("GET", "counts"))

    def reset_counts(self) -> None:
        self.ask("DELETE", "counts")

    def ask(self, method: str, what: str, said: Any = None) -> Any:
        """Asks the control; what the service adds to it too."""
        connection = HTTPConnection(self._address, timeout=30)
        try:
            connection.request(method, PREFIX + what, json.dumps(said))
            answer = connection.getresponse()
            found = json.loads(answer.read())
        finally:
            connection.close()
        if answer.status != 200:
            raise MusterError(f"the server at {self._address} refused its control: {found}")
        return found
