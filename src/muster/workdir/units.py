"""What in a checkpoint folder is complete, and in exactly which state.

A unit is a file or folder, at any depth, that was renamed into place or that the script named. It is complete as long
as its files are as they were then: one that is written to, taken away or added makes it incomplete until it is renamed
or named again. What was renamed into a complete folder since is complete too, and takes nothing from it.
"""

from __future__ import annotations

import os
import re
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .ledger import Ledger
from .walking import Found, Stamp, look

SCRATCH = ".muster-"
"""How names of our own begin that are in a checkpoint folder for a moment."""
_UNDER_WAY = (".tmp", ".partial", "_temp")
"""How names end that say so; the last is where TensorFlow gathers the parts of a checkpoint."""

Stamps = Mapping[str, Stamp]


class Heard(NamedTuple):
    """Something happened to a path below the folder; '' is the folder itself."""

    path: str
    renamed: bool
    """Else it was made or written to."""
    sure: bool = True
    """False where it was concluded from times, and so may be told more than once."""


@dataclass
class Unit:
    """One file or folder, and the files that it was complete with, by their paths below the checkpoint folder."""

    name: str
    files: dict[str, Stamp]
    at: float
    """When it became complete, in seconds since the epoch."""
    generation: int
    ordinal: int
    """Counts how often this name became complete in this generation: nodes that write together are matched by it."""
    said: bool = False
    """The script named it, and so knows that it is all there is to it."""
    fetched: bool = False
    """It came from the work dir."""


@dataclass
class State:
    """What stands in the folder at one moment."""

    files: dict[str, Found] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    seen: bool = True
    """False if the folder or a part of it could not be read, so that nothing follows from what was not found."""
    units: dict[str, Unit] = field(default_factory=dict)
    """Those that are complete as they stand."""
    parts: dict[str, Unit] = field(default_factory=dict)
    """Those that would be, but for the folder around them, which is written in place."""
    kept: set[str] = field(default_factory=set)
    """The files that may stay when processes start: those of complete units, and those that were there before any."""

    def below(self, name: str) -> list[Found]:
        """The files of a unit."""
        return [found for path, found in self.files.items() if path == name or path.startswith(f"{name}/")]

    def loose(self) -> list[str]:
        """The files that may be half-written."""
        return [path for path in self.files if path not in self.kept]


