"""A request and its answer, as the servers of this floor see them: HTTP/1.1 with nothing in between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import responses
from typing import BinaryIO, Protocol
from urllib.parse import parse_qsl

from .stretch import STEP, Stretch

LONGEST_LINE = 1 << 20


class Reader(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...
    def readline(self, size: int = -1, /) -> bytes: ...


class Body:
    """The body of a request as it comes off the wire, by length or in chunks."""

    def __init__(self, source: Reader, length: int, chunked: bool = False) -> None:
        self._source = source
        self._left = length
        self._chunked = chunked
        self.taken = 0

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes; all that is left without one. Empty at the end."""
        pieces = []
        while size and (piece := self._some(size)):
            pieces.append(piece)
            size -= len(piece) if size > 0 else 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _some(self, size: int) -> bytes:
        if self._chunked and not self._left:
            self._next_chunk()
        piece = self._source.read(min(self._left, size if size > 0 else self._left)) if self._left else b""
        if self._left and not piece:
            raise ConnectionError("the client went away in the middle of a body")
        self._left -= len(piece)
        self.taken += len(piece)
        if self._chunked and piece and not self._left:
            self._source.readline()
        return piece

    def _next_chunk(self) -> None:
        self._left = int(self._source.readline().partition(b";")[0] or b"0", 16)
        if not self._left:
            while self._source.readline().strip():
                pass
            self._chunked = False

    def copy_to(self, file: BinaryIO) -> int:
        """Writes all of it to a file, a piece at a time."""
        size = 0
        while piece := self.read(STEP):
            size += file.write(piece)
        return size

    def drain(self) -> None:
        while self.read(STEP):
            pass


@dataclass
class Request:
    """One request. `target` is as sent; `path` is what stands before the `?` in it, still encoded."""

    method: str
    target: str
    headers: Mapping[str, str]
    """By their names in lower case."""
    body: Body
    keep_alive: bool = True
    _content: bytes | None = None

    def content(self) -> bytes:
        """The whole body, for requests whose body is small."""
        if self._content is None:
            self._content = self.body.read()
        return self._content

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(self.target.partition("?")[2], keep_blank_values=True))


@dataclass
class Answer:
    status: int = 200
    body: bytes | Stretch = b""
    headers: dict[str, str] = field(default_factory=dict)
    """A `content-length` given here wins: an answer to HEAD has the length and no body."""

    def head(self, keep_alive: bool) -> bytes:
        lines = [f"HTTP/1.1 {self.status} {responses.get(self.status, 'Unknown')}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if self.status not in (204, 304) and not any(name.lower() == "content-length" for name in self.headers):
            lines.append(f"content-length: {len(self.body)}")
        lines.append(f"connection: {'keep-alive' if keep_alive else 'close'}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


def read_request(source: Reader) -> Request | None:
    """The next request of a connection; None at its end."""
    line = source.readline(LONGEST_LINE)
    if not line.strip():
        return None
    try:
        method, target, version = line.decode("latin-1").split()
    except ValueError as reason:
        raise ConnectionError("this is not HTTP") from reason
    headers = _headers(source)
    chunked = "chunked" in headers.get("transfer-encoding", "").lower()
    body = Body(source, 0 if chunked else int(headers.get("content-length", "0")), chunked)
    closing = headers.get("connection", "").lower() == "close" or version == "HTTP/1.0"
    return Request(method, target, headers, body, not closing)


def _headers(source: Reader) -> dict[str, str]:
    headers: dict[str, str] = {}
    while line := source.readline(LONGEST_LINE).strip():
        name, _, value = line.decode("latin-1").partition(":")
        name, value = name.strip().lower(), value.strip()
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    return headers
