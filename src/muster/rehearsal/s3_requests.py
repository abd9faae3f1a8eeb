"""What a request to S3 is: which kind, which bucket, which key."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from .messages import Request


@dataclass(frozen=True)
class Asked:
    """A request in the words of S3. A list's key is its prefix."""

    kind: str
    bucket: str
    key: str
    conditional: bool = False
    """A write that a precondition can refuse."""


def asked(request: Request) -> Asked:
    """Reads a request in the path style: `/bucket/key`."""
    bucket, _, key = request.path.lstrip("/").partition("/")
    query = request.query if "?" in request.target else {}
    kind = _of_key(request, query) if key else _of_bucket(request.method, query)
    name = unquote(key) if key else query.get("prefix", "")
    condition = "if-none-match" in request.headers or "if-match" in request.headers
    return Asked(kind, bucket, name, condition and kind in ("put", "complete"))


def _of_key(request: Request, query: dict[str, str]) -> str:
    if request.method == "POST":
        return "multipart-create" if "uploads" in query else "complete" if "uploadId" in query else "other"
    if "uploadId" in query:
        return {"PUT": "part", "DELETE": "abort"}.get(request.method, "other")
    if any(word in query for word in ("acl", "tagging", "retention", "legal-hold", "attributes")):
        return "other"
    return {"PUT": "put", "GET": "get", "HEAD": "head", "DELETE": "delete"}.get(request.method, "other")


def _of_bucket(method: str, query: dict[str, str]) -> str:
    if method == "POST" and "delete" in query:
        return "delete"
    named = {"list-type", "prefix", "delimiter", "marker", "max-keys", "start-after", "encoding-type"}
    return "list" if method == "GET" and (named & set(query)) else "other"
