"""One file over http: whole or not at all, within bounds, with errors that say what to do."""

from __future__ import annotations

import hashlib
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from muster.errors import CodeError
from muster.workdir import download as downloads
from muster.workdir import patience
from muster.workdir.download import download
from tests.needs import needs
from tests.workdir.servers import Answer, Web, in_turn, redirect, send, short, web

CONTENT = b"some code\n" * 1000


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    monkeypatch.setattr(downloads, "_PAUSE", 0.01)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with web() as server:
        yield server


def quiet(_text: str) -> None:
    pass


def complaint(url: str, to: Path) -> CodeError:
    with pytest.raises(CodeError) as told:
        download(url, to, quiet)
    return told.value


def test_a_file_comes_whole_and_its_sha256_is_told(served: Web, tmp_path: Path) -> None:
    served.answers["/code.zip"] = CONTENT
    assert download(served.url("/code.zip"), tmp_path / "file", quiet) == hashlib.sha256(CONTENT).hexdigest()
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert served.asked == ["/code.zip"]


def test_a_file_of_no_bytes_is_one_too(served: Web, tmp_path: Path) -> None:
    served.answers["/x"] = b""
    assert download(served.url("/x"), tmp_path / "file", quiet) == hashlib.sha256(b"").hexdigest()


def chunked(handler: BaseHTTPRequestHandler, end: bytes = b"0\r\n\r\n") -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"%x\r\n%s\r\n" % (len(CONTENT), CONTENT) + end)
    handler.close_connection = True


