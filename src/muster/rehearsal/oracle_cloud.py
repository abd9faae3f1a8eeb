"""The front desk of Oracle's cloud in a box: finds the route, checks the signature, calls the service.

>>> OracleCloud(identity, [*ObjectStorage(…).routes(), *another_service.routes()])
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from email.utils import formatdate
from typing import Any

from .identity import Identity, Principal
from .messages import Answer, Request
from .routing import Call, Refusal, Route, Router, with_request_id
from .signatures import NotAuthenticated, verify

CODES = {
    409: "ConcurrentObjectUpdate",
    429: "TooManyRequests",
    500: "InternalServerError",
    503: "ServiceUnavailable",
}
WHO = "The required information to complete authentication was not provided or was incorrect."
Control = Callable[[Any], Any]


class OracleCloud:
    """All services of one cloud behind one port. `controls` are asked at `/_rehearsal/NAME`."""

    def __init__(
        self, identity: Identity, routes: Iterable[Route], controls: Mapping[str, Control] | None = None
    ) -> None:
        self.identity = identity
        self._router = Router(list(routes))
        self._controls = dict(controls or {})
        self.explain = False
        """Whether the reason of a refused signature goes to the standard error."""

    def kind(self, request: Request) -> tuple[str, str]:
        try:
            found = self._router.find(request)
        except UnicodeDecodeError:
            return "other", ""
        if found is None:
            return "other", ""
        route, parts = found
        return route.kind, parts.get("name") or request.query.get("prefix", "")

    def answer(self, request: Request) -> Answer:
        answer = self._told(request)
        answer.headers.setdefault("date", formatdate(self.identity.clock(), usegmt=True))
        return answer

    def _told(self, request: Request) -> Answer:
        try:
            return with_request_id(self._answer(request), request)
        except NotAuthenticated as reason:
            if self.explain:
                sys.stderr.write(f"401: {reason}\n")
            return with_request_id(Refusal(401, "NotAuthenticated", WHO).answer(), request)
        except Refusal as refusal:
            return with_request_id(refusal.answer(), request)

    def _answer(self, request: Request) -> Answer:
        try:
            found = self._router.find(request)
        except UnicodeDecodeError as reason:
            raise Refusal(400, "InvalidParameter", "the path is not UTF-8") from reason
        if found is None:
            verify(request, self.identity, body_is_signed=False)
            raise Refusal(404, "NotAuthorizedOrNotFound", f"there is nothing at {request.path}")
        route, parts = found
        return route.handler(Call(request, self._caller(request, route), parts))

    def _caller(self, request: Request, route: Route) -> Principal:
        if not route.signed:
            return Principal("", "", "nobody")
        return verify(request, self.identity, route.body_is_signed, route.host_is_signed)

    def failure(self, status: int, code: str) -> Answer:
        return Refusal(status, code or CODES.get(status, "InternalServerError"), "rehearsed").answer()

    def control(self, asked: str, said: Any) -> Any:
        return self._controls[asked.partition(" ")[2]](said)
