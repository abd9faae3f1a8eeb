"""Where a request to an Oracle service goes: routes made of a method and a template, and errors in the service's form.

A service is a list of routes. `oracle_cloud.py` puts those of all services behind one front, with one check of
signatures.

>>> Route("GET", "/n/{namespace}/b/{bucket}/o/{name...}", get_object, kind="get")
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from .identity import Principal
from .messages import Answer, Request


class Refusal(Exception):
    """An error that the service answers with: `{code, message}` and a status."""

    def __init__(self, status: int, code: str, message: str = "") -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message or code

    def answer(self) -> Answer:
        return json_answer({"code": self.code, "message": self.message}, self.status)


@dataclass
class Call:
    """A request that has found its route: who sent it, and the parts of its path, decoded."""

    request: Request
    principal: Principal
    parts: Mapping[str, str]

    @cached_property
    def query(self) -> dict[str, str]:
        return self.request.query

    def header(self, name: str) -> str | None:
        return self.request.headers.get(name)

    def said(self) -> dict[str, Any]:
        """The body, which is JSON."""
        try:
            said = json.loads(self.request.content() or b"{}")
        except ValueError as reason:
            raise Refusal(400, "InvalidParameter", "the body is not JSON") from reason
        if not isinstance(said, dict):
            raise Refusal(400, "InvalidParameter", "the body is not an object")
        return said


Handler = Callable[[Call], Answer]


@dataclass(frozen=True)
class Route:
    """One operation. `{name}` takes one part of the path, `{name...}` all that is left, slashes included."""

    method: str
    template: str
    handler: Handler = field(compare=False)
    kind: str = "other"
    signed: bool = True
    body_is_signed: bool = True
    """No where the body is an object's bytes."""
    host_is_signed: bool = True

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        text = re.escape(self.template).replace(r"\{", "{").replace(r"\}", "}").replace(r"\.\.\.", "...")
        text = re.sub(r"\{(\w+)\.\.\.\}", r"(?P<\1>.+)", text)
        return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", text), re.DOTALL)


class Router:
    """The routes of several services; the first that fits takes a request."""

    def __init__(self, routes: list[Route]) -> None:
        self._routes = routes

    def find(self, request: Request) -> tuple[Route, dict[str, str]] | None:
        path = request.path
        for route in self._routes:
            if route.method == request.method and (match := route.pattern.fullmatch(path)):
                return route, {name: unquote(value, errors="strict") for name, value in match.groupdict().items()}
        return None


def json_answer(said: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status, json.dumps(said).encode(), {"content-type": "application/json", **(headers or {})})


def with_request_id(answer: Answer, request: Request) -> Answer:
    """Every answer carries the request's id; the client's own id comes first in it, as with the real services."""
    theirs = request.headers.get("opc-request-id", "")
    answer.headers.setdefault("opc-request-id", f"{theirs or uuid.uuid4().hex.upper()}/{uuid.uuid4().hex.upper()}")
    if "opc-client-request-id" in request.headers:
        answer.headers.setdefault("opc-client-request-id", request.headers["opc-client-request-id"])
    return answer
