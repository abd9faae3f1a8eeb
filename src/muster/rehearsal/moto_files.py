"""Large objects in moto without holding them in memory: their bytes stay in files until they are sent.

moto keeps an object over 5 MB in a file, yet reads all of it for every range that is asked for, and joins the parts
of an upload in memory, twice. With this in place a value that lies in a file is a `Stretch` of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from .stretch import Stretch


class Joined:
    """The parts of an upload, one after the other. Each is let go once it has been read."""

    def __init__(self, parts: list[Any]) -> None:
        self._parts = parts
        self._length: int = sum(part.contentsize for part in parts)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[bytes]:
        for part in self._parts:
            yield from pieces(part.value)
            part.dispose()


def pieces(value: bytes | Stretch | Joined) -> Iterable[bytes]:
    return (value,) if isinstance(value, (bytes, bytearray)) else value


@lru_cache(maxsize=1)
def keep_values_in_files() -> None:
    """Teaches this process's moto to do so."""
    from moto.s3.models import FakeKey, FakeMultipart

    for owner, name, ours in ((FakeKey, "value", property(_value, _set_value)), (FakeMultipart, "complete", _complete)):
        setattr(owner, name, ours)


def _value(key: Any) -> bytes | Stretch:
    with key.lock:
        buffer = key._value_buffer
        buffer.seek(0)
        if not buffer._rolled:
            return bytes(buffer.read())
        buffer.flush()
        return Stretch(buffer.fileno(), 0, key.contentsize)


def _set_value(key: Any, value: bytes | Stretch | Joined) -> None:
    buffer = key._value_buffer
    buffer.seek(0)
    buffer.truncate()
    if len(value) > key._max_buffer_size:
        buffer.rollover()
    size = 0
    for piece in pieces(value):
        buffer.write(piece)
        size += len(piece)
    key.contentsize = size


def _complete(multipart: Any, body: Iterator[tuple[int, str]]) -> tuple[Joined, str, tuple[str, str, int] | None]:
    parts = _chosen(multipart, list(body))
    digests = b"".join(bytes.fromhex(part.etag.strip('"')) for part in parts)
    etag = f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(parts)}"
    checksum = _checksum(multipart, parts)
    # The key must not offer parts that are let go as they are joined.
    multipart.parts = {}
    return Joined(parts), etag, checksum


def _chosen(multipart: Any, wanted: list[tuple[int, str]]) -> list[Any]:
    from moto import settings
    from moto.s3.exceptions import EntityTooSmall, InvalidPart, MalformedXML

    if not wanted:
        raise MalformedXML
    parts = [multipart.parts.get(number) for number, _ in wanted]
    found = [part.etag.strip('"') if part else None for part in parts]
    if found != [etag.strip('"') for _, etag in wanted]:
        raise InvalidPart()
    if any(part.contentsize < settings.S3_UPLOAD_PART_MIN_SIZE for part in parts[:-1]):
        raise EntityTooSmall()
    return parts


def _checksum(multipart: Any, parts: list[Any]) -> tuple[str, str, int] | None:
    """The checksum of the whole, where the upload named an algorithm."""
    from moto.s3.models import MultipartChecksumBuilder

    algorithm = multipart.metadata.get("x-amz-checksum-algorithm")
    if not algorithm:
        return None
    builder = MultipartChecksumBuilder(algorithm, multipart.metadata.get("x-amz-checksum-type"))
    for part in parts:
        builder.addPart(bytes(part.value))
    found: tuple[str, str, int] | None = builder.build()
    return found
