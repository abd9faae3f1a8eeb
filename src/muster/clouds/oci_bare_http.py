"""Connections to one server of Oracle's cloud, for many threads, with the standard library alone."""

from __future__ import annotations

import base64
import os
import select
import ssl
import weakref
from collections import deque
from collections.abc import Mapping
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from ..errors import StoreError

CONNECT_SECONDS, READ_SECONDS = 5.0, 60.0
_BLOCK = 256 << 10


class Unanswered(Exception):
    """No answer came, or not all of it. The text is what Python calls that."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(type(cause).__name__)


class Readable(Protocol):
    """A body that is read while it is sent."""

    def read(self, size: int = -1) -> bytes: ...


class Reply:
    """An answer whose head is here. Once its body is read, its connection serves the next request."""

    def __init__(self, server: Server, connection: HTTPConnection, answer: HTTPResponse) -> None:
        self._server, self._connection, self._answer = server, connection, answer
        self.status = answer.status
        self.headers = {name.lower(): value for name, value in answer.getheaders()}
        """Names are in small letters."""

    def read(self) -> bytes:
        """All of the body."""
        try:
            content = self._answer.read()
        except (OSError, HTTPException) as error:
            self._connection.close()
            raise Unanswered(error) from error
        self._server.take_back(self._connection)
        return content


class Server:
    """One scheme, host and port. Any thread may ask; connections are used again, by whichever thread comes next."""

    def __init__(self, endpoint: str) -> None:
        place = urlsplit(endpoint)
        self.host = place.netloc
        """As it is signed and sent."""
        self.path = place.path.rstrip("/")
        self._secure = place.scheme == "https"
        self._name, self._port = place.hostname or "", place.port or (443 if self._secure else 80)
        self._proxy = _proxy(place.scheme, place.netloc)
        self._idle: deque[HTTPConnection] = deque()
        self.close = weakref.finalize(self, _close, self._idle)
        """Ends the connections that wait."""

    def ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes | Readable = b"") -> Reply:
        """The answer, with its head read."""
        connection = self._connection()
        try:
            self._open(connection)
            self._send(connection, method, target, headers, body)
            return Reply(self, connection, connection.getresponse())
        except (OSError, HTTPException) as error:
            connection.close()
            raise self._told(error) from error
        except BaseException:
            connection.close()  # half a request is on its way
            raise

    def take_back(self, connection: HTTPConnection) -> None:
        """A connection that is free again; one that the server closed has no socket any more."""
        if connection.sock is not None:
            self._idle.append(connection)

    def _send(
        self,
        connection: HTTPConnection,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | Readable,
    ) -> None:
        # A proxy of plain HTTP is told the whole address; the server itself sees, and verifies, the path.
        whole = f"http://{self.host}{target}" if self._proxy and not self._secure else target
        connection.putrequest(method, whole, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        if self._proxy and not self._secure:
            for name, value in _authorization(self._proxy).items():
                connection.putheader(name, value)
        try:
            connection.endheaders()
            _send_body(connection, body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # a server that refuses a request may not wait for the end of it; its answer says why

    def _connection(self) -> HTTPConnection:
        while True:
            try:
                # The one that was used last: those behind it may have been closed by the server meanwhile.
                found = self._idle.pop()
            except IndexError:
                return self._made()
            if not _has_something_to_say(found):
                return found
            found.close()

    def _open(self, connection: HTTPConnection) -> None:
        if connection.sock is None:
            connection.connect()
            opened: Any = connection.sock
            opened.settimeout(READ_SECONDS)

    def _made(self) -> HTTPConnection:
        host, port = self._name, self._port
        if self._proxy:
            proxy = urlsplit(self._proxy)
            host, port = proxy.hostname or "", proxy.port or 80
        if not self._secure:
            return HTTPConnection(host, port, timeout=CONNECT_SECONDS, blocksize=_BLOCK)
        made = HTTPSConnection(host, port, timeout=CONNECT_SECONDS, context=_trust(), blocksize=_BLOCK)
        if self._proxy:
            made.set_tunnel(self._name, self._port, _authorization(self._proxy))
        return made

    def _told(self, error: Exception) -> Exception:
        if isinstance(error, ssl.SSLCertVerificationError):
            return StoreError(
                f"the certificate of {self._name} was refused: {error.verify_message}",
                "Set SSL_CERT_FILE to a file with the authorities to trust (an image may have none), "
                "and behind a proxy with its authority too.",
            )
        return Unanswered(error)


def _send_body(connection: HTTPConnection, body: bytes | Readable) -> None:
    if isinstance(body, bytes):
        if body:
            connection.send(body)
        return
    while chunk := body.read(_BLOCK):
        connection.send(chunk)


def _has_something_to_say(connection: HTTPConnection) -> bool:
    """Whether a connection that nobody waits for an answer on has one: mostly that it was closed meanwhile."""
    look = select.poll()
    look.register(connection.sock, select.POLLIN)
    return bool(look.poll(0))


def _close(connections: deque[HTTPConnection]) -> None:
    for connection in connections:
        connection.close()


def _proxy(scheme: str, netloc: str) -> str:
    """The proxy that the environment names for this, as the rest of Python would take it."""
    found = getproxies().get(scheme) or getproxies().get("all") or ""
    if not found or proxy_bypass(netloc):
        return ""
    return found if "://" in found else f"http://{found}"


def _authorization(proxy: str) -> dict[str, str]:
    place = urlsplit(proxy)
    if place.username is None:
        return {}
    words = f"{unquote(place.username)}:{unquote(place.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(words.encode()).decode()}"}


@cache
def _trust() -> ssl.SSLContext:
    """The authorities that the environment names, else the machine's, else those that come with certifi."""
    named = os.environ.get("SSL_CERT_FILE") or os.environ.get("REQUESTS_CA_BUNDLE")
    paths = ssl.get_default_verify_paths()
    machine = paths.cafile or (paths.capath and any(Path(paths.capath).iterdir()))
    if not named and not machine and find_spec("certifi"):
        import certifi

        named = certifi.where()
    return ssl.create_default_context(cafile=named or None)
