"""The HTTP front of the servers: connections that are kept, faults, counts and their control; a service behind it."""

from __future__ import annotations

import os
import socket
import socketserver
import sys
import threading
import traceback
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, cast

from . import control
from .counts import Counts
from .faults import Fault, Faults
from .messages import Answer, Request, read_request
from .stretch import Stretch


class Service(control.Controlled, Protocol):
    """What stands behind a front."""

    def kind(self, request: Request) -> tuple[str, str]:
        """What kind of request this is (see `counts.KINDS`), and the object's name or the list's prefix."""

    def answer(self, request: Request) -> Answer: ...

    def failure(self, status: int, code: str) -> Answer:
        """An error in the service's own form; `code` may be empty for the usual one."""


class Server:
    """A service on a port of loopback, in threads of this process. Use it in a `with`."""

    def __init__(self, service: Service, port: int = 0) -> None:
        self.faults = Faults()
        self.counts = Counts()
        self._listening = _Listening(_Desk(service, self.faults, self.counts), port)
        self._thread = threading.Thread(target=self._listening.serve_forever, args=(0.05,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._listening.server_address[1])

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        self._listening.shutdown()
        self._thread.join()
        self._listening.server_close()
        self.faults.clear()
        self._listening.hang_up()


@dataclass
class _Desk:
    """What every connection shares."""

    service: Service
    faults: Faults
    counts: Counts

    def reply(self, request: Request) -> tuple[Answer | None, bool]:
        """The answer, or None where the connection is to be closed; and whether only half of it is sent."""
        if request.path.startswith(control.PREFIX):
            return control.answer(request, self.faults, self.counts, self.service), False
        kind, key = self.service.kind(request)
        self.counts.came(request.method, kind)
        self.faults.pause()
        return self._with(self.faults.meet(request.method, kind, key), request)

    def _with(self, fault: Fault | None, request: Request) -> tuple[Answer | None, bool]:
        if fault is None:
            return self._work(request), False
        if fault.way == "answer":
            answer = self.service.failure(fault.status, fault.code)
            if fault.body is not None:
                answer.body = fault.body.encode()
            return answer, False
        if fault.way == "close":
            return None, False
        if fault.way == "hold":
            self.faults.hold()
        answer = self._work(request)
        if fault.way == "keep":
            self.faults.hold()
        if fault.way in ("hold", "keep"):
            return answer, False
        return (answer, True) if fault.way == "cut" else (None, False)

    def _work(self, request: Request) -> Answer:
        try:
            return self.service.answer(request)
        except ConnectionError:
            raise
        except Exception:  # noqa: BLE001 - what a service did not foresee is its 500, and the reason is shown
            traceback.print_exc(file=sys.stderr)
            return self.service.failure(500, "")


class _Listening(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1024

    def __init__(self, desk: _Desk, port: int) -> None:
        self.desk = desk
        self._open: set[socket.socket] = set()
        self._changed = threading.Condition()
        super().__init__(("127.0.0.1", port), _Connection)

    def opened(self, connection: socket.socket) -> None:
        with self._changed:
            self._open.add(connection)

    def closed(self, connection: socket.socket) -> None:
        with self._changed:
            self._open.discard(connection)
            self._changed.notify_all()

    def hang_up(self) -> None:
        """Closes what is still open, and waits for the threads that serve it."""
        with self._changed:
            for connection in self._open:
                _shut(connection)
            self._changed.wait_for(lambda: not self._open, timeout=5)

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            traceback.print_exc(file=sys.stderr)


class _Connection(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True
    rbufsize = 1 << 16
    connection: socket.socket

    def handle(self) -> None:
        listening = cast(_Listening, self.server)
        listening.opened(self.connection)
        try:
            while self._serve(listening.desk):
                pass
        except (ConnectionError, TimeoutError):
            pass
        finally:
            _shut(self.connection)
            listening.closed(self.connection)

    def _serve(self, desk: _Desk) -> bool:
        """One request; whether another may follow."""
        request = read_request(self.rfile)
        if request is None:
            return False
        if request.headers.get("expect", "").lower() == "100-continue":
            self.connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        answer, cut = desk.reply(request)
        if answer is None:
            return False
        request.body.drain()
        desk.counts.moved(request.body.taken, self._send(answer, request, cut))
        return request.keep_alive and not cut

    def _send(self, answer: Answer, request: Request, cut: bool) -> int:
        head = answer.head(request.keep_alive)
        body = b"" if request.method == "HEAD" else answer.body
        if cut:
            body = body[: len(body) // 2]
        if isinstance(body, bytes):
            self.connection.sendall(head + body if len(body) < 1 << 16 else head)
            if len(body) >= 1 << 16:
                self.connection.sendall(body)
        else:
            self.connection.sendall(head)
            self._send_file(body)
        return len(body)

    def _send_file(self, body: Stretch) -> None:
        at, end = body.start, body.start + len(body)
        while at < end:
            sent = os.sendfile(self.connection.fileno(), body.fileno(), at, end - at)
            if not sent:
                raise ConnectionError("the file of an object is shorter than it should be")
            at += sent


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
