"""Brings checkpoints to the work dir: what is complete at once, and what is only written in place when it rests."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from ..errors import NotFound, StoreBusy, StoreError
from .checkpoints import Checkpoint, Complete, file_key, manifest_key, numbers_of, read_at, written
from .files import sha256_of
from .manifest import FileEntry, Manifest
from .parallel import at_once
from .shipper import Shipped, pause
from .store import Store
from .transfers import move_all
from .units import State, Unit, Units, pattern
from .walking import Found, Stamp, stamp_of

KEPT_VERSIONS = 2
"""Of a checkpoint that a script overwrites: the newest, and one more because the newest may be broken."""

WAITS = (0.3, 1.0)
"""Seconds that a new unit waits: it may be overwritten at once, and a file in a folder may prove to be a part of it."""

_UNFINISHED = (".tmp", ".partial", "_temp")


class CheckpointShipper:
    """Sends each unit when it is complete, and else each entry of the folder that is the same in two looks.

    Names that begin with a dot or end in `.tmp` or `.partial` are work under way, and never sent. What is overwritten
    becomes a new checkpoint, and only its newest versions are kept, the last complete one always among them.
    """

    def __init__(self, store: Store, prefix: str, units: Units, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._prefix, self._units, self._clock = store, prefix, units, clock
        self._kept: dict[int, Checkpoint] | None = None
        self._next = 1
        self._earlier: dict[tuple[str, int], int] = {}
        self._sent: dict[str, tuple[int, int]] = {}
        self._waiting: dict[str, float] = {}
        self._seen: dict[str, dict[str, Stamp]] = {}
        self._done: dict[str, dict[str, Stamp]] = {}
        self._due: dict[str, float] = {}
        """When what is written in place may be sent again."""
        self._digests: dict[str, tuple[Stamp, str]] = {}
        self._arrived: dict[str, str] = {}
        """The digests of the files of the next checkpoint that are there already, by their keys."""
        self._problems: list[StoreError] = []
        self._untidy: list[StoreError] = []
        """Because of these there is more at home than need be."""
        self._told: set[str] = set()
        self._in_place: list[str] = []
        # A round may still be under way in another thread when the last one begins.
        self._lock = threading.Lock()

    def ship_complete(self, last: bool = False) -> Shipped:
        """Sends the complete units that are new; with `last` also those that became so just now."""
        with self._trying():
            return self._send_units(self._units.state(), last)

    def ship(self) -> Shipped:
        """Sends these, and what was written in place and has come to rest."""
        with self._trying():
            return self._round(last=False)

    def finish(self) -> Shipped:
        """Sends all that is new: nobody writes any more. What may not be taken away there stays."""
        with self._trying(last=True):
            return self._round(last=True)

    def in_place(self) -> list[str]:
        """Files that were sent but are not known to be complete, one of each kind of name, each told once."""
        found, self._in_place = self._in_place, []
        return found

    def digest(self, found: Found) -> str:
        """Of a file's content; one that has not changed is not read again."""
        stamp, known = self._digests.get(found.path, (None, ""))
        if stamp != found.stamp:
            known = sha256_of(found.place)
            self._digests[found.path] = (found.stamp, known)
        return known

    def know(self, found: Found, digest: str) -> None:
        """A file that was fetched need not be read to know its content."""
        self._digests[found.path] = (found.stamp, digest)

    @contextmanager
    def _trying(self, last: bool = False) -> Iterator[None]:
        """One at a time. What the store refused keeps no other checkpoint back, and is told at the end."""
        with self._lock:
            self._problems, self._untidy = [], []
            yield
            for problem in [*self._problems, *([] if last else self._untidy)]:
                raise problem

    @contextmanager
    def _tidying(self) -> Iterator[None]:
        """What may not be taken away keeps nothing from home."""
        try:
            yield
        except StoreBusy:
            raise
        except StoreError as error:
            self._untidy.append(error)

    def _round(self, last: bool) -> Shipped:
        state = self._units.state()
        sent = self._send_units(state, last)
        entries: dict[str, list[Found]] = {}
        for path, found in sorted(state.files.items()):
            top = path.split("/", 1)[0]
            unfinished = any(name.endswith(_UNFINISHED) for name in path.split("/"))
            if path not in state.kept and not top.startswith(".") and not unfinished:
                entries.setdefault(top, []).append(found)
        # The oldest first, so that the highest number is the newest.
        for name, files in sorted(entries.items(), key=lambda item: max(one.stamp.mtime_ns for one in item[1])):
            stamps = {one.path: one.stamp for one in files}
            before, self._seen[name] = self._seen.get(name), stamps
            if stamps == self._done.get(name) or not (last or (before == stamps and self._is_due(name))):
                continue
            more, done = self._try(name, files, None)
            if done:
                self._done[name] = stamps
                self._due[name] = self._clock() + pause(self._store, more.bytes)
                self._tell(files[0].path)
            sent = _sum(sent, more)
        return Shipped(sent.files, sent.bytes, (*sent.left_out, *state.left_out))

    def _is_due(self, name: str) -> bool:
        """Only for what nothing goes on from. Where nodes write together, each must bring the same versions home."""
        return self._clock() >= self._due.get(name, -math.inf)

    def _send_units(self, state: State, last: bool = False) -> Shipped:
        sent = Shipped()
        self._demote(state.parts)
        for unit in sorted(state.units.values(), key=lambda unit: unit.at):
            number = unit.generation, unit.ordinal
            if unit.fetched or self._sent.get(unit.name) == number:
                continue
            # Since it was first there to be sent: one that is always overwritten must come home too.
            since = self._waiting.setdefault(unit.name, time.monotonic())
            if not last and time.monotonic() - since < WAITS["/" in unit.name and not unit.said]:
                continue
            files = [found for found in state.below(unit.name) if found.path in state.kept]
            more, done = self._try(unit.name, files, unit)
            if done:
                self._sent[unit.name] = number
                del self._waiting[unit.name]
            sent = _sum(sent, more)
        return sent

    def _demote(self, parts: Mapping[str, Unit]) -> None:
        """What proved to be a part of something that is written in place does not count as complete any more."""
        for unit in parts.values():
            if self._sent.get(unit.name) != (unit.generation, unit.ordinal):
                continue
            for number, one in self._known().items():
                if one.name == unit.name and one.complete and one.complete[1:] == self.version_of(unit):
                    self._known()[number] = one._replace(complete=None)
                    self._store.put(manifest_key(self._prefix, number), written(self._known()[number]))
            del self._sent[unit.name]

    def _try(self, name: str, files: list[Found], unit: Unit | None) -> tuple[Shipped, bool]:
        try:
            sent = self._send(name, files, unit)
        except OSError as error:
            return Shipped(0, 0, (f"{name}: {error.strerror}",)), False
        except StoreBusy:
            raise
        except StoreError as error:
            self._problems.append(error)
            return Shipped(), False
        return sent or Shipped(), sent is not None

    def _send(self, name: str, files: list[Found], unit: Unit | None) -> Shipped | None:
        """Sends one as the next checkpoint; None if it changed meanwhile, and so was not complete."""
        kept = self._known()
        versions = [checkpoint for _, checkpoint in sorted(kept.items()) if checkpoint.name == name]
        complete = Complete(unit.at, *self.version_of(unit)) if unit else None
        if complete and any(one.complete and one.complete[1:] == complete[1:] for one in versions):
            return Shipped()
        try:
            manifest = self._manifest(files)
            made = Checkpoint(self._next, name, manifest, complete)
            same = bool(versions) and versions[-1].manifest == manifest
            if same and complete is None:
                return Shipped()
            if same and versions[-1].complete is None:
                made = made._replace(number=versions[-1].number)  # it is there already, and now known to be complete
            else:
                same = False
                self._put_files(files)
        except (FileNotFoundError, NotFound):
            return None
        if any(stamp_of(one.place) != one.stamp for one in files):
            return None
        if unit and self._units.state().units.get(name) is not unit:
            return None
        self._store.put(manifest_key(self._prefix, made.number), written(made))
        kept[made.number] = made
        if same:
            return Shipped()
        self._next += 1
        with self._tidying():
            self._tidy(manifest, made.number)
            self._take_old_versions_away(name)
        return Shipped(len(files), manifest.bytes)

    def _manifest(self, files: list[Found]) -> Manifest:
        def entry(one: Found) -> FileEntry:
            return FileEntry(one.path, one.stamp.size, self.digest(one))

        entries = {entry.path: entry for entry in move_all(self._store, files, _size, entry)}
        return Manifest(tuple(entries[one.path] for one in files))

    def _put_files(self, files: list[Found]) -> None:
        """All of them, or an error. What an earlier attempt brought is not sent again."""

        def put(one: Found) -> None:
            key, digest = file_key(self._prefix, self._next, one.path), self.digest(one)
            if self._arrived.get(key) == digest:
                return
            self._arrived[key] = ""
            self._store.put_file(key, one.place)
            if stamp_of(one.place) == one.stamp:
                self._arrived[key] = digest

        for _ in move_all(self._store, files, _size, put):
            pass

    def _tidy(self, manifest: Manifest, number: int) -> None:
        """Takes away what an attempt for another checkpoint left under this number."""
        own = {file_key(self._prefix, number, entry.path) for entry in manifest.files}
        left, self._arrived = sorted(set(self._arrived) - own), {}
        if left:
            self._store.delete_all(left)

    def version_of(self, unit: Unit) -> tuple[int, int]:
        """The generation and the ordinal that the work dir knows it by."""
        earlier = 0 if unit.fetched else self._earlier.get((unit.name, unit.generation), 0)
        return unit.generation, unit.ordinal + earlier

    def _known(self) -> dict[int, Checkpoint]:
        """What is in the work dir, also from an earlier start of this node. Looked up once."""
        if self._kept is None:
            numbers = numbers_of(self._store, self._prefix)
            parallel = self._store.capabilities.parallel
            found = at_once(parallel, lambda number: read_at(self._store, self._prefix, number), numbers)
            self._kept = {checkpoint.number: checkpoint for checkpoint in found if checkpoint}
            self._next = max(numbers, default=0) + 1
            if not self._units.remembers:
                self._count_on(self._kept.values())
        return self._kept

    def _count_on(self, kept: Iterable[Checkpoint]) -> None:
        """A node that lost its folder goes on counting from what it had brought home."""
        for checkpoint in kept:
            if complete := checkpoint.complete:
                key = checkpoint.name, complete.generation
                self._earlier[key] = max(self._earlier.get(key, 0), complete.ordinal)

    def _take_old_versions_away(self, name: str) -> None:
        kept = self._known()
        versions = sorted(number for number, checkpoint in kept.items() if checkpoint.name == name)
        complete = [number for number in versions if kept[number].complete]
        for number in sorted({*versions} - {*versions[-KEPT_VERSIONS:], *complete[-1:]}):
            # First the manifest: what has one must be whole.
            self._store.delete(manifest_key(self._prefix, number))
            self._store.delete_all(file_key(self._prefix, number, entry.path) for entry in kept[number].manifest.files)
            del kept[number]

    def _tell(self, path: str) -> None:
        kind = pattern(path.split("/", 1)[0])
        if kind not in self._told:
            self._told.add(kind)
            self._in_place.append(path)


def _size(found: Found) -> int:
    return found.stamp.size


def _sum(one: Shipped, other: Shipped) -> Shipped:
    return Shipped(one.files + other.files, one.bytes + other.bytes, (*one.left_out, *other.left_out))
