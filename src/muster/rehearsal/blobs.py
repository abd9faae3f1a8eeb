"""The bytes of an object: in memory when few, else in a file of a temporary folder."""

from __future__ import annotations

import base64
import hashlib
import shutil
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from .messages import Body
from .stretch import STEP, Stretch

SMALL = 1 << 20


@dataclass(frozen=True)
class Blob:
    size: int
    md5: str
    """In base64, as the services give it."""
    memory: bytes = b""
    file: Path | None = None

    def content(self, start: int = 0, length: int | None = None) -> bytes | Stretch:
        """Some of it, or all."""
        length = self.size - start if length is None else length
        if self.file is None:
            return self.memory[start : start + length]
        with self.file.open("rb") as file:
            return Stretch(file.fileno(), start, length)

    def drop(self) -> None:
        """Lets the file go. Whoever reads it still can."""
        if self.file is not None:
            self.file.unlink(missing_ok=True)


class Blobs:
    """Where blobs are made."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, body: Body) -> Blob:
        """The blob of a body, which is written while it comes in."""
        start = body.read(SMALL + 1)
        digest = hashlib.md5(start, usedforsecurity=False)
        if len(start) <= SMALL:
            return Blob(len(start), _text(digest.digest()), memory=start)
        path = self._new()
        size = len(start)
        with path.open("wb") as file:
            file.write(start)
            while piece := body.read(STEP):
                digest.update(piece)
                size += file.write(piece)
        return Blob(size, _text(digest.digest()), file=path)

    def join(self, parts: Iterable[Blob]) -> Blob:
        """One blob of several, which are let go. Its digest is made of theirs, as the service's is."""
        path = self._new()
        digests, count = hashlib.md5(usedforsecurity=False), 0
        with path.open("wb") as file:
            for part in parts:
                digests.update(base64.b64decode(part.md5))
                count += 1
                _append(part, file)
                part.drop()
            size = file.tell()
        return Blob(size, f"{_text(digests.digest())}-{count}", file=path)

    def _new(self) -> Path:
        return self._folder / uuid.uuid4().hex


def _append(part: Blob, target: BinaryIO) -> None:
    if part.file is None:
        target.write(part.memory)
        return
    with part.file.open("rb") as source:
        shutil.copyfileobj(source, target, STEP)


def _text(digest: bytes) -> str:
    return base64.b64encode(digest).decode()
