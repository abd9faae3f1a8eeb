"""Which of the code in a work dir nobody needs any more."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..errors import CodeError, NotFound
from .code_contents import Contents
from .code_packs import PACKS
from .code_reading import BUNDLES, LATEST, SOURCES, is_digest, read_contents
from .parallel import at_once
from .store import Entry, Store


def unused_code(store: Store, keep: Collection[str], younger_than: float, now: float) -> list[Entry]:
    """Bundles that are neither in `keep` nor needed by one that is, packs that none of these needs, and pointers.

    What was written in the last `younger_than` seconds is left alone with all that it needs: a launcher may be at
    work, whose run is not there yet. It should be longer than any upload takes, such as a day.
    """
    entries = [entry for entry in store.list(BUNDLES) if _kind(entry)]
    young = {entry.key for entry in entries if entry.modified > now - younger_than}
    pointers = {entry.key: _pointed(store, entry) for entry in entries if _kind(entry) == "pointer"}
    bundles = {entry.key.removeprefix(BUNDLES) for entry in entries if _kind(entry) == "bundle"}
    roots = {*keep, *(key.removeprefix(BUNDLES) for key in young), *(pointers[key] for key in young & set(pointers))}
    needed = _needed(store, roots & bundles, entries)
    needed |= {key for key, digest in pointers.items() if BUNDLES + digest in needed}
    return [entry for entry in entries if entry.key not in needed | young]


def _kind(entry: Entry) -> str:
    """What an object is; empty for what is not ours to judge."""
    for prefix, kind in ((PACKS, "pack"), (LATEST, "pointer"), (SOURCES, "pointer")):
        if entry.key.startswith(prefix):
            return kind
    return "bundle" if is_digest(entry.key.removeprefix(BUNDLES)) else ""


def _pointed(store: Store, entry: Entry) -> str:
    try:
        return store.get(entry.key).decode("ascii", "replace")
    except NotFound:
        return ""


def _needed(store: Store, roots: Iterable[str], entries: Iterable[Entry]) -> set[str]:
    """The keys of these bundles and of all that they need. One that cannot be read may need any pack."""
    needed: set[str] = set()

    def read(digest: str) -> tuple[str, Contents | None]:
        try:
            return digest, read_contents(store, digest)
        except CodeError:
            return digest, None

    for digest, contents in at_once(store.capabilities.parallel, read, sorted(roots)):
        needed.add(BUNDLES + digest)
        if contents is None:
            needed |= {entry.key for entry in entries if _kind(entry) == "pack"}
            continue
        needed |= {PACKS + pack for pack in contents.packs}
        if contents.base:
            needed.add(BUNDLES + contents.base.manifest.digest)
    return needed
