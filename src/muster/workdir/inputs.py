"""Inputs from elsewhere, laid out on a node before its script starts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from ..errors import CodeError, NotFound, StoreError
from ..spec.units import size_text
from .addresses import split_object
from .input_cache import InputCache
from .opening import open_store
from .patience import Patience, Say
from .store import Entry, Store, check_key
from .transfers import move_all

T = TypeVar("T")


class Share(NamedTuple):
    """Which of the computing nodes this one is, and how many there are."""

    number: int
    of: int


class Object(NamedTuple):
    """One file to lay out: its path below the input, and how it is had."""

    path: str
    size: int
    tag: str
    bring: Callable[[Path], None]


def check_input(name: str, source: str) -> None:
    """An error for an input that can never be laid out from here. Asks nobody else."""
    if is_web(source):
        return
    if "://" in source:
        open_store(source)
    elif not Path(source).exists():
        raise CodeError(
            f"inputs: {name}: {source} is not there", "Give the path of a file or folder of this machine, or a URL."
        )


def lay_out(name: str, source: str, place: Path, share: Share | None, say: Say) -> None:
    """Brings an input to `place`, from what this machine has of it and the rest from where it is."""
    if "://" not in source:
        _link_local(Path(source).absolute(), place, share)
        return
    objects = _shared(_found(source, say), share)
    cache = InputCache(source if share is None else f"{source} {share.number}/{share.of}")
    with cache.held():
        missing = [one for one in objects if not cache.has(one.path, one.tag)]
        cache.forget(keep={one.path for one in objects} - {one.path for one in missing})
        _check_room(name, cache, sum(one.size for one in missing))
        _fetch(name, cache, missing, source, say)
        _lay_out(objects, cache, place)


def _lay_out(objects: Sequence[Object], cache: InputCache, place: Path) -> None:
    arriving = place.with_name(f".muster-{os.urandom(8).hex()}")
    try:
        for one in objects:
            _link(cache.place(one.path), arriving / one.path if one.path else arriving)
        if not objects:
            arriving.mkdir(parents=True)
        arriving.rename(place)
    finally:
        if arriving.is_dir():
            shutil.rmtree(arriving)


def _link_local(source: Path, place: Path, share: Share | None) -> None:
    """What is on this machine is not copied."""
    if share is None or not source.is_dir():
        place.symlink_to(source)
        return
    place.mkdir()
    for entry in _shared([*open_store(str(source)).list()], share):
        (place / entry.key).parent.mkdir(parents=True, exist_ok=True)
        (place / entry.key).symlink_to(source / entry.key)


def _shared(found: Sequence[T], share: Share | None) -> list[T]:
    return [one for number, one in enumerate(found) if share is None or number % share.of == share.number]


def is_web(source: str) -> bool:
    return source.startswith(("https://", "http://"))


def _found(source: str, say: Say) -> list[Object]:
    """The files of an input, in order: those below it, or it alone."""
    if is_web(source):
        return [_web(source, say)]
    store = open_store(source)
    below = [_stored(store, entry) for entry in store.list()]
    if below:
        return _as_files(below, source)
    folder, key = split_object(source)
    above = open_store(folder)
    for entry in above.list(key):
        if entry.key == key:
            return [_stored(above, entry)._replace(path="")]
    raise NotFound(f"inputs: there is nothing at {source}", "See that the place is right, and that you may list it.")


def _as_files(objects: list[Object], source: str) -> list[Object]:
    """The objects, if files can stand where they do: none at a place where another needs a folder, none outside."""
    paths = {check_key(one.path) for one in objects}
    for path in paths:
        names = path.split("/")
        for depth in range(1, len(names)):
            if (above := "/".join(names[:depth])) in paths:
                raise StoreError(
                    f"inputs: {source} has an object {above!r} and one below it, {path!r}",
                    "No disk can hold both. Name a part of it that has not.",
                )
    return objects


def _stored(store: Store, entry: Entry) -> Object:
    return Object(entry.key, entry.size, entry.tag, lambda to: store.get_file(entry.key, to))


def _web(source: str, say: Say) -> Object:
    """A download. It is known again only by a checksum behind its #: nothing else says what it will be."""
    url, _, mark = source.partition("#")
    digest = mark.removeprefix("sha256=").lower()

    def bring(to: Path) -> None:
        from .download import download

        got = download(url, to, say, bounded=False)
        if digest and got != digest:
            raise CodeError(f"{url} is not the file that the job wants: its sha256 is {got}", "See who changed it.")

    return Object("", 0, digest, bring)


def _fetch(name: str, cache: InputCache, missing: Sequence[Object], source: str, say: Say) -> None:
    patience = Patience(say, f"fetching input {name}")
    total, done = sum(one.size for one in missing), 0

    def fetch(one: Object) -> int:
        cache.fetch(one.path, one.tag, one.bring)
        return one.size

    if is_web(source):
        fetched: Iterable[int] = map(fetch, missing)
    else:
        fetched = move_all(open_store(source), missing, lambda one: one.size, fetch)
    for size in fetched:
        done += size
        patience.look(f"{size_text(done)} of {size_text(total)}")


def _check_room(name: str, cache: InputCache, size: int) -> None:
    if missing := cache.make_room(size):
        raise StoreError(
            f"inputs: {name} needs {size_text(size)} more, and the disk has {size_text(missing)} too little",
            "Give the node a larger disk, or set MUSTER_HOME to one; `shard: true` gives each node only its share.",
        )


def _link(source: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, place)
    except OSError:
        shutil.copyfile(source, place)
