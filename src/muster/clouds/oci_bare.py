"""Oracle's object storage without its SDK, which is 500 MB that no image has: the few calls that a work dir makes.

Names, arguments and answers are those of the SDK's `ObjectStorageClient`, as far as `workdir/oci_bucket.py` uses them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from ..errors import StoreError
from .oci import Session, check_endpoint
from .oci_bare_http import Readable, Reply, Server, Unanswered
from .oci_bare_regions import service_host
from .refusals import Answer

_BYTES, _JSON = "application/octet-stream", "application/json"


class Refused(Exception):
    """The service answered, but did not do what it was asked."""

    def __init__(self, status: int, code: str, message: str, request_id: str) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status, self.code, self.message, self.request_id = status, code, message, request_id


FAILURES = (Refused, Unanswered)
"""All that a call may end with, the reading of a stream included."""


def answer_of(error: Exception) -> Answer:
    """What came back."""
    if isinstance(error, Refused):
        return Answer(error.status, error.code, error.message)
    return Answer(0, "", str(error))


@dataclass(frozen=True)
class Response:
    """What a call gives. Names of headers are in small letters."""

    status: int
    headers: Mapping[str, str]
    data: Any = None


class Stream:
    """The content of an object; `raw` is itself, where the SDK has the stream of the library below."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    @property
    def raw(self) -> Stream:
        return self

    def read(self, decode_content: bool = False) -> bytes:
        """All of it, as it was sent."""
        return self._reply.read()


class Caller:
    """Signed requests to one service. Any thread may call."""

    def __init__(self, session: Session, service: str, endpoint: str | None = None) -> None:
        if not endpoint and not session.region:
            raise StoreError(
                "nothing says in which region of Oracle's cloud this is",
                "Set `region` in the profile or OCI_REGION; in a work dir, write ?region=us-ashburn-1 behind it.",
            )
        self._signer: Any = session.signer
        self._server = Server(check_endpoint(endpoint or f"https://{service_host(service, session.region)}"))

    def json(self, method: str, path: str, query: Mapping[str, Any] | None = None, said: Any = None) -> Response:
        """Calls with a JSON body, if any is given, and reads one."""
        body = None if said is None else json.dumps(said).encode()
        if method == "POST" and body is None:
            body = b""
        return self._whole(method, path, query or {}, {}, body)

    def _whole(
        self, method: str, path: str, query: Mapping[str, Any], headers: Mapping[str, Any], body: bytes | None = None
    ) -> Response:
        target = self._target(path, query)
        signed = self._signer.signed(method, target, self._server.host, body, _JSON)
        answer = self._ask(method, target, {**_words(headers), **signed}, body or b"")
        return Response(answer.status, answer.headers, _said(answer.read()))

    def _ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes | Readable = b"") -> Reply:
        answer = self._server.ask(method, target, {"accept": "*/*", **headers}, body)
        if answer.status < 300:
            return answer
        told = _said(answer.read())
        told = told if isinstance(told, dict) else {}
        request = answer.headers.get("opc-request-id", "")
        raise Refused(answer.status, str(told.get("code") or ""), str(told.get("message") or ""), request)

    def _target(self, path: str, query: Mapping[str, Any]) -> str:
        asked = urlencode({name: value for name, value in query.items() if value is not None}, quote_via=quote)
        return f"{self._server.path}{path}{'?' if asked else ''}{asked}"


