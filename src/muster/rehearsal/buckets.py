"""Buckets and their objects: names in order, changes one at a time, conditions checked in the same step."""

from __future__ import annotations

import threading
import time
import uuid
from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import formatdate
from typing import Any

from .blobs import Blob
from .listing import Page, Wanted, page
from .routing import Refusal
from .stretch import Stretch


@dataclass(frozen=True)
class Stored:
    """One object. `headers` are those that its writer gave and its reader gets back."""

    blob: Blob
    headers: Mapping[str, str]
    created: float
    modified: float
    etag: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def last_modified(self) -> str:
        return formatdate(self.modified, usegmt=True)


@dataclass
class Upload:
    """Parts on their way to be one object."""

    name: str
    headers: Mapping[str, str]
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    created: float = field(default_factory=time.time)
    parts: dict[int, tuple[str, Blob]] = field(default_factory=dict)
    """By number: the etag and the bytes."""


@dataclass(frozen=True)
class Condition:
    """What must be true of an object for a request to go on."""

    if_match: str | None = None
    if_none_match: str | None = None

    def check(self, found: Stored | None) -> None:
        if self.if_none_match == "*" and found is not None:
            raise Refusal(412, "IfNoneMatchFailed", "the object exists, and If-None-Match: * was given")
        if self.if_match is not None and (found is None or self.if_match not in ("*", found.etag)):
            raise Refusal(412, "IfMatchFailed", "the object's etag is not the one of If-Match")


class Bucket:
    """The objects of one bucket."""

    def __init__(self, name: str, details: Mapping[str, Any]) -> None:
        self.name = name
        self.details = details
        self.created = time.time()
        self.etag = str(uuid.uuid4())
        self.lock = threading.RLock()
        self.uploads: dict[str, Upload] = {}
        self._objects: dict[str, Stored] = {}
        self._names: list[str] = []

    def find(self, name: str) -> Stored | None:
        return self._objects.get(name)

    def get(self, name: str) -> Stored:
        found = self._objects.get(name)
        if found is None:
            raise Refusal(404, "ObjectNotFound", f"The object '{name}' was not found in the bucket '{self.name}'")
        return found

    def read(self, name: str) -> tuple[Stored, bytes | Stretch]:
        """An object and its bytes, which a later change cannot disturb."""
        with self.lock:
            found = self.get(name)
            return found, found.blob.content()

    def put(self, name: str, blob: Blob, headers: Mapping[str, str], condition: Condition) -> Stored:
        """Keeps a blob under this name, or lets it go where the condition is not met."""
        now = time.time()
        with self.lock:
            before = self._objects.get(name)
            try:
                condition.check(before)
            except Refusal:
                blob.drop()
                raise
            stored = Stored(blob, headers, before.created if before else now, now)
            self._objects[name] = stored
            if before is None:
                insort(self._names, name)
        if before is not None:
            before.blob.drop()
        return stored

    def delete(self, name: str, condition: Condition) -> Stored:
        with self.lock:
            found = self.get(name)
            condition.check(found)
            del self._objects[name]
            del self._names[bisect_left(self._names, name)]
        found.blob.drop()
        return found

    def page(self, wanted: Wanted) -> tuple[Page, dict[str, Stored]]:
        """A page of the list, and the objects on it."""
        with self.lock:
            found = page(self._names, wanted)
            return found, {name: self._objects[name] for name in found.names}

    def __len__(self) -> int:
        return len(self._names)


def moment(seconds: float) -> str:
    """A time as the services write it."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
