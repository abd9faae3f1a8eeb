"""From the URL of a work dir to its store. A store's module is imported only when its kind is opened."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from ..errors import StoreError
from .store import Store


class Kind(NamedTuple):
    """One kind of work dir: what opens it, as `module:function`, and what must be installed for it."""

    opener: str
    install: str = ""


KINDS: dict[str, Kind] = {
    "": Kind("muster.workdir.opening:open_path"),
    "file": Kind("muster.workdir.opening:open_file_url"),
    "memory": Kind("muster.workdir.opening:open_memory"),
    "s3": Kind("muster.workdir.obstore_bucket:open_s3", "pip install 'musterpoint[aws]'"),
    "gs": Kind("muster.workdir.obstore_bucket:open_gs", "pip install 'musterpoint[gcp]'"),
    "az": Kind("muster.workdir.obstore_bucket:open_az", "pip install 'musterpoint[azure]'"),
    "oci": Kind("muster.workdir.oci_bucket:open_oci", "pip install 'musterpoint[oci]'"),
}
"""By scheme; the empty scheme is a plain path."""

OTHERS = Kind("muster.workdir.fsspec_store:open_fsspec", "pip install 'musterpoint[fsspec]'")
"""Whatever else fsspec knows."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def open_store(url: str) -> Store:
    """The store of a work dir: a path (`~` is the home folder), or the URL of a bucket or of what else fsspec knows.

    Opening makes nothing and asks nothing of the other side.
    """
    if not url:
        raise StoreError("the work dir is empty", "Name a folder, such as ~/muster-runs.")
    found = _SCHEME.match(url)
    scheme = found.group(1).lower() if found else ""
    return _opened(KINDS.get(scheme, OTHERS), url)


def open_path(path: str) -> Store:
    """A plain path, from the current folder if it is not absolute."""
    from .folder import FolderStore

    if "\0" in path:
        raise StoreError(f"not a path: {path!r}", "A path holds no NUL character.")
    try:
        return FolderStore(Path(path).expanduser())
    except RuntimeError as error:
        raise StoreError(f"cannot tell whose home folder is meant: {path}", "Write the path in full.") from error


def open_file_url(url: str) -> Store:
    """`file:///a%20path`. Only percent signs are special: `#` and `?` are part of the path."""
    from urllib.parse import unquote

    host, slash, path = url.partition("://")[2].partition("/")
    if not slash or host not in ("", "localhost"):
        raise StoreError(f"not a path on this machine: {url}", "Write file:///path, with three slashes.")
    from .folder import FolderStore

    return FolderStore(Path("/" + unquote(path, errors="surrogateescape")))


def open_memory(url: str) -> Store:
    """`memory://NAME`: for the life of this process only."""
    from .memory import MemoryStore

    name = url.partition("://")[2]
    if not name:
        raise StoreError(f"a work dir in memory needs a name: {url}", "Write memory://NAME.")
    return MemoryStore.named(name)


def _opened(kind: Kind, url: str) -> Store:
    module, _, function = kind.opener.partition(":")
    try:
        store: Store = getattr(import_module(module), function)(url)
    except ImportError as error:
        raise StoreError(f"cannot open {url}: {error}", kind.install) from error
    return store
