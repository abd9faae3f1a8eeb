"""Makes the archive of a bundle: its manifest first, then its files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from ..errors import CodeError
from . import tar
from .files import CHUNK, appearing, write_all
from .manifest import FileEntry, Manifest
from .scan import changed

MANIFEST = b"manifest.json"
FILES = b"files/"
"""The files stand below a name of their own, so that none of them can be taken for the manifest."""


def pack(folder: Path, manifest: Manifest, out: Path) -> None:
    """Writes the bundle of a scanned folder. The same files always give the same bytes."""
    with appearing(out) as descriptor:
        write_packed(folder, manifest, lambda chunk: write_all(descriptor, chunk))


def write_packed(folder: Path, manifest: Manifest, write: Callable[[bytes], object]) -> None:
    """Like `pack`, piece by piece to wherever `write` brings it."""
    import zlib

    # The least effort: code is small, and a slow launch is felt more than a few bytes. zlib's own gzip header
    # has neither time nor name.
    squeeze = zlib.compressobj(1, zlib.DEFLATED, 31)
    for chunk in _plain(folder, manifest):
        write(squeeze.compress(chunk))
    write(squeeze.flush())


def _plain(folder: Path, manifest: Manifest) -> Iterator[bytes]:
    listed = manifest.canonical()
    yield tar.header(tar.Member(MANIFEST, len(listed))) + listed + tar.padding(len(listed))
    for entry in manifest.files:
        if entry.size > tar.MAX_SIZE:
            raise CodeError(
                f"{folder / entry.path} is too large for a bundle", "Bring data along as `inputs` of the job."
            )
        link = None if entry.link is None else os.fsencode(entry.link)
        yield tar.header(tar.Member(FILES + os.fsencode(entry.path), entry.size, entry.executable, link))
        if link is None:
            yield from _content(folder if folder.is_file() else folder / entry.path, entry)
            yield tar.padding(entry.size)
    yield tar.end()


def _content(place: Path, entry: FileEntry) -> Iterator[bytes]:
    """A file's bytes, which must be those that were scanned."""
    import hashlib

    digest, left = hashlib.sha256(), entry.size
    try:
        with place.open("rb", buffering=0) as file:
            while chunk := file.read(min(CHUNK, left + 1)):
                left -= len(chunk)
                if left < 0:
                    raise changed(place)
                digest.update(chunk)
                yield chunk
    except OSError as error:
        raise CodeError(f"cannot read {place}: {error.strerror}") from error
    if digest.hexdigest() != entry.sha256:
        raise changed(place)
