"""Where things are: paths and URLs, and which kinds of URL a setting takes."""

from __future__ import annotations

import os.path
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .kinds import WRONG, Rule, Shown, Text, Wrong
from .nodes import Node, shortened
from .problems import Problems, suggestion

BUCKETS = ("s3", "oci", "gs", "az")
FSSPEC = (
    "abfs",
    "abfss",
    "adl",
    "dbfs",
    "gcs",
    "hdfs",
    "hf",
    "r2",
    "s3a",
    "sftp",
    "smb",
    "ssh",
    "webdav",
    "webhdfs",
)
"""Writable stores that fsspec commonly has a back end for."""

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(/{1,2})(.*)", re.DOTALL)
_GIT = re.compile(r"(?:https|ssh)://[^/]+/.+|git@[^:/]+:.+")

_CODE_HELP = "Write https://host/name.git#commit for git, or image:/path for code that lies in the image."

INNER = Text(
    rule=Rule(
        r"(?!/|~)(?!(?:.*/)?\.\.(?:/|$))[^\n]+",
        "a path inside the code folder, neither absolute nor with '..'",
        lambda text: text.rstrip("/").rpartition("/")[2],
    )
)
"""A path that cannot lead out of the folder it is taken in."""


@dataclass(frozen=True)
class Location(Shown):
    """A path, or a URL with one of these schemes. Code may also come from git or lie in the image."""

    schemes: tuple[str, ...] = ()
    rarer: tuple[str, ...] = ()
    """Taken as well, but too many to list in a message."""
    code: bool = False

    @property
    def expected(self) -> str:
        urls = [f"{scheme}://" for scheme in self.schemes]
        urls += ["a git URL (https://host/name.git#commit)", "image:/path"] if self.code else []
        return " or ".join(["a path", ", ".join(urls)] if urls else ["a path"])

    def read(self, node: Node, path: str, problems: Problems) -> str | Wrong:
        text = Text(self.expected).read(node, path, problems)
        if isinstance(text, Wrong):
            return text
        fix = self._fault(text)
        if fix is None:
            return text
        problems.add(path, f"expected {self.expected}, found {shortened(text)!r}", fix)
        return WRONG

    def _fault(self, text: str) -> str | None:
        """What mends a location that is not taken; None for one that is."""
        url = _URL.match(text)
        if not url:
            return None
        scheme, slashes, rest = url.groups()
        if self.code and scheme in ("image", "https", "ssh"):
            fits = is_git(text) or (scheme == "image" and slashes == "/" and bool(rest))
            return None if fits else _CODE_HELP
        known = (*self.schemes, *self.rarer)
        if not known:
            return "Name a file on this machine."
        if scheme not in known:
            return suggestion(f"{scheme}://", [f"{name}://" for name in known])
        if scheme == "file" and (slashes != "//" or not rest.startswith("/")):
            return "Write file:///absolute/path, with three slashes."
        if slashes != "//" or (scheme in BUCKETS and rest[:1] in ("", "/")):
            return f"Write {scheme}://bucket/folder, with two slashes and the bucket's name."
        return None

    def schema(self) -> dict[str, Any]:
        taken = [f"{scheme}://" for scheme in (*self.schemes, *self.rarer)]
        taken += [r"image:/[^/]", r"https://.+\.git(?:#.+)?$", "ssh://."] if self.code else []
        path = "(?![A-Za-z][A-Za-z0-9+.-]+:/)"
        return {"type": "string", "minLength": 1, "pattern": f"^(?:{'|'.join([*taken, path])})"}


def is_git(text: str) -> bool:
    """Whether code comes from a git repository: `https://….git#commit`, `ssh://…` or `git@…`."""
    if not _GIT.fullmatch(text):
        return False
    return not text.startswith("https://") or text.partition("#")[0].endswith(".git")


def local_path(text: str, folder: Path) -> Path | None:
    """The absolute path that a location on this machine means; None for one that is elsewhere."""
    if text.startswith("file:///"):
        from urllib.parse import unquote

        text = unquote(text.removeprefix("file://"))
    elif _URL.match(text) or _GIT.fullmatch(text):
        return None
    return absolute(text, folder)


def absolute(text: str, folder: Path) -> Path:
    """A path as a file of `folder` says it: `~` is the home folder, and links are left as they are."""
    path = Path(text)
    try:
        path = path.expanduser()
    except RuntimeError:
        pass  # there is no such user; the check of the path says so
    return Path(os.path.normpath(folder.absolute() / path))