class Units:
    """Keeps what is complete, also on disk, so that a node that starts again in this folder knows it."""

    def __init__(
        self, folder: Path, ledger: Path, heard: Callable[[], Iterable[Heard]] = tuple, own: bool = True
    ) -> None:
        """`heard` tells what happened since it was last asked; see `node/renames.py`.

        In a folder that is not the node's own there may be others' things: only what was heard of is ours.
        """
        self.folder, self.own, self._ledger, self._heard = folder, own, Ledger(ledger), heard
        # Whoever listens has a thread of its own.
        self.lock = threading.RLock()
        self.generation = 1
        self.written: set[str] = set()
        """What was heard of, in a folder that is not the node's own."""
        self.remembers = False
        """This is not the first start in this folder."""
        self._units: dict[str, Unit] = {}
        self._given: dict[str, Stamp] = {}
        self.given_folders: set[str] = set()
        self._counts: dict[tuple[str, int], int] = {}
        self._named: set[tuple[str, float]] = set()
        self._unsure: set[str] = set()
        """Units of which only times have told so far; the word of the rename itself may still come."""
        self._spoiled = 0
        self._begin()

    # --- what happens ------------------------------------------------------------------------------------

    def notice(self) -> bool:
        """Takes in what happened; true if something became complete."""
        with self.lock:
            fresh = False
            # Once more after a rename: another of the same name may have come before we looked. Not for ever, because
            # some scripts do nothing else.
            for _ in range(_ROUNDS):
                heard = list(self._heard())
                fresh = self._take_in(heard) or fresh
                if not any(one.renamed and one.sure for one in heard):
                    break
            return fresh

    def _take_in(self, heard: list[Heard]) -> bool:
        state: State | None = None
        fresh = False
        for place, (path, renamed, sure) in enumerate(heard):
            if not self.own and path not in self.written:
                self.written.add(path)
                self._ledger.write({"written": path})
            if renamed and (not path or may_be_unit(path)):
                # Taken after all that is told now: whatever changes it later is told later, and spoils it then.
                state = state or self._look()
                later = {one.path for one in heard[place + 1 :]}
                for name in self._names(path, state):
                    fresh = self._renamed(name, state, later, sure) or fresh
                for name in self._vouched_for(path, state):
                    fresh = self._renamed(name, state, later, sure=False) or fresh
            elif self._spoil(path):
                self._ledger.write({"spoiled": path})
        return fresh

    def name(self, path: str, files: Mapping[str, Stamp] | None, at: float) -> bool:
        """Takes the script's word that `path` is complete with these files; false if it is no place for a unit.

        Of the checkpoint folder itself it is said of each entry. Without files those count that are there now.
        """
        root = os.path.realpath(self.folder)
        place = os.path.realpath(path)
        if place != root and not place.startswith(f"{root}/"):
            return False
        named = place[len(root) + 1 :]
        with self.lock:
            self.notice()  # what was written before it was named must not count as written afterwards
            state = self._look()
            if files is None:
                known = {found.path: found.stamp for found in (state.below(named) if named else state.files.values())}
            else:
                known = {"/".join(filter(None, (named, below))): stamp for below, stamp in files.items()}
            known = {each: stamp for each, stamp in known.items() if each in state.files or self._inside(root, each)}
            names = [named] if named else sorted({each.split("/", 1)[0] for each in known})
            good = [name for name in names if may_be_unit(name) and _below(known, name)]
            for name in good:
                if (name, at) not in self._named:  # else it was said to an earlier start of the node
                    self._say(name, _below(known, name), at)
                    self._named.add((name, at))
                    self._ledger.write({"named": name, "at": at})
            return bool(good)

    def _say(self, name: str, files: dict[str, Stamp], at: float) -> None:
        unit = self._units.get(name)
        if unit and unit.files == files and not (unit.said or unit.fetched):
            unit.said = True
            self._keep(unit)
        else:
            self._complete(name, files, at, said=True)

    @contextmanager
    def laying_out(self, name: str, at: float, generation: int, ordinal: int) -> Iterator[None]:
        """What stands at `name` afterwards was brought from the work dir, and is complete.

        Who listens waits meanwhile, and what we do ourselves is no news.
        """
        with self.lock:
            self.notice()
            yield
            list(self._heard())
            files = {found.path: found.stamp for found in self._look().below(name)}
            self._keep(Unit(name, files, at, generation, ordinal, fetched=True))

    def is_given(self, found: Found) -> bool:
        """It was there before any process, and is as it was."""
        return self._given.get(found.path) == found.stamp

    def next_generation(self, generation: int) -> None:
        """What becomes complete from now on was written by processes of this generation."""
        with self.lock:
            self.generation = generation

    # --- how it stands -----------------------------------------------------------------------------------

    def state(self) -> State:
        """What stands in the folder now, and what of it is complete."""
        with self.lock:
            self.notice()
            state = self._look()
            if state.seen:
                present = folders_of(state.files) | set(state.files)
                self._units = {name: unit for name, unit in self._units.items() if name in present}
            while True:
                self._judge(state)
                loose = {path.rpartition("/")[0] for path in state.loose() if not is_under_way(path)} - {""}
                # Libraries write a folder in place and rename single files of it: these alone are no checkpoint.
                single = [name for name in state.units if name in state.files and name.rpartition("/")[0] in loose]
                parts = {name: state.units[name] for name in single}
                parts = {name: unit for name, unit in parts.items() if not (unit.said or unit.fetched)}
                if not parts:
                    return state
                state.parts.update(parts)

    def _judge(self, state: State) -> None:
        paths = sorted(state.files)
        state.units.clear()
        state.kept = {path for path, found in state.files.items() if self.is_given(found)}
        for name in sorted(self._units, key=lambda name: -name.count("/")):  # the inner ones first
            unit, inside = self._units[name], _span(paths, name)
            if name not in state.parts and self._is_whole(unit, inside, state):
                state.units[name] = unit
                state.kept.update(path for path in inside if path in unit.files)
        self._keep_links(state)

    def _is_whole(self, unit: Unit, inside: list[str], state: State) -> bool:
        def well(path: str) -> bool:
            return path in state.kept or state.files[path].stamp == unit.files.get(path)

        def leftover(path: str) -> bool:
            return path not in unit.files and is_under_way(path[len(unit.name) :])

        present = set(inside)
        return all(path in present for path in unit.files) and all(well(path) or leftover(path) for path in inside)

    def _keep_links(self, state: State) -> None:
        """A link is never half made: it is as good as what it leads to."""
        root = os.path.realpath(self.folder)
        for path, found in state.files.items():
            real = str(found.place)[len(root) + 1 :]
            if real != path and real in state.kept:
                state.kept.add(path)

    # --- what is kept ------------------------------------------------------------------------------------

    def _renamed(self, name: str, state: State, later: set[str], sure: bool) -> bool:
        """What came into it `later` is no part of it."""
        below = {found.path: found.stamp for found in state.below(name)}
        files = {path: stamp for path, stamp in below.items() if not later & _way(name, path)}
        known = self._units.get(name)
        # One that is renamed into place twice before we look became complete twice, though only the last is there.
        again = sure and known is not None and not known.fetched and known.files == files and name not in self._unsure
        made = self._complete(name, files, time.time(), again=again)
        if sure:
            self._unsure.discard(name)
        elif made:
            self._unsure.add(name)
        return made

    def _complete(
        self, name: str, files: dict[str, Stamp], at: float, *, said: bool = False, again: bool = False
    ) -> bool:
        """False if this is known already, or nothing."""
        if not files or (self._knows(name, files) and not again):
            return False
        number = self._counts.get((name, self.generation), 0) + 1
        self._keep(Unit(name, files, at, self.generation, number, said))
        return True

    def _knows(self, name: str, files: Stamps) -> bool:
        """What was renamed is often named too, and what we lay out ourselves is renamed into place."""
        known = [unit for unit in self._units.values() if unit.name == name or name.startswith(f"{unit.name}/")]
        if any(_below(unit.files, name) == files for unit in known):
            return True
        return all(self._given.get(path) == stamp for path, stamp in files.items())

    def _keep(self, unit: Unit) -> None:
        with self.lock:
            self._put(unit)
            self._ledger.write(
                {
                    "unit": unit.name,
                    "files": [[path, *stamp] for path, stamp in unit.files.items()],
                    "at": unit.at,
                    "generation": unit.generation,
                    "ordinal": unit.ordinal,
                    "said": unit.said,
                    "fetched": unit.fetched,
                }
            )

    def _put(self, unit: Unit) -> None:
        for name in [name for name in self._units if name.startswith(f"{unit.name}/")]:
            del self._units[name]
        self._units[unit.name] = unit
        if not unit.fetched:
            self._counts[unit.name, unit.generation] = unit.ordinal

    def _spoil(self, path: str) -> bool:
        """Written to, so no longer what it was, whatever its stamp will be. False if that is no news."""
        before = self._spoiled
        for unit in self._units.values():
            if path in unit.files:
                self._spoil_file(unit, path)
            elif not path or unit.name == path or unit.name.startswith(f"{path}/"):
                for each in unit.files:
                    self._spoil_file(unit, each)
        return self._spoiled != before

    def _spoil_file(self, unit: Unit, path: str) -> None:
        if unit.files[path] != _SPOILED:
            unit.files[path] = _SPOILED
            self._spoiled += 1

    def _names(self, path: str, state: State) -> list[str]:
        """The units that a rename makes: one, or each entry where the checkpoint folder itself was renamed."""
        return [path] if path else sorted(filter(may_be_unit, {each.split("/", 1)[0] for each in state.files}))

    def _vouched_for(self, path: str, state: State) -> list[str]:
        """TensorFlow renames a file `checkpoint` into place when the files are complete whose name it holds."""
        above, slash, name = path.rpartition("/")
        found = None
        if name == "checkpoint" and path in state.files and state.files[path].stamp.size < _LARGEST_NOTE:
            with suppress(OSError):
                found = re.match(rb'model_checkpoint_path: "([^"\\/]+)"', state.files[path].place.read_bytes())
        if not found:
            return []
        begin = f"{above}{slash}{os.fsdecode(found[1])}."
        return [each for each in state.files if each.startswith(begin) and may_be_unit(each)]

    def _inside(self, root: str, path: str) -> bool:
        """False for a link that leads out of the folder: it is never brought home, and so no part of a unit."""
        return os.path.realpath(Path(root, path)).startswith(f"{root}/")

    def _look(self) -> State:
        seen = look(self.folder)
        files = {found.path: found for found in seen.files if not found.path.startswith(SCRATCH)}
        return State(files, seen.left_out, seen.complete)

    # --- on disk -----------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """At the first start all that is there came with the code: no process of ours can have left it half-written."""
        for record in self._ledger.records():
            self._replay(record)
        if self.remembers:
            return
        self._given = {path: found.stamp for path, found in self._look().files.items()}
        root = os.path.realpath(self.folder)
        self.given_folders = {above[len(root) + 1 :] for above, _, _ in os.walk(root)}
        given = [[path, *stamp] for path, stamp in self._given.items()]
        self._ledger.write({"given": given, "folders": sorted(self.given_folders)})

    def _replay(self, record: Mapping[str, Any]) -> None:
        if "given" in record:
            self._given, self.given_folders = _stamps(record["given"]), set(record["folders"])
            self.remembers = True
        elif "spoiled" in record:
            self._spoil(record["spoiled"])
        elif "written" in record:
            self.written.add(record["written"])
        elif "named" in record:
            self._named.add((record["named"], record["at"]))
        else:
            how = (record["at"], record["generation"], record["ordinal"], record["said"], record["fetched"])
            self._put(Unit(record["unit"], _stamps(record["files"]), *how))
            self.generation = max(self.generation, record["generation"])


