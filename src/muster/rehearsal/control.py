"""The control of a server over HTTP, below a path that no bucket can have. `steering.py` is its other end.

::

    POST   /_rehearsal/faults    a fault as JSON: it waits for its requests
    GET    /_rehearsal/faults    the faults that still wait
    DELETE /_rehearsal/faults    no fault, no delay, not away
    GET    /_rehearsal/held      how many requests are held now
    DELETE /_rehearsal/held      lets them go on
    PUT    /_rehearsal/delay     seconds, for every answer from now on
    PUT    /_rehearsal/away      a fault that every request meets, or null
    GET    /_rehearsal/counts    requests and bytes so far
    DELETE /_rehearsal/counts    counts from nothing

What else is asked goes to the service.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

from .counts import Counts
from .faults import Fault, Faults
from .messages import Answer, Request

PREFIX = "/_rehearsal/"


class Controlled(Protocol):
    def control(self, asked: str, said: Any) -> Any:
        """Does what only this service knows: `asked` is like `POST users`."""


def answer(request: Request, faults: Faults, counts: Counts, service: Controlled) -> Answer:
    """Does what a request of the control asks."""
    asked = f"{request.method} {request.path.removeprefix(PREFIX)}"
    try:
        status, found = 200, _do(asked, json.loads(request.content() or b"null"), faults, counts, service)
    except Exception as reason:  # noqa: BLE001 - the other end is a test, which is told
        status, found = 400, f"{asked}: {reason!r}"
    return Answer(status, json.dumps(found).encode(), {"content-type": "application/json"})


def _do(asked: str, said: Any, faults: Faults, counts: Counts, service: Controlled) -> Any:
    if asked == "POST faults":
        return faults.add(Fault(**said))
    if asked == "GET faults":
        return [fault.to_json() for fault in faults.waiting()]
    if asked == "DELETE faults":
        return faults.clear()
    if asked == "GET held":
        return faults.held()
    if asked == "DELETE held":
        return faults.let_go()
    if asked == "PUT delay":
        return faults.set_delay(float(said))
    if asked == "PUT away":
        return faults.set_away(Fault(**said) if said else None)
    if asked == "GET counts":
        return counts.so_far().to_json()
    if asked == "DELETE counts":
        return counts.reset()
    return service.control(asked, said)
