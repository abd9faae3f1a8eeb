"""Code on its way to the nodes: packed once per content, kept under its digest, checked on arrival.

A bundle is a `.tar.gz` that holds its own manifest first and the files after it, so that the digest of the
manifest, which travels apart from the work dir, is all that is needed to trust the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ..errors import AlreadyExists, CodeError, NotFound
from .document import CodeRef
from .manifest import FileEntry, Manifest
from .packing import pack, write_packed
from .run import RunFolder
from .scan import scan
from .store import Store
from .unpacking import beside, unpack

__all__ = [
    "CodeRef",
    "FileEntry",
    "Manifest",
    "code_key",
    "fetch_code",
    "pack",
    "scan",
    "store_code",
    "unpack",
]

_IN_MEMORY = 1 << 25


def code_key(digest: str) -> str:
    """Where a work dir keeps a bundle, for all runs that use it."""
    if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise CodeError(f"not the digest of a bundle: {digest!r}", "Expected 64 hexadecimal digits.")
    return f"code/{digest}.tar.gz"


def store_code(
    store: Store,
    folder: Path,
    run: RunFolder | None = None,
    *,
    expected: str | None = None,
    ignore: Iterable[str] = (),
) -> CodeRef:
    """Puts a folder's bundle into the work dir, if it is not there yet, and says which it is.

    A run, if given, keeps the list of files; `expected` is the digest that a plan promised.
    """
    manifest = scan(folder, ignore)
    if expected not in (None, manifest.digest):
        raise CodeError(f"the code at {folder} has changed since the plan was made", "Plan and launch again.")
    if run:
        run.write_code(manifest)
    code = CodeRef(manifest.digest, len(manifest.files), manifest.bytes)
    key = code_key(code.digest)
    if any(entry.key == key for entry in store.list(key)):
        return code
    with suppress(AlreadyExists):  # another launcher brought the same code in the meantime
        if code.bytes <= _IN_MEMORY:
            chunks: list[bytes] = []
            write_packed(folder, manifest, chunks.append)
            store.create(key, b"".join(chunks))
        else:
            _store_large(store, key, folder, manifest)
    return code


def fetch_code(store: Store, digest: str, into: Path) -> Manifest:
    """Lays out the code of a digest as a new folder."""
    key = code_key(digest)
    with beside(into) as archive:
        try:
            store.get_file(key, archive)
        except NotFound:
            raise CodeError(
                f"the code {digest[:12]}… is not in the work dir {store.url}",
                "Launch the job again, which brings it.",
            ) from None
        return unpack(archive, digest, into)


def _store_large(store: Store, key: str, folder: Path, manifest: Manifest) -> None:
    # Not create-only, for that takes bytes in memory. Whoever else puts this key puts the same files.
    import tempfile

    with tempfile.TemporaryDirectory(prefix="muster-code-") as scratch:
        archive = Path(scratch) / "bundle.tar.gz"
        pack(folder, manifest, archive)
        store.put_file(key, archive)
