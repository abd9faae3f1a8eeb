"""Moves out of a checkpoint folder what may be half-written. It is kept beside, as long as the node has its folder."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from .units import SCRATCH, State, Units, folders_of


class Aside:
    """Everything that one settling moves goes to one folder, under its own path."""

    def __init__(self, units: Units, unfinished: Path) -> None:
        self._units, self._folder, self._unfinished = units, units.folder, unfinished
        self._to: Path | None = None

    def clear(self) -> list[str]:
        """Leaves what is complete as it stands and what came with the code; the paths of the rest.

        In a folder that is not the node's own only what was heard of is moved: the rest may be somebody else's.
        """
        state = self._units.state()
        if not state.seen:
            return []
        moved: list[str] = []
        self._clear(state, folders_of(state.kept), folders_of(state.files), "", moved)
        # A link stays as long as it leads somewhere.
        for above, folders, files in os.walk(self._folder):
            for name in (*folders, *files):
                place = Path(above, name)
                if place.is_symlink() and not place.exists():
                    moved += self._moved(str(place.relative_to(self._folder)))
        return moved

    def move(self, path: str) -> None:
        """Moves one out, whatever it is."""
        if self._to is None:
            number = len(list(self._unfinished.iterdir())) + 1 if self._unfinished.is_dir() else 1
            self._to = self._unfinished / str(number)
        place = self._to / path
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            (self._folder / path).rename(place)
        except FileNotFoundError:
            return  # somebody was quicker, in a folder that several share
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            shutil.move(self._folder / path, place)
        # A folder that is left empty would be taken for a checkpoint by its name.
        for above in Path(path).parents[:-1]:
            if str(above) in self._units.given_folders or not self._is_ours(str(above)):
                return
            try:
                (self._folder / above).rmdir()
            except OSError:
                return  # not empty

    def _clear(self, state: State, keeping: set[str], filled: set[str], above: str, moved: list[str]) -> None:
        with os.scandir(self._folder / above) as entries:
            here = sorted(entries, key=lambda entry: entry.name)
        for entry in here:
            path = f"{above}/{entry.name}" if above else entry.name
            if path in state.kept or entry.is_symlink() or entry.name.startswith(SCRATCH):
                continue
            folder = entry.is_dir()
            if folder and path not in keeping and path not in filled and _is_of(path, state):
                continue  # an empty folder that a complete one has
            gone = [] if path in keeping or path in self._units.given_folders else self._moved(path)
            moved += gone
            if folder and not gone:
                self._clear(state, keeping, filled, path, moved)

    def _moved(self, path: str) -> list[str]:
        if not self._is_ours(path):
            return []
        self.move(path)
        return [path]

    def _is_ours(self, path: str) -> bool:
        return self._units.own or path in self._units.written


def _is_of(path: str, state: State) -> bool:
    return any(path.startswith(f"{name}/") for name in state.units)
