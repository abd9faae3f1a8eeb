"""Where tests fetch code from: a web server that can misbehave, and git repositories on it."""

from __future__ import annotations

import os
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.harness import eventually

Answer = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Web:
    """A web server on loopback. `asked` has what it was asked for, in order."""

    port: int
    answers: dict[str, bytes | Answer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    folder: Path | None = None
    """Served as it is, as by any server that knows nothing of git."""
    repositories: Path | None = None
    """Served below /git by git's own program."""
    password: str = ""
    """Where set, repositories want it."""

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def wait_for(self, count: int) -> None:
        """Returns when it has been asked so often."""
        eventually(lambda: len(self.asked) >= count)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.asked.append(handler.path)
        path = urlsplit(handler.path).path
        known = self.answers.get(path)
        if callable(known):
            known(handler)
        elif known is not None:
            send(handler, 200, known)
        elif self.repositories and path.startswith("/git/"):
            _git(self, handler)
        elif self.folder and (self.folder / unquote(path[1:])).is_file():
            send(handler, 200, (self.folder / unquote(path[1:])).read_bytes())
        else:
            send(handler, 404, b"not here")


@contextmanager
def web(tls: ssl.SSLContext | None = None, **settings: Any) -> Iterator[Web]:
    """A server for as long as the block lasts."""
    server = _Server(("127.0.0.1", 0), _Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.web = Web(server.server_address[1], **settings)  # type: ignore[attr-defined]
    thread = threading.Thread(target=lambda: server.serve_forever(0.02), daemon=True)
    thread.start()
    try:
        yield server.web  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is what many of these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.server.web.answer(self)  # type: ignore[attr-defined]

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


def send(handler: BaseHTTPRequestHandler, code: int, content: bytes, headers: Mapping[str, str] | None = None) -> None:
    handler.send_response(code)
    for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(content)
    if "Content-Length" in (headers or {}):
        handler.close_connection = True


def redirect(to: str, code: int = 302) -> Answer:
    return lambda handler: send(handler, code, b"", {"Location": to})


def short(content: bytes, missing: int = 5) -> Answer:
    """An answer that breaks off."""
    return lambda handler: send(handler, 200, content, {"Content-Length": str(len(content) + missing)})


def in_turn(*answers: Answer | bytes) -> Answer:
    """A different answer each time; the last one from then on."""
    left = list(answers)

    def answer(handler: BaseHTTPRequestHandler) -> None:
        now = left.pop(0) if len(left) > 1 else left[0]
        now(handler) if callable(now) else send(handler, 200, now)

    return answer


def _git(served: Web, handler: BaseHTTPRequestHandler) -> None:
    """As a web server does that has git behind it."""
    import base64

    if served.password:
        login = base64.b64encode(f"ada:{served.password}".encode()).decode()
        if handler.headers.get("Authorization") != f"Basic {login}":
            send(handler, 401, b"", {"WWW-Authenticate": 'Basic realm="git"', "Content-Length": "0"})
            return
    url = urlsplit(handler.path)
    body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
    env = {
        **os.environ,
        "GIT_PROJECT_ROOT": str(served.repositories),
        "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": url.path.removeprefix("/git"),
        "QUERY_STRING": url.query,
        "REQUEST_METHOD": handler.command,
        "CONTENT_TYPE": handler.headers.get("Content-Type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_CONTENT_ENCODING": handler.headers.get("Content-Encoding", ""),
        "GIT_PROTOCOL": handler.headers.get("Git-Protocol", ""),
        "REMOTE_ADDR": "127.0.0.1",
    }
    done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True)
    head, _, content = done.stdout.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
    code = int(headers.pop("Status", "200").split()[0])
    send(handler, code, content, {**headers, "Content-Length": str(len(content))})


@dataclass(frozen=True)
class Repository:
    """A repository in the making."""

    folder: Path

    def git(self, *words: str, **env: str) -> str:
        """Runs git here, as somebody of no consequence."""
        who = {
            f"GIT_{role}_{what}": "ada@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        own = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", **who, **env}
        done = subprocess.run(
            ["git", *words], cwd=self.folder, env={**os.environ, **own}, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, files: Mapping[str, str], message: str = "more") -> str:
        """Writes files and commits all there is; the commit."""
        for path, content in files.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(content)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")


def repository(folder: Path) -> Repository:
    """An empty one, whose default branch is called main."""
    folder.mkdir(parents=True)
    made = Repository(folder)
    made.git("init", "--quiet", "--initial-branch=main")
    return made
