"""The list of the files of a code bundle, as a value with a digest that stands for all of them."""

from __future__ import annotations

import builtins
import json
from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

VERSION = 1


@dataclass(frozen=True)
class FileEntry:
    """One file, or one symbolic link (then `link` is its target, and the rest is empty)."""

    path: str
    size: int = 0
    sha256: str = ""
    executable: bool = False
    link: str | None = None

    def to_json(self) -> dict[str, Any]:
        if self.link is not None:
            return {"path": self.path, "link": self.link}
        return {"path": self.path, "size": self.size, "sha256": self.sha256, "executable": self.executable}


@dataclass(frozen=True)
class Manifest:
    """All files of a bundle, in the order of their paths."""

    files: tuple[FileEntry, ...]

    @cached_property
    def digest(self) -> str:
        """Stands for the content of the whole bundle: two equal ones are the same code."""
        import hashlib

        return hashlib.sha256(self.canonical()).hexdigest()

    @property
    def bytes(self) -> int:
        return sum(entry.size for entry in self.files)

    def canonical(self, **more: Any) -> builtins.bytes:
        """The one way to write this manifest. ASCII, so that a name of any bytes can be written.

        `more` is what else its kind says, such as a checkpoint's name; `from_json` passes it over.
        """
        value = {"version": VERSION, "files": [entry.to_json() for entry in self.files], **more}
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Manifest:
        """Reads what `canonical` wrote; `ValueError` if it names a place outside the bundle, or one twice."""
        if value["version"] != VERSION:
            raise ValueError(f"a manifest of version {value['version']}, expected {VERSION}")
        manifest = cls(tuple(FileEntry(**entry) for entry in value["files"]))
        manifest.check()
        return manifest

    def check(self) -> None:
        """`ValueError` if it names a place outside the bundle, or one twice."""
        paths = {entry.path for entry in self.files}
        if len(paths) < len(self.files):
            raise ValueError("a file is listed twice")
        for entry in self.files:
            _check(entry, paths)


def is_inside(path: str) -> bool:
    """Whether a path names a place below the folder it is relative to."""
    return bool(path) and "\0" not in path and not {"", ".", ".."} & set(path.split("/"))


def stays_inside(path: str, target: str) -> bool:
    """Whether a link at `path` can lead nowhere but into the folder.

    `..` is allowed only at the front: behind another name it could stand behind a link to a higher folder,
    and then lead further up than it seems.
    """
    names = target.split("/")
    climbs = 0
    while climbs < len(names) and names[climbs] == "..":
        climbs += 1
    safe = target and "\0" not in target and not target.startswith("/") and ".." not in names[climbs:]
    return bool(safe) and climbs <= path.count("/")


def _check(entry: FileEntry, paths: Container[str]) -> None:
    if not is_inside(entry.path) or entry.size < 0:
        raise ValueError(f"not a file of a bundle: {entry.path!r}")
    if entry.link is not None and not stays_inside(entry.path, entry.link):
        raise ValueError(f"the link {entry.path!r} leads out of the bundle: {entry.link!r}")
    above = entry.path.split("/")[:-1]
    if any("/".join(above[:depth]) in paths for depth in range(1, len(above) + 1)):
        raise ValueError(f"{entry.path!r} stands below something that is no folder")
