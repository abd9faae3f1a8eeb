"""Code on its way to the nodes: each piece of it sent once, kept under its digest, checked on arrival.

A bundle is one object that lists the files of some code and says where their pieces are: in the bundle itself where
they are few, else in packs that bundles share. The digest of the list, which travels apart from the work dir, is all
that is needed to trust the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..errors import CodeError
from .code_reading import NoSuchCode, code_key, read_contents
from .code_unused import unused_code
from .code_upload import packs_there, point_to, upload
from .document import CodeRef
from .manifest import FileEntry, Manifest
from .progress import Progress, unseen
from .scan import scan
from .store import Store
from .unpacking import copy_code, lay_out

__all__ = [
    "CodeRef",
    "FileEntry",
    "Manifest",
    "code_key",
    "copy_code",
    "fetch_code",
    "read_code",
    "scan",
    "store_code",
    "unused_code",
]


def store_code(
    store: Store,
    folder: Path,
    job: str = "",
    *,
    expected: str | None = None,
    ignore: Iterable[str] = (),
    progress: Progress = unseen,
) -> CodeRef:
    """Puts a folder's bundle into the work dir, if it is not there yet, and says which it is.

    Of what the job of this name brought the last time nothing is sent again. `expected` is the digest that a plan
    promised.
    """
    manifest = scan(folder, ignore)
    if expected not in (None, manifest.digest):
        raise CodeError(f"the code at {folder} has changed since the plan was made", "Plan and launch again.")
    if not _is_there(store, manifest.digest):
        upload(store, folder, manifest, job, progress)
    point_to(store, manifest, job)
    return CodeRef(manifest.digest, len(manifest.files), manifest.bytes)


def fetch_code(store: Store, digest: str, into: Path, progress: Progress = unseen) -> Manifest:
    """Lays out the code of a digest as a new folder, all or nothing."""
    contents = read_contents(store, digest)
    lay_out(store, contents, into, progress)
    return contents.manifest


def read_code(store: Store, digest: str) -> Manifest:
    """The files of the code of a digest, without their content."""
    return read_contents(store, digest).manifest


def _is_there(store: Store, digest: str) -> bool:
    """Whether the work dir has the code, with all that it needs. One that is not whole is taken away."""
    try:
        contents = read_contents(store, digest)
    except NoSuchCode:
        return False
    except CodeError:
        pass
    else:
        if not contents.packs or set(contents.packs) <= set(packs_there(store)):
            return True
    store.delete(code_key(digest))
    return False
