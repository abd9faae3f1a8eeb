"""Checkpoints: each entry at the top of their folder is one, and goes to the work dir when it is complete.

They are kept as `<prefix>/<number>/files/…` with `manifest.json` last, so that one without it is not there yet.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..errors import NotFound, StoreError
from .files import sha256_of
from .manifest import FileEntry, Manifest
from .outputs import read_manifest
from .run import RunFolder
from .shipper import Shipped
from .store import Store
from .walking import Found, Stamp, key_path, look, stamp_of

KEPT_VERSIONS = 2
"""Of a checkpoint that a script overwrites: the newest, and one more because the newest may be broken."""

Stamps = tuple[tuple[str, Stamp], ...]

_UNFINISHED = (".tmp", ".partial")


class Checkpoint(NamedTuple):
    """One complete checkpoint in the work dir; the higher its number, the newer it is."""

    number: int
    name: str
    """The file or folder at the top of the checkpoint folder."""
    manifest: Manifest


class CheckpointShipper:
    """Sends an entry when it is the same in two looks, or when the script said that it is complete.

    Names that begin with a dot or end in `.tmp` or `.partial` are work under way, and never sent. An entry that
    is overwritten becomes a new checkpoint, and only its newest versions are kept.
    """

    def __init__(self, store: Store, prefix: str, folder: Path) -> None:
        self._store, self._prefix, self._folder = store, prefix, folder
        self._kept: dict[int, Checkpoint] | None = None
        self._next = 1
        self._seen: dict[str, Stamps] = {}
        self._done: dict[str, Stamps] = {}
        self._named: set[str] = set()
        # A round may still be under way in another thread when the last one begins.
        self._lock = threading.Lock()

    def complete(self, path: Path) -> bool:
        """Takes the script's word that an entry is complete; false if the path is not in the checkpoint folder.

        A path that is not absolute is looked for from the checkpoint folder and from those above it.
        """
        root = os.path.realpath(self._folder)
        for base in (Path(root), *Path(root).parents):
            place = os.path.realpath(base / path)
            if place.startswith(root + "/") and Path(place).exists():
                self._named.add(place[len(root) + 1 :].split("/", 1)[0])
                return True
        return False

    def ship(self) -> Shipped:
        """Looks, and sends what is complete and new."""
        with self._lock:
            return self._round(last=False)

    def finish(self) -> Shipped:
        """Sends all that is new: nobody writes any more."""
        with self._lock:
            return self._round(last=True)

    def _round(self, last: bool) -> Shipped:
        seen = look(self._folder)
        entries: dict[str, list[Found]] = {}
        for found in seen.files:
            entries.setdefault(found.path.split("/", 1)[0], []).append(found)
        files = size = 0
        # The oldest first, so that the highest number is the newest.
        for name, content in sorted(entries.items(), key=lambda item: max(one.stamp.mtime_ns for one in item[1])):
            stamps = tuple((one.path, one.stamp) for one in content)
            if not self._is_ready(name, stamps, last):
                continue
            try:
                sent = self._send(name, content)
            except OSError as error:
                seen.left_out.append(f"{name}: {error.strerror}")
                continue
            if sent is not None:
                self._done[name] = stamps
                self._named.discard(name)
                files, size = files + sent.files, size + sent.bytes
        return Shipped(files, size, tuple(seen.left_out))

    def _is_ready(self, name: str, stamps: Stamps, last: bool) -> bool:
        before = self._seen.get(name)
        self._seen[name] = stamps
        if name.startswith(".") or name.endswith(_UNFINISHED) or stamps == self._done.get(name):
            return False
        return last or name in self._named or before == stamps

    def _send(self, name: str, files: list[Found]) -> Shipped | None:
        """Sends one entry as the next checkpoint; None if it changed meanwhile, and so was not complete."""
        kept = self._known()
        try:
            manifest = Manifest(tuple(FileEntry(one.path, one.stamp.size, sha256_of(one.place)) for one in files))
            versions = [checkpoint for _, checkpoint in sorted(kept.items()) if checkpoint.name == name]
            if versions and versions[-1].manifest == manifest:
                return Shipped()
            for one in files:
                self._store.put_file(_file_key(self._prefix, self._next, one.path), one.place)
        except (FileNotFoundError, NotFound):
            return None
        if any(stamp_of(one.place) != one.stamp for one in files):
            return None
        self._store.put(_manifest_key(self._prefix, self._next), manifest.canonical())
        kept[self._next] = Checkpoint(self._next, name, manifest)
        self._next += 1
        self._take_old_versions_away(name)
        return Shipped(len(files), manifest.bytes)

    def _known(self) -> dict[int, Checkpoint]:
        """What is in the work dir, also from an earlier start of this node. Looked up once."""
        if self._kept is None:
            numbers = _numbers(self._store, self._prefix)
            found = (_checkpoint(self._store, self._prefix, number) for number in numbers)
            self._kept = {checkpoint.number: checkpoint for checkpoint in found if checkpoint}
            self._next = max(numbers, default=0) + 1
        return self._kept

    def _take_old_versions_away(self, name: str) -> None:
        kept = self._known()
        versions = sorted(number for number, checkpoint in kept.items() if checkpoint.name == name)
        for number in versions[:-KEPT_VERSIONS]:
            # First the manifest: what has one must be whole.
            self._store.delete(_manifest_key(self._prefix, number))
            for entry in kept.pop(number).manifest.files:
                self._store.delete(_file_key(self._prefix, number, entry.path))


def checkpoints(run: RunFolder, node: str) -> Iterator[Checkpoint]:
    """The complete checkpoints of a node, the newest first. One list request, and a get for each."""
    prefix = run.at("checkpoints", node)
    for number in reversed(_numbers(run.store, prefix)):
        if checkpoint := _checkpoint(run.store, prefix, number):
            yield checkpoint


def fetch_checkpoint(run: RunFolder, node: str, into: Path, *, over: bool = False) -> Checkpoint | None:
    """Lays out a node's newest checkpoint in a folder, all of it or nothing; None if there is none.

    One that turns out damaged is passed over for the one before. What already stands there under its name is
    left as it is: a node's own may be newer. With `over` another version makes place.
    """
    problem: StoreError | None = None
    for checkpoint in checkpoints(run, node):
        try:
            lay_out(run, node, checkpoint, into, over)
        except StoreError as error:
            problem = problem or error
        else:
            return checkpoint
    if problem:
        raise problem
    return None


def lay_out(run: RunFolder, node: str, checkpoint: Checkpoint, into: Path, over: bool = False) -> None:
    """Brings one checkpoint into a folder."""
    import shutil

    if (into / checkpoint.name).exists() and (not over or _stands(checkpoint, into)):
        return
    scratch = into / f".muster-{os.urandom(8).hex()}"
    prefix = run.at("checkpoints", node)
    try:
        for entry in checkpoint.manifest.files:
            key = _file_key(prefix, checkpoint.number, entry.path)
            run.store.get_file(key, scratch / entry.path)
            if sha256_of(scratch / entry.path) != entry.sha256:
                raise StoreError(f"{key!r} in the work dir {run.store.url} is damaged", "Use an older checkpoint.")
        _take_away(into / checkpoint.name)
        (scratch / checkpoint.name).rename(into / checkpoint.name)
    except OSError as error:
        raise StoreError(f"cannot lay out a checkpoint in {into}: {error.strerror}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _stands(checkpoint: Checkpoint, into: Path) -> bool:
    """Whether the checkpoint is there already, in just this version."""
    files = checkpoint.manifest.files
    return all((into / entry.path).is_file() and sha256_of(into / entry.path) == entry.sha256 for entry in files)


def _take_away(path: Path) -> None:
    """An older version makes place for the newer one."""
    import shutil

    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _checkpoint(store: Store, prefix: str, number: int) -> Checkpoint | None:
    manifest = read_manifest(store, _manifest_key(prefix, number))
    if not manifest or not manifest.files:
        return None
    return Checkpoint(number, manifest.files[0].path.split("/", 1)[0], manifest)


def _numbers(store: Store, prefix: str) -> list[int]:
    return sorted(int(name) for name in store.list_names(f"{prefix}/") if name.isdecimal())


def _manifest_key(prefix: str, number: int) -> str:
    return f"{prefix}/{number:06}/manifest.json"


def _file_key(prefix: str, number: int, path: str) -> str:
    return f"{prefix}/{number:06}/files/{key_path(path)}"
