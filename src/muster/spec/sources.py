"""Code that comes from elsewhere: a git repository, an archive or one script at a URL."""

from __future__ import annotations

import re
from typing import NamedTuple

from .nodes import shortened

BUCKETS = ("s3", "oci", "gs", "az")
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
"""Names of files that are unpacked. What one really is shows its content."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_HOST = r"(?:[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?"
_USER = r"[A-Za-z0-9_.][A-Za-z0-9_.+-]*@"
_WEB = re.compile(rf"https?://{_HOST}/[^\s#]+")
_REMOTE = re.compile(
    rf"https?://{_HOST}/\S+|ssh://(?:{_USER})?{_HOST}/\S+|file:///[^\n]+|{_USER}(?!-)[A-Za-z0-9._-]+:(?!-)\S+"
)
"""Repositories that are no path. Nothing in them can be taken for an option, nor for a helper that git would start."""
_REF = re.compile(r"(?![-/.])(?!.*(?:\.\.|//|@\{|\.lock$|[/.]$))[^\s~^:?*\[\\\x00-\x20\x7f]+")
_SHA256 = re.compile(r"sha256=[0-9A-Fa-f]{64}")
_TAG = re.compile(r"(.*)#tag=([0-9a-f]{64})", re.DOTALL)
_LOGIN = re.compile(r"https?://[^/?#]*@|ssh://[^/@]*:[^/@]*@")
_KEY = re.compile(r"\?(?:.*[&;])?[^=&;]*(?:sig|signature|token|secret|password|credential|key)=", re.IGNORECASE)

HELP = (
    "Write git+https://host/name.git#commit for git, https://host/code.zip for an archive,"
    " or image:/path for code that lies in the image."
)
_GIT_HELP = "Write git+https://host/name.git, git+ssh://git@host/name, git+file:///path or git+path, then #commit."
_REF_HELP = "Write the name of a branch or tag, or a commit, behind the #."
_SHA256_HELP = "Behind the # of a download stands nothing but sha256= and the 64 digits that `sha256sum` prints."
_LOGIN_HELP = "Take it out; git's own credential helper, or ssh, gives it to git at launch."
_KEY_HELP = "Download it yourself and name the file: what a job file says is written down in many places."


class Fault(NamedTuple):
    """What mends a location, and what is wrong where that is more than that the setting does not take it."""

    fix: str
    message: str = ""


class Source(NamedTuple):
    """Where code has to be fetched from."""

    kind: str
    """`git`, `web`, `bucket`, or `file` for an archive on this machine."""
    place: str
    mark: str | None = None
    """In git the commit, branch or tag (None: the default branch); of a download the sha256 that it must have; in a
    bucket the tag of what a launch saw there."""


def code_source(text: str) -> Source | None:
    """Where code has to be fetched from; None where it lies on this machine, or in the image, as it is needed."""
    if is_git(text):
        return Source("git", *repository(text))
    scheme = _SCHEME.match(text)
    if scheme is None:
        return Source("file", text) if text.lower().endswith(ARCHIVES) else None
    if scheme[1] in ("https", "http"):
        place, _, mark = text.partition("#")
        return Source("web", place, mark.removeprefix("sha256=").lower() or None)
    if scheme[1] not in BUCKETS:
        return None
    # As a launch pins it; any other # is part of the name.
    pinned = _TAG.fullmatch(text)
    return Source("bucket", pinned[1], pinned[2]) if pinned else Source("bucket", text)


def is_git(text: str) -> bool:
    """Whether code comes from a git repository: `git+URL#commit`, `https://….git#commit`, `ssh://…` or `git@…`."""
    if text.startswith(("https://", "http://")):
        return text.partition("#")[0].endswith(".git")
    return text.startswith(("git+", "ssh://")) or re.match(r"git@[^:/]+:", text) is not None


def repository(text: str) -> tuple[str, str | None]:
    """The repository that a location in git names, and the commit, branch or tag in it."""
    whole = text.removeprefix("git+")
    # A URL has no other #, but the name of a branch may have one, and so may a path.
    place, mark, ref = whole.partition("#") if is_remote(whole) else whole.rpartition("#")
    return (place, ref) if mark else (whole, None)


def is_remote(place: str) -> bool:
    """Whether a repository is no path of this machine."""
    return "://" in place or re.match(r"[^/]+@[^/]+:", place) is not None


def script_name(text: str) -> str | None:
    """The name of the script that a URL names; None where it names something else."""
    name = re.split("[?#]", text)[0].rpartition("/")[2]
    return name if name.endswith(".py") and re.match("https?://", text) else None


def git_fault(text: str) -> Fault | None:
    """What is wrong with code in git; None if it can be asked for."""
    place, ref = repository(text)
    if _LOGIN.match(place):
        return Fault(_LOGIN_HELP, f"{shortened(without_login(text))!r} has a name or password in it")
    known = _REMOTE.fullmatch(place) if is_remote(place) else place and "::" not in place and place[0] != "-"
    if not known:
        return Fault(_GIT_HELP)
    if ref is not None and not _REF.fullmatch(ref):
        return Fault(_REF_HELP, f"{shortened(ref)!r} is no branch, tag or commit")
    return None


def web_fault(text: str) -> Fault | None:
    """What is wrong with code at `https://…`; None if it can be asked for."""
    place, mark, digest = text.partition("#")
    if _LOGIN.match(place) or _KEY.search(place):
        return Fault(_KEY_HELP, f"{shortened(without_login(text))!r} has a name, password or key in it")
    if not _WEB.fullmatch(place) or not (script_name(place) or place.partition("?")[0].lower().endswith(ARCHIVES)):
        return Fault(HELP)
    if mark and not _SHA256.fullmatch(digest):
        return Fault(_SHA256_HELP, f"{shortened(digest)!r} is no checksum")
    return None


def without_login(text: str) -> str:
    """A text as it may be shown: what can be a name, a password or a key in its URLs is left out."""
    return re.sub(r"(://[^\s?]*\?)[^\s#]*", r"\1…", re.sub(r"(?<=://)\S*@", "…@", text))
