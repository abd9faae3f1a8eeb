"""Makes a checkpoint folder ready for processes that start: nothing half-written in it, and the newest complete one.

What is fetched comes into a scratch folder first and is renamed into place, so that a node that is killed meanwhile
leaves nothing half laid out; its next start settles again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..errors import NotFound, StoreError
from .aside import Aside
from .checkpoint_shipper import CheckpointShipper
from .checkpoints import fetch_file
from .choosing import Group, Source, choose, read_groups
from .downloading import Damaged
from .parallel import at_once
from .run import RunFolder
from .transfers import by_size
from .units import SCRATCH, State, Units

_ATTEMPTS = 3
"""How often one is chosen anew because the chosen one vanished: a node that runs takes its old versions away."""
_RANDOM = 8


class Bad(Exception):
    """A group that cannot be had."""

    def __init__(self, group: Group, why: StoreError) -> None:
        super().__init__(str(why))
        self.group, self.why = group, why


class _Absent(NamedTuple):
    """A file of a group that has to be fetched, and where to."""

    group: Group
    source: Source
    place: Path


class Settling:
    """One settling of a node's folder. `told` is what the user should know of it."""

    def __init__(self, run: RunFolder, node: str, units: Units, shipper: CheckpointShipper, unfinished: Path) -> None:
        """What is moved out of the folder goes to a new folder in `unfinished`."""
        self._run, self._node, self._units, self._shipper = run, node, units, shipper
        self._folder = units.folder
        self._aside = Aside(units, unfinished)
        self._scratch = f"{SCRATCH}{node}-"
        self._members: dict[int, frozenset[str] | None] = {}
        self.told: list[str] = []

    def settle(self, generation: int) -> None:
        """Blocks. No process of the node may write into the folder. One list request where there is nothing."""
        self._shipper.ship_complete(last=True)
        try:
            self._clear()
        except OSError as error:
            fix = "The user of the node must be able to write there, and into the node's own folder."
            raise StoreError(f"{self._folder} cannot be made ready for a start: {error}", fix) from error
        self._units.next_generation(generation)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._fetch_newest(last=attempt == _ATTEMPTS)
            except NotFound:
                continue
            return

    def _clear(self) -> None:
        for left in self._folder.iterdir() if self._folder.is_dir() else ():
            if left.name.startswith(self._scratch) and len(left.name) == len(self._scratch) + 2 * _RANDOM:
                shutil.rmtree(left, ignore_errors=True)  # by a node that was killed as it settled
        if moved := self._aside.clear():
            more = f" and {len(moved) - 1} more" if len(moved) > 1 else ""
            self.told.append(f"{moved[0]}{more} moved out of the checkpoint folder: it may be half-written")

    def _fetch_newest(self, last: bool) -> None:
        groups, whole = read_groups(self._run)
        before: float | None = None
        problem: StoreError | None = None
        while groups:
            choice = choose(groups, self._node, self._members_of, before)
            if not choice.groups and not whole:
                groups, whole = read_groups(self._run, everything=True)
                continue
            self._withdraw(choice.passed)
            if not choice.groups:
                break
            try:
                self._lay_out(choice.groups)
            except Bad as bad:
                if isinstance(bad.why, NotFound) and not last:
                    raise bad.why from None
                if not isinstance(bad.why, (NotFound, Damaged)):
                    problem = problem or bad.why
                self.told.append(f"checkpoint {bad.group.name} is passed over: {bad.why.message}")
                before = bad.group.at
                continue
            for group in choice.besides:
                with suppress(Bad):
                    self._lay_out([group])
            return
        if problem:
            raise problem  # to begin anew because the work dir cannot be read now would throw all the work away

    def _members_of(self, generation: int) -> frozenset[str] | None:
        if generation not in self._members:
            members = self._run.members(generation)
            self._members[generation] = None if members is None else frozenset(one.node for one in members)
        return self._members[generation]

    def _withdraw(self, groups: Iterable[Group]) -> None:
        """Our own part of what others have not finished must go, else we would go on from another one than they."""
        units = self._units.state().units
        for group in groups:
            unit = units.get(group.name)
            if unit and self._shipper.version_of(unit) == (group.generation, group.ordinal):
                self._aside.move(group.name)
                self.told.append(f"checkpoint {group.name} moved out of the checkpoint folder: a part of it is missing")

    # --- laying out --------------------------------------------------------------------------------------

    def _lay_out(self, groups: list[Group]) -> None:
        """All of these, or none. What stands already is left as it is."""
        state = self._units.state()
        scratch = self._folder / f"{self._scratch}{os.urandom(_RANDOM).hex()}"
        # The oldest first: a newer one may stand inside it.
        absent = [group for group in sorted(groups, key=lambda group: group.at) if not self._stands(group, state)]
        try:
            self._bring(absent, state, scratch)
            for number, group in enumerate(absent):
                self._put(group, scratch / str(number), state)
            self._remember(absent)
        except OSError as error:
            state = self._units.state()
            if not all(self._stands(group, state) for group in absent):  # else another node in this folder was quicker
                why = StoreError(f"cannot lay out a checkpoint in {self._folder}: {error.strerror}")
                raise Bad(groups[0], why) from error
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _bring(self, groups: list[Group], state: State, scratch: Path) -> None:
        """Files that stand in the folder already are not fetched again."""
        absent: list[_Absent] = []
        for number, group in enumerate(groups):
            for path, source in group.files(self._node).items():
                place = scratch / str(number) / path
                if self._has(source, state):
                    _link(state.files[path].place, place)
                else:
                    absent.append(_Absent(group, source, place))
        for workers, some in by_size(self._run.store, absent, lambda one: one.source.entry.size):
            for _ in at_once(workers, self._fetch, some):
                pass

    def _fetch(self, absent: _Absent) -> None:
        group, source, place = absent
        try:
            fetch_file(self._run, source.node, source.number, source.entry, place)
        except StoreError as error:
            raise Bad(group, error) from error
        os.utime(place, (group.at, group.at))  # scripts that look for the newest file must find the newest checkpoint

    def _put(self, group: Group, fetched: Path, state: State) -> None:
        """Renames a group into place. What came with the code, or is complete inside by itself, stays."""
        for path in self._apart(group, state):
            if not (fetched / path).exists():
                _link(state.files[path].place, fetched / path)
        place = self._folder / group.name
        with self._units.laying_out(group.name, group.at, group.generation, group.ordinal):
            if place.is_dir() or place.is_symlink() or (fetched / group.name).is_dir():
                _make_way(place, fetched / f"{SCRATCH}before")
            place.parent.mkdir(parents=True, exist_ok=True)
            (fetched / group.name).replace(place)
        self.told.append(f"checkpoint {group.name} of {', '.join(sorted(group.writers))} laid out")

    def _remember(self, groups: list[Group]) -> None:
        files = self._units.state().files if groups else {}
        for group in groups:
            for path, source in group.files(self._node).items():
                if path in files:
                    self._shipper.know(files[path], source.entry.sha256)

    def _stands(self, group: Group, state: State) -> bool:
        """Whether the folder has the group already, in just this version."""
        files = group.files(self._node)
        more = {found.path for found in state.below(group.name)} - set(files) - self._apart(group, state)
        return not more and all(self._has(source, state) for source in files.values())

    def _apart(self, group: Group, state: State) -> set[str]:
        """The files below a group's name that are there in their own right."""
        inner = tuple(f"{name}/" for name in state.units if name.startswith(f"{group.name}/"))
        below = state.below(group.name)
        return {one.path for one in below if f"{one.path}/".startswith(inner) or self._units.is_given(one)}

    def _has(self, source: Source, state: State) -> bool:
        entry = source.entry
        found = state.files.get(entry.path)
        if not found or entry.path not in state.kept or found.stamp.size != entry.size:
            return False
        with suppress(OSError):
            return self._shipper.digest(found) == entry.sha256
        return False


def _link(source: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        place.hardlink_to(source)
    except OSError:
        shutil.copy2(source, place)


def _make_way(place: Path, to: Path) -> None:
    with suppress(FileNotFoundError):
        place.rename(to)
