"""Checkpoints in the work dir, each under its node.

They are kept as `<node>/<number>/files/…` with `manifest.json` last, so that one without it is not there yet. The
manifest says whether it was complete, when, and in which generation: `settling.py` lays out no other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import NotFound, StoreError
from .downloading import Damaged, Download, alone_in, has_content
from .files import sha256_of
from .manifest import FileEntry, Manifest, is_inside
from .parts import PARTIAL, Wanted
from .progress import Progress, unseen
from .run import RunFolder
from .store import Store
from .walking import key_path


class Complete(NamedTuple):
    """When a checkpoint became complete, in seconds since the epoch, and in which generation for which time."""

    at: float
    generation: int
    ordinal: int


class Checkpoint(NamedTuple):
    """One checkpoint in the work dir; of a node's, the higher its number, the newer it is."""

    number: int
    name: str
    """The path of the file or folder below the checkpoint folder."""
    manifest: Manifest
    complete: Complete | None = None
    """None if it was written in place, so that nobody knows whether it is whole."""


def checkpoints(run: RunFolder, node: str) -> Iterator[Checkpoint]:
    """The checkpoints of a node, the newest first. One list request, and a get for each."""
    prefix = run.at("checkpoints", node)
    for number in reversed(numbers_of(run.store, prefix)):
        if checkpoint := read_at(run.store, prefix, number):
            yield checkpoint


def read_checkpoint(run: RunFolder, node: str, number: int) -> Checkpoint | None:
    """One checkpoint of a node."""
    return read_at(run.store, run.at("checkpoints", node), number)


def listed(run: RunFolder) -> dict[str, list[int]]:
    """The numbers of the checkpoints of every node, the newest first. One list request."""
    prefix = run.at("checkpoints/")
    found: dict[str, list[int]] = {}
    for entry in run.store.list(prefix):
        node, _, rest = entry.key[len(prefix) :].partition("/")
        number, _, file = rest.partition("/")
        if file == "manifest.json" and number.isdecimal():
            found.setdefault(node, []).insert(0, int(number))
    return found


def fetch_checkpoint(
    run: RunFolder, node: str, into: Path, *, over: bool = False, progress: Progress = unseen
) -> Checkpoint | None:
    """Lays out a node's newest checkpoint in a folder, all of it or nothing; None if there is none.

    One that is not known to be complete comes after all that are. One that turns out damaged is passed over for the
    one before. What already stands there under its name is left as it is; with `over` another version makes place.
    Whoever was cut off goes on where it stopped.
    """
    problem: StoreError | None = None
    for checkpoint in sorted(checkpoints(run, node), key=lambda one: one.complete is None):
        try:
            lay_out(run, node, checkpoint, into, over, progress)
        except (Damaged, NotFound) as error:
            problem = problem or error
        else:
            return checkpoint
    if problem:
        raise problem
    return None


def lay_out(
    run: RunFolder, node: str, checkpoint: Checkpoint, into: Path, over: bool = False, progress: Progress = unseen
) -> None:
    """Brings one checkpoint into a folder."""
    import shutil

    place = into / checkpoint.name
    if place.exists() and (not over or _stands(checkpoint, into)):
        return
    with alone_in(into):
        scratch = _scratch(run, node, checkpoint, into)
        try:
            _bring(run, node, checkpoint, scratch, progress)
            _take_away(place)
            place.parent.mkdir(parents=True, exist_ok=True)
            (scratch / checkpoint.name).rename(place)
        except OSError as error:
            raise StoreError(f"cannot lay out a checkpoint in {into}: {error.strerror}") from error
        except (Damaged, NotFound):
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        shutil.rmtree(scratch, ignore_errors=True)


def _scratch(run: RunFolder, node: str, checkpoint: Checkpoint, into: Path) -> Path:
    """Where its files gather: the same place again after a cut. What was left of another is taken away."""
    import hashlib
    import shutil

    which = f"{run.store.url} {run.run} {node} {checkpoint.number} {checkpoint.manifest.digest}"
    scratch = into / f"{PARTIAL}{hashlib.sha256(which.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"
    for left in into.glob(f"{PARTIAL}*"):
        if left != scratch:
            shutil.rmtree(left, ignore_errors=True)
    return scratch


def _bring(run: RunFolder, node: str, checkpoint: Checkpoint, scratch: Path, progress: Progress) -> None:
    prefix = run.at("checkpoints", node)
    wanted = [
        Wanted(file_key(prefix, checkpoint.number, entry.path), entry.size, scratch / entry.path, entry.sha256)
        for entry in checkpoint.manifest.files
    ]
    for _ in Download(run.store, wanted, progress).run():
        pass


def fetch_file(run: RunFolder, node: str, number: int, entry: FileEntry, place: Path) -> None:
    """Brings one file of a checkpoint, if it is what its manifest says."""
    key = file_key(run.at("checkpoints", node), number, entry.path)
    run.store.get_file(key, place)
    if sha256_of(place) != entry.sha256:
        raise Damaged(f"{key!r} in the work dir {run.store.url} is damaged", "Use an older checkpoint.")


def _take_away(path: Path) -> None:
    """An older version makes place for the newer one."""
    import shutil

    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _stands(checkpoint: Checkpoint, into: Path) -> bool:
    """Whether the checkpoint is there already, in just this version."""
    return all(has_content(into / entry.path, entry.size, entry.sha256) for entry in checkpoint.manifest.files)


def written(checkpoint: Checkpoint) -> bytes:
    """Its manifest as it is kept."""
    more: dict[str, Any] = {"name": checkpoint.name}
    if checkpoint.complete:
        more["complete"] = checkpoint.complete._asdict()
    return checkpoint.manifest.canonical(**more)


def read_at(store: Store, prefix: str, number: int) -> Checkpoint | None:
    """What `written` made; None if it is not there, or cannot be read."""
    try:
        value = json.loads(store.get(manifest_key(prefix, number)))
        return _read(number, value)
    except (NotFound, ValueError, TypeError, KeyError):
        return None


def _read(number: int, value: Mapping[str, Any]) -> Checkpoint | None:
    """One that was written before manifests said so is not known to be complete."""
    manifest = Manifest.from_json(value)
    if not manifest.files:
        return None
    name = str(value.get("name") or manifest.files[0].path.split("/", 1)[0])
    if not is_inside(name) or not all(f"{entry.path}/".startswith(f"{name}/") for entry in manifest.files):
        raise ValueError(f"a file that is not of the checkpoint {name!r}")
    said = value.get("complete")
    complete = Complete(float(said["at"]), int(said["generation"]), int(said["ordinal"])) if said else None
    return Checkpoint(number, name, manifest, complete)


def numbers_of(store: Store, prefix: str) -> list[int]:
    """Of all checkpoints of a node, also of those that have no manifest yet. One list request."""
    return sorted(int(name) for name in store.list_names(f"{prefix}/") if name.isdecimal())


def manifest_key(prefix: str, number: int) -> str:
    return f"{prefix}/{number:06}/manifest.json"


def file_key(prefix: str, number: int, path: str) -> str:
    return f"{prefix}/{number:06}/files/{key_path(path)}"
