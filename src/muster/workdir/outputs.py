"""The outputs of all nodes of a run as one tree, and how they are brought to a folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ..errors import NotFound, StoreError
from .downloading import Download, alone_in
from .manifest import Manifest
from .names import node_order
from .parallel import at_once
from .parts import Wanted
from .progress import Progress, unseen
from .run import RunFolder
from .shipper import manifest_key
from .store import Store
from .walking import key_path


class Output(NamedTuple):
    """One file of the tree: which node gave it, its size, and its key in the work dir."""

    node: str
    size: int
    key: str


def outputs_tree(run: RunFolder) -> dict[str, Output]:
    """What the nodes gave, by path. One list request, and one get for each node if two gave the same path.

    A path that one node gave keeps its name. Where several gave it with the same content it stands there once;
    with different contents main's keeps the name, and the others stand below the name of their node.
    """
    outputs, nodes = _listed(run)
    if len({output.path for output in outputs}) == len(outputs):
        digests: Mapping[str, str] = {}
    else:
        digests = _digests(run, nodes)
    return _Tree(digests).of(outputs)


def fetch_outputs(run: RunFolder, to: Path, progress: Progress = unseen) -> Iterator[tuple[str, int]]:
    """Brings the tree into a folder; yields each path, as it is there, with the bytes that were fetched for it.

    Where the node has finished, a file that is already there with the same content is not fetched again, and one
    that arrives with another content than the node had is an error. Of a large file that was cut off only the rest
    is fetched.
    """
    outputs, nodes = _listed(run)
    digests = _digests(run, nodes)
    tags = {given.key: given.tag for given in outputs}
    paths: dict[Path, str] = {}
    wanted: list[Wanted] = []
    inside = _Inside(to)
    for path, output in sorted(_Tree(digests).of(outputs).items()):
        place = inside.place(path)
        paths[place] = path
        wanted.append(Wanted(output.key, output.size, place, digests.get(output.key, ""), tags[output.key]))
    if not wanted:
        return
    with alone_in(to):
        for one, size in Download(run.store, wanted, progress).run():
            yield paths[one.place], size


class _Inside:
    """The places in a folder, unless a link above them leads out of it. Each folder below is looked at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._root = os.path.realpath(folder).rstrip("/") + "/"
        self._known: set[Path] = set()

    def place(self, path: str) -> Path:
        place = self._folder / path
        if place.parent not in self._known:
            if not (os.path.realpath(place.parent).rstrip("/") + "/").startswith(self._root):
                fix = f"Take the link away that stands above {place}."
                raise StoreError(f"{place} leads out of {self._folder}", fix)
            self._known.add(place.parent)
        return place


def read_manifest(store: Store, key: str) -> Manifest | None:
    """A list of shipped files; None if there is none, or none that can be read."""
    try:
        return Manifest.from_json(json.loads(store.get(key)))
    except (NotFound, ValueError, TypeError, KeyError):
        return None


class _Given(NamedTuple):
    node: str
    path: str
    size: int
    key: str
    tag: str


class _Tree:
    """Finds a place for each file. Files are placed in the order of their nodes, main's first."""

    def __init__(self, digests: Mapping[str, str]) -> None:
        self._digests = digests
        self._files: dict[str, Output] = {}
        self._folders: set[str] = set()

    def of(self, outputs: list[_Given]) -> dict[str, Output]:
        by_path: dict[str, list[_Given]] = {}
        for given in outputs:
            by_path.setdefault(given.path, []).append(given)
        moved: list[_Given] = []
        for path, givers in by_path.items():
            different = self._different(sorted(givers, key=lambda given: node_order(given.node)))
            if (len(different) > 1 and different[0].node != "main") or not self._is_free(path):
                moved += different
            else:
                self._place(path, different[0])
                moved += different[1:]
        for given in moved:
            self._place(self._free(f"{given.node}/{given.path}", given.node), given)
        return self._files

    def _different(self, givers: list[_Given]) -> list[_Given]:
        """Those whose content none before them has. One whose digest is not known is different from all."""
        kept: dict[str, _Given] = {}
        for given in givers:
            kept.setdefault(self._digests.get(given.key, given.key), given)
        return list(kept.values())

    def _place(self, path: str, given: _Given) -> None:
        self._files[path] = Output(given.node, given.size, given.key)
        self._folders.update(_above(path))

    def _is_free(self, path: str) -> bool:
        return (
            path not in self._files and path not in self._folders and not any(up in self._files for up in _above(path))
        )

    def _free(self, path: str, node: str) -> str:
        while not self._is_free(path):
            path = f"{node}/{path}"
        return path


def _above(path: str) -> list[str]:
    names = path.split("/")
    return ["/".join(names[:depth]) for depth in range(1, len(names))]


def _listed(run: RunFolder) -> tuple[list[_Given], list[str]]:
    """All files, and the nodes that finished."""
    prefix = run.at("outputs/")
    outputs: list[_Given] = []
    finished: list[str] = []
    for entry in run.store.list(prefix):
        node, slash, path = entry.key[len(prefix) :].partition("/")
        if slash:
            outputs.append(_Given(node, path, entry.size, entry.key, entry.tag))
        elif node.endswith(suffix := manifest_key("")):
            finished.append(node.removesuffix(suffix))
    return sorted(outputs, key=lambda given: (node_order(given.node), given.path)), finished


def _digests(run: RunFolder, nodes: list[str]) -> dict[str, str]:
    """Of all files that a node vouches for. One get for each node, several at a time."""

    def read(node: str) -> tuple[str, Manifest | None]:
        prefix = run.at("outputs", node)
        return prefix, read_manifest(run.store, manifest_key(prefix))

    return {
        f"{prefix}/{key_path(entry.path)}": entry.sha256
        for prefix, manifest in at_once(run.store.capabilities.parallel, read, nodes)
        for entry in (manifest.files if manifest else ())
    }
