"""A work dir on whatever else fsspec knows: an sftp server, HDFS, a share of Windows and many more.

A scheme that is our own reaches fsspec's file system as `fsspec+memory://…`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from ..errors import StoreError
from ..spec.problems import nearest
from .remote_files import AnyFiles, MemoryFiles, RemoteFiles
from .remote_store import PARALLEL, RemoteStore
from .store import Capabilities

POLL_SECONDS = 2.0
_PREFIX = "fsspec+"
_OURS = {"abfs": "az", "gcs": "gs", "local": "file", "ocilake": "oci", "s3a": "s3"}
"""Other names of what Muster reaches by itself, and better."""
_READ_ONLY = frozenset({"data", "gist", "git", "github", "http", "https", "libarchive", "tar", "zip"})
_WRAPPERS = frozenset(
    {
        "async_wrapper",
        "asyncwrapper",
        "blockcache",
        "cached",
        "dask",
        "dir",
        "filecache",
        "generic",
        "reference",
        "simplecache",
    }
)
_CHOOSE = "Choose a folder that every node can reach, a bucket (s3://, oci://, gs://, az://), or sftp://HOST/PATH."


def open_fsspec(url: str) -> RemoteStore:
    """The store of any other URL. Nobody is asked yet."""
    scheme, _, place = url.removeprefix(_PREFIX).partition("://")
    scheme, plain = scheme.lower(), f"{scheme.lower()}://{place.rstrip('/')}"
    _check(scheme, plain)
    kind = _kind(scheme)
    root = str(kind._strip_protocol(plain)).rstrip("/")
    if not root:
        raise StoreError(f"no path in {url}", f"Write {scheme}://HOST/PATH.")
    shown = f"{_PREFIX if url.startswith(_PREFIX) else ''}{plain}"
    connect, can = _ways(scheme, kind, kind._get_kwargs_from_urls(plain), root)
    return RemoteStore(shown, root, connect, can)


def _ways(
    scheme: str, kind: Any, settings: dict[str, Any], root: str
) -> tuple[Callable[[], RemoteFiles], Capabilities]:
    """How a connection is made, and what it promises."""
    can = partial(Capabilities, poll_seconds=POLL_SECONDS, parallel=PARALLEL)
    if scheme in ("sftp", "ssh"):
        from .sftp_files import SftpFiles, connect

        return lambda: SftpFiles(connect(**settings), root), can(atomic_create=True, whole_puts=True)
    if scheme == "memory":
        return lambda: MemoryFiles(kind(**settings)), can(atomic_create=False, whole_puts=True)
    return (
        lambda: AnyFiles(kind(**settings, skip_instance_cache=True)),
        can(atomic_create=False, whole_puts=False),
    )


def _check(scheme: str, url: str) -> None:
    place = urlsplit(url)
    if place.password:
        shown = url.replace(place.netloc, place.netloc.rpartition("@")[2])
        raise StoreError(
            f"there is a password in the work dir {shown}",
            "A work dir is written down in many places: leave the password out, and use a key of ~/.ssh or a login.",
        )
    if "?" in url:
        raise StoreError(f"work dirs on {scheme}:// have no settings: {url}", "Leave out what follows the '?'.")
    if scheme in _OURS:
        raise StoreError(f"no work dir is on {scheme}://", f"Write {_OURS[scheme]}://… for the same place.")
    if scheme in _READ_ONLY:
        raise StoreError(f"nobody can write to {scheme}://, so it is no place for a work dir", _CHOOSE)
    if scheme in _WRAPPERS:
        raise StoreError(f"{scheme}:// is no place but a way to another", _CHOOSE)


def _kind(scheme: str) -> Any:
    """fsspec's class for a scheme."""
    from fsspec.registry import get_filesystem_class, known_implementations

    try:
        return get_filesystem_class(scheme)
    except ValueError:
        guess = nearest(scheme, [*known_implementations, "s3", "gs", "az", "oci", "file"])
        told = f"Did you mean {guess}://? " if guess else ""
        raise StoreError(f"no kind of work dir is called {scheme}://", told + _CHOOSE) from None
    except ImportError as error:
        hint = known_implementations.get(scheme, {}).get("err") or f"what fsspec needs for {scheme}://"
        raise StoreError(
            f"work dirs on {scheme}:// need a package that is not installed: {error}", f"{hint}."
        ) from error
