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
from .sources import BUCKETS as BUCKETS
from .sources import HELP, Fault, git_fault, is_remote, repository, web_fault, without_login
from .sources import is_git as is_git

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
    """A path, or a URL with one of these schemes. Code may also be fetched from elsewhere, or lie in the image."""

    schemes: tuple[str, ...] = ()
    rarer: tuple[str, ...] = ()
    """Taken as well, but too many to list in a message."""
    code: bool = False

    @property
    def expected(self) -> str:
        urls = [f"{scheme}://" for scheme in self.schemes]
        urls += ["https://host/code.zip", "git+https://host/name.git#commit", "image:/path"] if self.code else []
        return " or ".join(["a path", ", ".join(urls)] if urls else ["a path"])

    def read(self, node: Node, path: str, problems: Problems) -> str | Wrong:
        text = Text(self.expected).read(node, path, problems)
        if isinstance(text, Wrong):
            return text
        fault = self._fault(text)
        if fault is None:
            return text
        expected = f"expected {self.expected}, found {shortened(without_login(text))!r}"
        problems.add(path, fault.message or expected, fault.fix)
        return WRONG

    def _fault(self, text: str) -> Fault | None:
        """What is wrong with a location that is not taken; None for one that is."""
        if self.code and is_git(text):
            return git_fault(text)
        url = _URL.match(text)
        if not url:
            return None
        scheme, slashes, rest = url.groups()
        if self.code and scheme in ("https", "http"):
            return web_fault(text)
        if self.code and scheme == "image":
            return None if slashes == "/" and rest else Fault(HELP)
        known = (*self.schemes, *self.rarer)
        if not known:
            return Fault("Name a file on this machine.")
        if scheme not in known:
            fetched = ("https", "http", "git+https", "git+ssh") if self.code else ()
            return Fault(suggestion(f"{scheme}://", [f"{name}://" for name in (*known, *fetched)]))
        if scheme == "file" and (slashes != "//" or not rest.startswith("/")):
            return Fault("Write file:///absolute/path, with three slashes.")
        if slashes != "//" or (scheme in BUCKETS and rest[:1] in ("", "/")):
            return Fault(f"Write {scheme}://bucket/folder, with two slashes and the bucket's name.")
        return None

    def schema(self) -> dict[str, Any]:
        taken = [f"{scheme}://" for scheme in (*self.schemes, *self.rarer)]
        fetched = r"https?://[^?#]+\.(?:git|py|zip|tar|tgz|tar\.gz|tar\.bz2|tar\.xz)(?:[?#]|$)"
        taken += ["image:/[^/]", r"git\+[^-]", "ssh://.", fetched] if self.code else []
        path = "(?![A-Za-z][A-Za-z0-9+.-]+:/)"
        return {"type": "string", "minLength": 1, "pattern": f"^(?:{'|'.join([*taken, path])})"}


def resolved_code(text: str, folder: Path) -> str:
    """Code with its path on this machine made absolute, where it has one."""
    place, ref = repository(text)
    if not is_git(text) or is_remote(place):
        return str(local_path(text, folder) or text)
    return f"git+{absolute(place, folder)}" + ("" if ref is None else f"#{ref}")


def local_path(text: str, folder: Path) -> Path | None:
    """The absolute path that a location on this machine means; None for one that is elsewhere."""
    if text.startswith("file:///"):
        from urllib.parse import unquote

        text = unquote(text.removeprefix("file://"))
    elif _URL.match(text) or (is_git(text) and is_remote(text)):
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