class ObjectStorage(Caller):
    """The client."""

    def __init__(self, session: Session, endpoint: str | None = None) -> None:
        super().__init__(session, "objectstorage", endpoint)

    def get_namespace(self) -> Response:
        return self._whole("GET", "/n", {}, {})

    def put_object(
        self, namespace: str, bucket: str, name: str, body: bytes | Readable, content_length: int = 0, **headers: Any
    ) -> Response:
        """The body is not signed: it would have to be read twice."""
        return self._put(_object(namespace, bucket, name), {}, headers, body, content_length)

    def upload_part(
        self, namespace: str, bucket: str, name: str, upload: str, number: int, body: Readable, content_length: int
    ) -> Response:
        query = {"uploadId": upload, "uploadPartNum": number}
        return self._put(_upload(namespace, bucket, name), query, {}, body, content_length)

    def get_object(self, namespace: str, bucket: str, name: str, **headers: Any) -> Response:
        target = self._target(_object(namespace, bucket, name), {})
        signed = self._signer.signed("GET", target, self._server.host)
        answer = self._ask("GET", target, {**_words(headers), **signed})
        return Response(answer.status, answer.headers, Stream(answer))

    def head_object(self, namespace: str, bucket: str, name: str) -> Response:
        return self._whole("HEAD", _object(namespace, bucket, name), {}, {})

    def delete_object(self, namespace: str, bucket: str, name: str) -> Response:
        return self._whole("DELETE", _object(namespace, bucket, name), {}, {})

    def list_objects(self, namespace: str, bucket: str, **query: Any) -> Response:
        asked = {"startAfter" if name == "start_after" else name: value for name, value in query.items()}
        return self._whole("GET", f"{_bucket(namespace, bucket)}/o", asked, {})

    def batch_delete_objects(self, namespace: str, bucket: str, said: Mapping[str, Any]) -> Response:
        path = f"{_bucket(namespace, bucket)}/actions/batchDeleteObjects"
        return self._whole("POST", path, {}, {}, json.dumps(said).encode())

    def create_multipart_upload(self, namespace: str, bucket: str, said: Mapping[str, Any], **headers: Any) -> Response:
        return self._whole("POST", f"{_bucket(namespace, bucket)}/u", {}, headers, json.dumps(said).encode())

    def commit_multipart_upload(
        self, namespace: str, bucket: str, name: str, upload: str, said: Mapping[str, Any]
    ) -> Response:
        path = _upload(namespace, bucket, name)
        return self._whole("POST", path, {"uploadId": upload}, {}, json.dumps(said).encode())

    def abort_multipart_upload(self, namespace: str, bucket: str, name: str, upload: str) -> Response:
        return self._whole("DELETE", _upload(namespace, bucket, name), {"uploadId": upload}, {})

    def _put(
        self, path: str, query: Mapping[str, Any], headers: Mapping[str, Any], body: bytes | Readable, size: int
    ) -> Response:
        target = self._target(path, query)
        signed = self._signer.signed("PUT", target, self._server.host)
        length = str(len(body) if isinstance(body, bytes) else size)
        words = {"content-type": _BYTES, **_words(headers), "content-length": length}
        answer = self._ask("PUT", target, {**words, **signed}, body)
        answer.read()
        return Response(answer.status, answer.headers)


def object_storage(session: Session, endpoint: str | None) -> ObjectStorage:
    """The client as `workdir/oci_bucket.py` opens it."""
    return ObjectStorage(session, endpoint)


def _bucket(namespace: str, bucket: str) -> str:
    return f"/n/{_quoted(namespace)}/b/{_quoted(bucket)}"


def _object(namespace: str, bucket: str, name: str) -> str:
    return f"{_bucket(namespace, bucket)}/o/{_quoted(name)}"


def _upload(namespace: str, bucket: str, name: str) -> str:
    return f"{_bucket(namespace, bucket)}/u/{_quoted(name)}"


def _quoted(name: str) -> str:
    """One step of a path, whatever is in it."""
    quoted = quote(name, safe="")
    return quoted.replace(".", "%2E") if quoted in (".", "..") else quoted


def _words(settings: Mapping[str, Any]) -> dict[str, str]:
    """The SDK's names of settings as the names of headers."""
    words: dict[str, str] = {}
    for name, value in settings.items():
        if name == "opc_meta":
            words |= {f"opc-meta-{key}": text for key, text in value.items()}
        else:
            words[name.replace("_", "-")] = str(value)
    return words


def _said(content: bytes) -> Any:
    try:
        return json.loads(content) if content else None
    except ValueError:
        return None
