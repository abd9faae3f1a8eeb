"""What a registry is asked, and how: with the login that docker's user made, and never with more than it needs."""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from muster.errors import MusterError
from muster.images import digest
from muster.images.credentials import login_of

SHA = "sha256:" + "5" * 64
BASIC = "Basic " + base64.b64encode(b"somebody:sesame").decode()


@dataclass
class Server:
    """A registry that hands out tokens, and wants one."""

    port: int
    realm: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Paths, and what they were asked with."""

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def answer(self, handler: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        allowed = handler.headers.get("Authorization", "")
        self.asked.append((handler.path, allowed))
        if handler.path.startswith("/token?"):
            return (200, {}, b'{"token": "of-a-minute"}') if allowed == BASIC else (401, {}, b"")
        if "moved" in handler.path:
            return 307, {"Location": f"http://localhost:{self.port}/elsewhere"}, b""
        if allowed != "Bearer of-a-minute":
            realm = self.realm or f"http://{self.host}/token"
            return 401, {"WWW-Authenticate": f'Bearer realm="{realm}",service="tests"'}, b""
        if not handler.path.endswith("/1"):
            return 404, {}, b""
        return 200, {"Docker-Content-Digest": SHA}, b""


@contextmanager
def serving() -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = made.answer(self)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_args: object) -> None:
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Server(listener.server_port)
    thread = threading.Thread(target=listener.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield made
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """docker's configuration of a user who is logged in nowhere yet."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    for name in ("REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "config.json"


def log_in(config: Path, host: str, who: bytes = b"somebody:sesame") -> None:
    config.write_text(json.dumps({"auths": {host: {"auth": base64.b64encode(who).decode()}}}))


def test_a_tag_becomes_a_digest_with_a_token_for_it(server: Server, config: Path) -> None:
    log_in(config, server.host)
    assert digest(f"{server.host}/team/train:1") == f"{server.host}/team/train@{SHA}"
    path = "/v2/team/train/manifests/1"
    assert [asked for asked, _ in server.asked] == [
        path,
        "/token?service=tests&scope=repository%3Ateam%2Ftrain%3Apull",
        path,
    ]


def test_a_name_with_a_digest_is_not_asked_for() -> None:
    assert digest(f"127.0.0.1:1/team/train:1@{SHA}") == f"127.0.0.1:1/team/train@{SHA}"


def test_without_a_login_its_user_is_told_how_to_make_one(server: Server, config: Path) -> None:
    with pytest.raises(MusterError, match="does not let you see") as refusal:
        digest(f"{server.host}/team/train:1")
    assert f"docker login {server.host}" in refusal.value.fix


def test_a_wrong_password_is_in_no_error(server: Server, config: Path) -> None:
    log_in(config, server.host, b"somebody:mellon")
    with pytest.raises(MusterError) as refusal:
        digest(f"{server.host}/team/train:1")
    assert "mellon" not in str(refusal.value)
    assert "mellon" not in repr(login_of(server.host))


def test_an_image_that_is_not_there_is_named(server: Server, config: Path) -> None:
    log_in(config, server.host)
    with pytest.raises(MusterError, match=r"there is no .*team/train:2") as refusal:
        digest(f"{server.host}/team/train:2")
    assert "muster image push" in refusal.value.fix


def test_a_login_goes_nowhere_that_a_registry_sends_it(server: Server, config: Path) -> None:
    """Neither by a redirect, nor to a token server that could be listened to."""
    log_in(config, server.host)
    with pytest.raises(MusterError, match="answered 307"):
        digest(f"{server.host}/moved/train:1")
    server.realm = "ftp://elsewhere/token"
    with pytest.raises(MusterError, match="does not let you see"):
        digest(f"{server.host}/team/train:1")
    assert not [path for path, allowed in server.asked if allowed]


def test_a_registry_that_does_not_answer_is_named(config: Path) -> None:
    with pytest.raises(MusterError, match=r"127\.0\.0\.1:1 does not answer"):
        digest("127.0.0.1:1/team/train:1")


@pytest.mark.parametrize("key", ["credsStore", "credHelpers"])
def test_a_program_that_keeps_logins_is_asked(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    program = tmp_path / "docker-credential-safe"
    program.write_text(
        '#!/bin/sh\nread -r registry || true\n[ "$1 $registry" = "get iad.ocir.io" ] || exit 1\n'
        'echo \'{"Username": "n/me", "Secret": "token"}\'\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    config.write_text(json.dumps({key: "safe" if key == "credsStore" else {"iad.ocir.io": "safe"}}))
    found = login_of("iad.ocir.io")
    assert found is not None
    assert (found.user, found.password) == ("n/me", "token")
    assert login_of("fra.ocir.io") is None


def test_podmans_logins_are_found_too(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log_in(tmp_path / "auth.json", "iad.ocir.io")
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "auth.json"))
    found = login_of("iad.ocir.io")
    assert found is not None
    assert found.user == "somebody"
