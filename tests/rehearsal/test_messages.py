"""Requests as they come off the wire."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.rehearsal.messages import Answer, Body, read_request
from muster.rehearsal.stretch import Stretch

pytestmark = pytest.mark.unit


def chunked(pieces: list[bytes]) -> bytes:
    return b"".join(b"%x;note\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\nTrailer: 1\r\n\r\n"


@given(st.lists(st.binary(min_size=1, max_size=50)), st.integers(1, 40))
def test_a_body_in_chunks_is_read_whole_and_no_further(pieces: list[bytes], step: int) -> None:
    wire = io.BytesIO(chunked(pieces) + b"NEXT")
    body = Body(wire, 0, chunked=True)
    found = b""
    while piece := body.read(step):
        assert len(piece) <= step
        found += piece
    assert found == b"".join(pieces)
    assert body.taken == len(found)
    assert wire.read() == b"NEXT"


def test_requests_follow_each_other_on_one_connection() -> None:
    first = b"PUT /a%2Fb?x=1&y HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nX-A: 1\r\nx-a: 2\r\n\r\nabc"
    wire = io.BytesIO(first + b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
    request = read_request(wire)
    assert request is not None
    assert (request.method, request.path, request.query) == ("PUT", "/a%2Fb", {"x": "1", "y": ""})
    assert request.headers["x-a"] == "1,2"
    assert request.content() == request.content() == b"abc"
    last = read_request(wire)
    assert last is not None
    assert not last.keep_alive
    assert read_request(wire) is None


def test_a_body_that_ends_early_is_an_error() -> None:
    with pytest.raises(ConnectionError):
        Body(io.BytesIO(b"ab"), 3).read()


def test_what_is_not_http_is_an_error() -> None:
    with pytest.raises(ConnectionError):
        read_request(io.BytesIO(b"hello\r\n"))


def test_an_answer_has_its_length_unless_it_may_have_none() -> None:
    assert b"content-length: 2" in Answer(200, b"ab").head(True)
    assert b"content-length" not in Answer(204).head(True)
    assert Answer(200, b"", {"Content-Length": "9"}).head(False).lower().count(b"content-length") == 1


def test_a_stretch_is_read_although_its_file_is_gone(tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "file"
    path.write_bytes(bytes(range(100)))
    with path.open("rb") as file:
        stretch = Stretch(file.fileno(), 10, 50)
    path.unlink()
    assert bytes(stretch[5:10]) == bytes(range(15, 20))
    assert len(stretch[40:80]) == 10