def test_a_file_whose_length_nobody_tells_comes_too(served: Web, tmp_path: Path) -> None:
    served.answers["/x"] = chunked
    download(served.url("/x"), tmp_path / "file", quiet)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_file_that_is_packed_stays_so(served: Web, tmp_path: Path) -> None:
    """Some servers call a .tar.gz a tar that is packed for the way."""
    served.answers["/x"] = lambda handler: send(handler, 200, CONTENT, {"Content-Encoding": "gzip"})
    download(served.url("/x"), tmp_path / "file", quiet)
    assert (tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirects_are_followed(served: Web, code: int, tmp_path: Path) -> None:
    served.answers |= {"/a": redirect("/b", code), "/b": redirect(served.url("/c"), code), "/c": CONTENT}
    download(served.url("/a"), tmp_path / "file", quiet)
    assert served.asked == ["/a", "/b", "/c"]


def test_redirects_in_a_circle_end(served: Web, tmp_path: Path) -> None:
    served.answers |= {"/a": redirect("/b"), "/b": redirect("/a")}
    assert "redirects again and again" in complaint(served.url("/a"), tmp_path / "file").message
    assert len(served.asked) < 5


def test_redirects_without_end_end(served: Web, tmp_path: Path) -> None:
    served.answers |= {f"/{number}": redirect(f"/{number + 1}") for number in range(50)}
    assert "redirects again and again" in complaint(served.url("/0"), tmp_path / "file").message
    assert len(served.asked) == 6


@pytest.mark.parametrize("to", ["file:///etc/passwd", "ftp://127.0.0.1/x", "data:,x"])
def test_a_redirect_leads_to_no_other_scheme(served: Web, to: str, tmp_path: Path) -> None:
    served.answers["/a"] = redirect(to)
    assert f"redirects to {to}" in complaint(served.url("/a"), tmp_path / "file").message


def test_a_key_in_a_redirect_is_not_shown(served: Web, tmp_path: Path) -> None:
    served.answers["/a"] = redirect("ftp://ada:hunter2@127.0.0.1/x?sig=hunter3")
    assert "hunter" not in str(complaint(served.url("/a"), tmp_path / "file"))


@pytest.mark.parametrize(
    ("code", "words", "fix"),
    [
        (404, "there is nothing at", "URL is right"),
        (410, "there is nothing at", "URL is right"),
        (401, "wants a login", "Muster sends no login"),
        (403, "wants a login", "Muster sends no login"),
        (418, "answered 418", "URL is right"),
    ],
)
def test_an_answer_that_is_no_file_is_told_once(served: Web, code: int, words: str, fix: str, tmp_path: Path) -> None:
    served.answers["/x"] = lambda handler: send(handler, code, b"no")
    told = complaint(served.url("/x"), tmp_path / "file")
    assert words in told.message
    assert str(code) in told.message
    assert fix in told.fix
    assert len(served.asked) == 1


def no(code: int) -> Answer:
    return lambda handler: send(handler, code, b"")


PASSING = {
    "the server has trouble": no(503),
    "too many ask": no(429),
    "it breaks off": short(CONTENT[:500]),
    "it breaks off in a chunk": lambda handler: chunked(handler, b"fff\r\nabc"),
    "it hangs up": lambda handler: setattr(handler, "close_connection", True),
}


@pytest.mark.parametrize("case", PASSING)
def test_what_fails_in_passing_is_tried_again(served: Web, case: str, tmp_path: Path) -> None:
    served.answers["/x"] = in_turn(PASSING[case], CONTENT)
    assert download(served.url("/x"), tmp_path / "file", quiet) == hashlib.sha256(CONTENT).hexdigest()
    assert len(served.asked) == 2


@pytest.mark.parametrize("case", PASSING)
def test_what_fails_again_and_again_is_told(served: Web, case: str, tmp_path: Path) -> None:
    served.answers["/x"] = PASSING[case]
    assert served.url("/x") in complaint(served.url("/x"), tmp_path / "file").message
    assert len(served.asked) == 3


def test_a_broken_off_download_says_how_much_is_missing(served: Web, tmp_path: Path) -> None:
    served.answers["/x"] = short(b"12345", missing=7)
    assert "ended after 5 of 12 bytes" in complaint(served.url("/x"), tmp_path / "file").message


def test_a_huge_file_is_refused_by_what_it_claims(served: Web, tmp_path: Path) -> None:
    served.answers["/x"] = short(b"12345", missing=1 << 40)
    told = complaint(served.url("/x"), tmp_path / "file")
    assert "has 1.10TB, and code may have 2GiB" in told.message
    assert "inputs" in told.fix
    assert len(served.asked) == 1


def test_a_huge_file_is_refused_by_what_comes(served: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "LARGEST", 5000)
    served.answers["/x"] = chunked
    assert "and code may have 5KB" in complaint(served.url("/x"), tmp_path / "file").message


def test_a_server_that_says_nothing_is_given_up(served: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "_SILENCE", 0.1)
    done = threading.Event()

    def wait(handler: BaseHTTPRequestHandler) -> None:
        done.wait(20)
        handler.close_connection = True

    served.answers["/x"] = wait
    assert "did not answer within 0.1 s" in complaint(served.url("/x"), tmp_path / "file").message
    done.set()


def test_a_server_that_trickles_is_given_up(served: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "_LONGEST", 0.2)

    def trickle(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        handler.close_connection = True
        try:
            for _ in range(1000):
                handler.wfile.write(b"x")
                time.sleep(0.01)
        except OSError:
            pass

    served.answers["/x"] = trickle
    assert "came too slowly" in complaint(served.url("/x"), tmp_path / "file").message


def test_a_refused_connection_is_told_once(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        told = complaint(f"http://127.0.0.1:{port}/code.zip", tmp_path / "file")
    assert f"127.0.0.1:{port} refuses the connection" in told.message


@pytest.mark.unit
def test_a_host_that_nobody_knows_is_told() -> None:
    error = downloads._unreached("https://nowhere.example/x.zip", socket.gaierror(-2, "Name or service not known"))
    assert error.message == "https://nowhere.example/x.zip: no host is called nowhere.example"


def test_what_takes_time_is_told(served: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_QUIET", 0.0)
    said: list[str] = []
    served.answers["/x"] = CONTENT
    download(served.url("/x"), tmp_path / "file", said.append)
    assert len(said) == 1
    assert said[0].startswith(f"downloading {served.url('/x')}: ")
    assert said[0].endswith(" of 10KB")


def test_a_quick_download_says_nothing(served: Web, tmp_path: Path) -> None:
    served.answers["/x"] = CONTENT
    said: list[str] = []
    download(served.url("/x"), tmp_path / "file", said.append)
    assert said == []


def test_proxy_variables_are_followed(served: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", served.url(""))
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    served.answers["/code.zip"] = CONTENT
    download("http://far.example/code.zip", tmp_path / "file", quiet)
    assert served.asked == ["http://far.example/code.zip"]


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[str, Path, Web]]:
    """The same server behind TLS, with a certificate of its own."""
    needs("openssl")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*make, *names], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with web(tls=context) as server:
        yield server.url("").replace("http:", "https:"), certificate, server


def test_https_wants_a_certificate_that_is_trusted(
    secure: tuple[str, Path, Web], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, certificate, server = secure
    server.answers["/x"] = CONTENT
    told = complaint(f"{url}/x", tmp_path / "file")
    assert "certificate of 127.0.0.1" in told.message
    assert "is not trusted" in told.message
    assert "SSL_CERT_FILE" in told.fix
    assert server.asked == []
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    download(f"{url}/x", tmp_path / "file", quiet)
    assert server.asked == ["/x"]


def test_a_redirect_never_leads_from_https_to_http(
    secure: tuple[str, Path, Web], served: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, certificate, server = secure
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    server.answers["/x"] = redirect(served.url("/x"))
    assert f"redirects to {served.url('/x')}" in complaint(f"{url}/x", tmp_path / "file").message
    assert served.asked == []
