"""S3 in a box: moto's, with writes that are atomic and reads that no write disturbs.

For a test, in a process of its own:

>>> with s3.started("training") as server:                 # makes the bucket `training`
...     server.endpoint                                     # "http://127.0.0.1:40123"
...     server.environment                                  # AWS_ACCESS_KEY_ID … AWS_ENDPOINT_URL, for any SDK
...     server.make_bucket("other")
...     server.steering.fail(times=2, status=503, kind="put")
...     server.steering.counts().of("put")

By hand: `python -m muster.rehearsal.s3 --port 0`. moto's own control (`/moto-api/…`, IAM enforcement with it) and its
other services answer on the same port.
"""

from __future__ import annotations

import base64
import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from ..errors import MusterError
from .collisions import Collisions
from .front import Server
from .messages import Answer, Request
from .moto_app import MotoApp
from .process import arguments, child, serve
from .s3_requests import Asked, asked
from .steering import Steering

REGION = "us-east-1"
TOO_MANY = re.compile(r"max-keys=\d{4,}")
CODES = {
    409: "ConditionalRequestConflict",
    429: "TooManyRequests",
    500: "InternalError",
    503: "SlowDown",
}


class S3:
    """The service. With `conflicts`, a conditional write that meets another of the same key is told 409, as on S3."""

    def __init__(self, conflicts: bool = False) -> None:
        self._moto = MotoApp()
        self._collisions = Collisions(conflicts)
        self._one_at_a_time = threading.Lock()

    def kind(self, request: Request) -> tuple[str, str]:
        found = asked(request)
        return found.kind, found.key

    def answer(self, request: Request) -> Answer:
        found = asked(request)
        with self._collisions.writing((found.bucket, found.key), found.conditional) as free:
            return self._work(request, found) if free else self.failure(409, "")

    def _work(self, request: Request, found: Asked) -> Answer:
        """moto checks a precondition and writes in two steps, and closes the file of a value that is still being read.

        So it does one thing at a time. Bodies come in before and go out after; only parts, which no two requests
        share, are taken side by side.
        """
        body = request.content()
        said = request.headers.get("content-md5")
        if said and said != base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode():
            return self.failure(400, "BadDigest")
        if found.kind == "list":
            request = replace(request, target=TOO_MANY.sub("max-keys=1000", request.target))
        if found.kind == "part":
            return self._moto.answer(request, body)
        with self._one_at_a_time:
            return self._moto.answer(request, body)

    def failure(self, status: int, code: str) -> Answer:
        code = code or CODES.get(status, "InternalError")
        body = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>rehearsed</Message></Error>"
        return Answer(status, body.encode(), {"content-type": "application/xml"})

    def control(self, asked: str, said: Any) -> Any:
        raise MusterError(f"the control of S3 knows no {asked}")


@dataclass(frozen=True)
class S3Server:
    """A server that runs, as its user sees it."""

    endpoint: str
    pid: int
    steering: Steering = field(compare=False)

    @property
    def environment(self) -> dict[str, str]:
        """What makes any SDK use this server."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "rehearsal",
            "AWS_SECRET_ACCESS_KEY": "rehearsal",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ALLOW_HTTP": "true",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def make_bucket(self, name: str) -> None:
        connection = HTTPConnection(urlsplit(self.endpoint).netloc, timeout=30)
        try:
            connection.request("PUT", f"/{name}")
            answer = connection.getresponse()
            said = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise MusterError(f"the bucket {name} could not be made at {self.endpoint}: {said.decode()}")


@contextmanager
def started(*buckets: str, conflicts: bool = False, port: int = 0) -> Iterator[S3Server]:
    """A server in a process of its own for the length of a `with`, with these buckets."""
    words = ["--port", str(port), *(["--conflicts"] if conflicts else [])]
    with child("muster.rehearsal.s3", *words) as said:
        server = S3Server(said["endpoint"], said["pid"], Steering(said["endpoint"]))
        for name in buckets:
            server.make_bucket(name)
        server.steering.reset_counts()
        yield server


def main() -> None:
    parser = arguments("muster.rehearsal.s3")
    parser.add_argument("--conflicts", action="store_true", help="answer 409 when two conditional writes collide")
    given = parser.parse_args()
    serve(Server(S3(given.conflicts), given.port), given)


if __name__ == "__main__":
    main()
