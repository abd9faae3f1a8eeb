"""moto behind our HTTP front: a request goes in, an answer comes out, and no server of its own is needed.

Its S3 is called directly, without the web framework around it: half the time of a small request goes there, and
values that lie in files would be read on the way.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

from .messages import Answer, Request
from .moto_files import keep_values_in_files

OTHER_SERVICE = re.compile(r"Credential=[^/]+/\d+/[^/]*/(?!s3/)")
UNDERSCORED = re.compile(r"x-amz-meta-.*_")


class MotoApp:
    """moto's application with all its services."""

    def __init__(self) -> None:
        from moto.core.request import Request as MotoRequest
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        from moto.s3.responses import S3Response
        from werkzeug.exceptions import HTTPException

        keep_values_in_files()
        self._app = DomainDispatcherApplication(create_backend_app)
        self._request, self._s3, self._refusal = MotoRequest, S3Response, HTTPException

    def answer(self, request: Request, body: bytes) -> Answer:
        surroundings = environ(request, body)
        if not _is_s3(request):
            return self._through_app(surroundings)
        try:
            return self._from_s3(request, self._request(surroundings))
        except self._refusal as refusal:
            return self._through_app(surroundings, refusal)
        finally:
            # The request refers to itself through these, and would keep its body until the next collection.
            surroundings.clear()

    def _from_s3(self, request: Request, told: Any) -> Answer:
        told.from_wsgi_server = True
        bucket, _, key = request.path.lstrip("/").partition("/")
        turn = self._s3.key_dispatch if key else self._s3.ambiguous_dispatch if bucket else self._s3.bucket_dispatch
        status, headers, content = turn(told, told.raw_url, dict(told.headers))
        content = content.encode() if isinstance(content, str) else content
        return Answer(int(status), content, _headers(headers.items(), request.method, status))

    def _through_app(self, surroundings: dict[str, Any], app: Any = None) -> Answer:
        head: list[Any] = []
        pieces = (app or self._app)(surroundings, lambda status, headers, exc_info=None: head.extend((status, headers)))
        body = b"".join(pieces)
        status = int(head[0].split()[0])
        return Answer(status, body, _headers(head[1], surroundings["REQUEST_METHOD"], status))


def _is_s3(request: Request) -> bool:
    if request.path.startswith(("/moto-api", "/latest/")):
        return False
    signed = request.headers.get("authorization", "")
    form = request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
    return not OTHER_SERVICE.search(signed) if signed else not form


def _headers(pairs: Iterable[tuple[str, Any]], method: str, status: int) -> dict[str, str]:
    """All but the length, which the front knows better; only an answer to HEAD has one and no body."""
    keep_length = method == "HEAD" and status < 300
    told = {str(name).lower(): str(value) for name, value in pairs if name.lower() not in ("connection", "status")}
    if not keep_length:
        told.pop("content-length", None)
    return told


def environ(request: Request, body: bytes) -> dict[str, Any]:
    """The request as WSGI has it."""
    path, _, query = request.target.partition("?")
    host, _, port = request.headers.get("host", "127.0.0.1:80").partition(":")
    told: dict[str, Any] = {
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": io.StringIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query,
        "REQUEST_URI": request.target,
        "RAW_URI": request.target,
        "REMOTE_ADDR": "127.0.0.1",
        "SERVER_NAME": host,
        "SERVER_PORT": port or "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
    }
    for name, value in request.headers.items():
        if name not in ("transfer-encoding", "content-length"):
            told[_variable(name)] = value
    told["CONTENT_LENGTH"] = str(len(body))
    # WSGI cannot tell `my_key` from `my-key`, but S3 does in what its users name.
    told["moto.preserved_header_names"] = {_variable(name): name for name in request.headers if UNDERSCORED.match(name)}
    return told


def _variable(name: str) -> str:
    variable = name.upper().replace("-", "_")
    return variable if variable == "CONTENT_TYPE" else f"HTTP_{variable}"
