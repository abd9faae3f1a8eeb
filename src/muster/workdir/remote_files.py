"""File systems as fsspec shows them, with the little that a store needs of each.

Paths are whole. Errors are those of the file system itself, but what is not there is always `FileNotFoundError`, and
what is there already `FileExistsError`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime
from typing import Any, BinaryIO, NamedTuple, Protocol

from .files import CHUNK


class Found(NamedTuple):
    """Something in a folder."""

    name: str
    is_folder: bool
    size: int = 0
    modified: float = 0.0
    tag: str = ""


class RemoteFiles(Protocol):
    """One connection to a file system. For one thread at a time."""

    def put(self, path: str, source: BinaryIO) -> None:
        """Puts what `source` gives, in place of whatever was there; folders are made as needed."""

    def create(self, path: str, source: BinaryIO) -> None:
        """Like `put`, but only where nothing was."""

    def read(self, path: str, start: int, size: int) -> bytes:
        """So much from `start` on, or what there is of it."""

    def copy(self, path: str, target: BinaryIO) -> None:
        """All the content, into `target`."""

    def children(self, folder: str) -> Iterator[Found]:
        """What stands in a folder; nothing if there is none."""

    def remove(self, path: str) -> None:
        """Takes a file away. Where there is none, or a folder, nothing happens."""

    def close(self) -> None:
        """Ends the connection."""


class AnyFiles:
    """A file system of which nothing is known but that fsspec knows it.

    What one writes is seen while it is written, and of two who create one file both may win. Folders that become empty
    stay, because not every file system refuses to remove one that is not.
    """

    def __init__(self, files: Any) -> None:
        self._files = files

    def put(self, path: str, source: BinaryIO) -> None:
        self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
        with self._files.open(path, "wb") as target:
            shutil.copyfileobj(source, target, CHUNK)
        self._files.invalidate_cache()
        # Some file systems that only read take what is written, and keep nothing.
        if not self._files.isfile(path) or self._files.size(path) != source.tell():
            raise NotImplementedError("it does not keep what is written")

    def create(self, path: str, source: BinaryIO) -> None:
        if self._files.exists(path):
            raise FileExistsError(path)
        self.put(path, source)

    def read(self, path: str, start: int, size: int) -> bytes:
        self._check_file(path)
        return bytes(self._files.cat_file(path, start=start, end=start + size))

    def copy(self, path: str, target: BinaryIO) -> None:
        self._check_file(path)
        with self._files.open(path, "rb") as source:
            shutil.copyfileobj(source, target, CHUNK)

    def children(self, folder: str) -> Iterator[Found]:
        self._files.invalidate_cache()
        try:
            found = self._files.ls(folder, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in found:
            above, _, name = str(entry["name"]).rstrip("/").rpartition("/")
            if name and above.rstrip("/").endswith(folder.strip("/")):
                is_folder = entry["type"] == "directory"
                yield Found(name, is_folder, entry.get("size") or 0, _modified(entry), _tag(entry))

    def remove(self, path: str) -> None:
        self._files.invalidate_cache()
        if self._files.isfile(path):
            try:
                self._files.rm_file(path)
            except FileNotFoundError:
                return

    def close(self) -> None:
        """Nothing that is known can be done."""

    def _check_file(self, path: str) -> None:
        self._files.invalidate_cache()
        if not self._files.isfile(path):
            raise FileNotFoundError(path)


class MemoryFiles(AnyFiles):
    """fsspec's own file system in memory, where content appears at once, and folders are where files are."""

    def put(self, path: str, source: BinaryIO) -> None:
        self._files.pipe_file(path, source.read())


def _modified(entry: dict[str, Any]) -> float:
    for name in ("mtime", "modified", "last_modified", "LastModified", "created"):
        found = entry.get(name)
        if isinstance(found, datetime):
            return found.timestamp()
        if isinstance(found, (int, float)):
            return float(found)
    return 0.0


def _tag(entry: dict[str, Any]) -> str:
    """Only what a file system itself calls so: a time in whole seconds does not change with each content."""
    return str(entry.get("ETag") or entry.get("etag") or "")
