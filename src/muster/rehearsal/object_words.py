"""The words of Oracle's object storage: headers, names, conditions, ranges, and the errors it answers with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .buckets import Bucket, Condition, Stored, moment
from .listing import Wanted
from .messages import Answer
from .routing import Call, Refusal

KEPT = ("content-type", "content-language", "content-encoding", "content-disposition", "cache-control")
KEY = "opc-sse-kms-key-id"
RANGE = re.compile(r"bytes=(\d*)-(\d*)")
BUCKET = "/n/{namespace}/b/{bucket}"


def no_bucket(name: str, namespace: str) -> Refusal:
    """Also for who may not: the service does not tell them apart."""
    return Refusal(
        404,
        "BucketNotFound",
        f"Either the bucket named '{name}' does not exist in the namespace '{namespace}' "
        "or you are not authorized to access it",
    )


def concurrent(name: str) -> Refusal:
    return Refusal(409, "ConcurrentObjectUpdate", f"The object '{name}' was being modified concurrently. Retry")


def checked_name(name: str) -> str:
    """The name, if an object can have it."""
    if re.search("[\n\r\0]", name) or len(name.encode()) > 1024:
        raise Refusal(400, "InvalidObjectName", "The object name is not valid")
    return name


def condition(call: Call) -> Condition:
    """What a write depends on."""
    none = call.header("if-none-match")
    if none not in (None, "*"):
        raise Refusal(400, "InvalidIfNoneMatch", "If-None-Match must be * in a write")
    return Condition(call.header("if-match"), none)


def kept_headers(call: Call, bucket: Bucket) -> dict[str, str]:
    """What a writer says of an object and a reader is told again."""
    given = call.request.headers
    kept = {name: given[name] for name in KEPT if name in given}
    kept |= {name: value for name, value in given.items() if name.startswith("opc-meta-")}
    return {**kept, **encryption(call, bucket)}


def encryption(call: Call, bucket: Bucket) -> dict[str, str]:
    """The key that an object is encrypted with: the request's own, or else the bucket's."""
    key = call.header(KEY) or bucket.details.get("kmsKeyId")
    return {KEY: str(key)} if key else {}


def written(stored: Stored) -> dict[str, str]:
    """What a writer is told."""
    told = {"etag": stored.etag, "last-modified": stored.last_modified, "version-id": stored.etag}
    return told | ({KEY: stored.headers[KEY]} if KEY in stored.headers else {})


def described(stored: Stored) -> dict[str, str]:
    """What a reader is told."""
    joined = "-" in stored.blob.md5
    return {
        "content-type": "application/octet-stream",
        "accept-ranges": "bytes",
        "storage-tier": "Standard",
        "opc-multipart-md5" if joined else "content-md5": stored.blob.md5,
        **written(stored),
        **stored.headers,
    }


def not_wanted(call: Call, stored: Stored) -> Answer | None:
    """The answer to a reader whose condition is not met."""
    match, none = call.header("if-match"), call.header("if-none-match")
    if match is not None and match not in ("*", stored.etag):
        raise Refusal(412, "IfMatchFailed", "the object's etag is not the one of If-Match")
    return Answer(304, b"", written(stored)) if none in ("*", stored.etag) else None


def asked_range(said: str | None, size: int) -> tuple[int, int] | None:
    """From where to where; None for all of it."""
    match = RANGE.fullmatch(said or "")
    if match is None or match[0] == "bytes=-":
        return None
    first, last = match.groups()
    start = int(first) if first else max(0, size - int(last))
    stop = min(size, int(last) + 1) if first and last else size
    if start >= stop:
        raise Refusal(416, "InvalidRange", f"the object has {size} bytes, and {said} was asked for")
    return start, stop


def asked_list(query: Mapping[str, str]) -> Wanted:
    limit = query.get("limit", "1000")
    if not limit.isdigit() or not 1 <= int(limit) <= 1000:
        raise Refusal(400, "InvalidParameter", "limit must be from 1 to 1000")
    if query.get("delimiter", "/") not in ("/", ""):
        raise Refusal(400, "InvalidParameter", "the delimiter can only be /")
    if query.get("start") and query.get("startAfter"):
        raise Refusal(400, "InvalidParameter", "start and startAfter cannot both be given")
    return Wanted(
        query.get("prefix", ""),
        query.get("start", ""),
        query.get("startAfter", ""),
        query.get("end"),
        int(limit),
        query.get("delimiter", ""),
    )


def row(name: str, stored: Stored, fields: set[str]) -> dict[str, Any]:
    """An object in a list."""
    whole = {
        "name": name,
        "size": stored.blob.size,
        "etag": stored.etag,
        "md5": stored.blob.md5,
        "timeCreated": moment(stored.created),
        "timeModified": moment(stored.modified),
        "storageTier": "Standard",
        "archivalState": None,
    }
    if unknown := fields - set(whole):
        raise Refusal(400, "InvalidParameter", f"there are no fields {', '.join(sorted(unknown))}")
    return {key: value for key, value in whole.items() if key in fields or key == "name"}