_SPOILED = Stamp(-1, -1, -1)
_ROUNDS = 10
_LARGEST_NOTE = 1 << 20
"""Bytes of a TensorFlow `checkpoint` file, which holds a few names."""


def is_under_way(path: str) -> bool:
    """Whether one of the names says that it is not finished: it begins with a dot or ends in `.tmp` or `.partial`."""
    return any(name.startswith(".") or name.endswith(_UNDER_WAY) for name in path.split("/") if name)


def may_be_unit(path: str) -> bool:
    return bool(path) and not is_under_way(path)


def pattern(name: str) -> str:
    """What names have in common that differ by a number: `step-10` and `step-20` are of one kind."""
    return re.sub(r"\d+", "#", name)


def _below(files: Mapping[str, Stamp], name: str) -> dict[str, Stamp]:
    return {path: stamp for path, stamp in files.items() if path == name or path.startswith(f"{name}/")}


def _way(name: str, path: str) -> set[str]:
    """A path below a unit and the folders between them."""
    return {each for each in (path, *folders_of([path])) if each.startswith(f"{name}/")}


def folders_of(paths: Iterable[str]) -> set[str]:
    """All folders above these paths."""
    return {path[:end] for path in paths for end, letter in enumerate(path) if letter == "/"}


def _span(paths: list[str], name: str) -> list[str]:
    """Of sorted paths those of a unit."""
    own = paths[bisect_left(paths, name) : bisect_left(paths, name) + 1]
    inner = paths[bisect_left(paths, f"{name}/") : bisect_left(paths, f"{name}0")]  # '0' comes after '/'
    return [path for path in own if path == name] + inner


def _stamps(rows: Iterable[Iterable[Any]]) -> dict[str, Stamp]:
    return {path: Stamp(*stamp) for path, *stamp in rows}
