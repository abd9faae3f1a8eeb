"""Lays out the archive of a bundle, and trusts nothing in it that the digest does not vouch for."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ..errors import CodeError
from . import tar
from .files import CHUNK
from .manifest import FileEntry, Manifest
from .packing import FILES, MANIFEST

_LARGEST_MANIFEST = 1 << 27


def unpack(archive: Path | bytes, digest: str, into: Path) -> Manifest:
    """Lays out a bundle as a new folder, all or nothing, if it is exactly what the digest stands for."""
    import gzip
    import io
    import zlib

    source = io.BytesIO(archive) if isinstance(archive, bytes) else archive.open("rb")
    try:
        with beside(into) as place, source, gzip.GzipFile(fileobj=source) as stream:
            place.mkdir()
            manifest = _lay_out(stream, digest, place)  # type: ignore[arg-type]
            place.rename(into)
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CodeError(
            f"the code {digest[:12]}… is damaged: {error}",
            "Launch the job again from a folder with the right code.",
        ) from error
    except OSError as error:
        raise CodeError(f"cannot lay out the code at {into}: {error.strerror}", "Name a new folder.") from error
    return manifest


def _lay_out(stream: BinaryIO, digest: str, place: Path) -> Manifest:
    found = tar.members(stream)
    manifest = _read_manifest(next(found, None), stream, digest)
    missing = {FILES + os.fsencode(entry.path): entry for entry in manifest.files}
    for member in found:
        entry = missing.pop(member.name, None)
        if entry is None:
            raise ValueError(f"it holds {os.fsdecode(member.name)!r}, which is not in its manifest, or twice")
        if member != tar.Member(member.name, entry.size, entry.executable, _link_bytes(entry)):
            raise ValueError(f"{entry.path!r} is not what its manifest says")
        if entry.link is None:
            _write(stream, entry, place / entry.path)
    if missing:
        raise ValueError(f"it lacks {next(iter(missing.values())).path!r}")
    # Last, so that no file can be written through a link, whatever the file system thinks of their names.
    for entry in manifest.files:
        if entry.link is not None:
            (place / entry.path).parent.mkdir(parents=True, exist_ok=True)
            (place / entry.path).symlink_to(entry.link)
    return manifest


def _link_bytes(entry: FileEntry) -> bytes | None:
    return None if entry.link is None else os.fsencode(entry.link)


def _read_manifest(member: tar.Member | None, stream: BinaryIO, digest: str) -> Manifest:
    import hashlib

    if member is None or member.name != MANIFEST or member.size > _LARGEST_MANIFEST:
        raise ValueError("it does not begin with its manifest")
    found = stream.read(member.size)
    if hashlib.sha256(found).hexdigest() != digest:
        raise ValueError("its manifest does not have this digest")
    try:
        return Manifest.from_json(json.loads(found))
    except (KeyError, TypeError) as error:
        raise ValueError(f"its manifest is wrong: {error}") from error


def _write(stream: BinaryIO, entry: FileEntry, path: Path) -> None:
    import hashlib

    path.parent.mkdir(parents=True, exist_ok=True)
    digest, left = hashlib.sha256(), entry.size
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o777 if entry.executable else 0o666)
    with os.fdopen(descriptor, "wb") as file:
        while left and (chunk := stream.read(min(CHUNK, left))):
            left -= len(chunk)
            digest.update(chunk)
            file.write(chunk)
    if left or digest.hexdigest() != entry.sha256:
        raise ValueError(f"{entry.path!r} does not have the content that its manifest says")


@contextmanager
def beside(into: Path) -> Iterator[Path]:
    """A name next to `into` for what is not finished; whatever stands there at the end is taken away."""
    try:
        into.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CodeError(f"cannot lay out the code at {into}: {error.strerror}", "Name another folder.") from error
    place = into.parent / f".muster-{os.urandom(8).hex()}"
    try:
        yield place
    finally:
        if place.is_dir():
            import shutil

            shutil.rmtree(place)
        place.unlink(missing_ok=True)
