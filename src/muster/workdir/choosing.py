"""Which checkpoint of a run its processes go on from, when they start again: the newest that no node's part lacks.

Nodes that write together give their parts one name. A part is matched with the others by the generation that wrote it
and by how often that generation had completed the name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from .checkpoints import Checkpoint, listed, read_checkpoint
from .manifest import FileEntry
from .run import RunFolder
from .units import pattern

TOGETHER = 5.0
"""Seconds within which files count as written together: some libraries make one checkpoint of several."""
AT_ONCE = 8
"""Requests under way at a time."""
_LATEST = 16
"""How many of each node's checkpoints are looked at before all are."""

Members = Callable[[int], "frozenset[str] | None"]
"""The nodes of a generation; None where they may come and go within it."""


class Source(NamedTuple):
    """Where a file of a group comes from."""

    node: str
    number: int
    entry: FileEntry


@dataclass(frozen=True)
class Group:
    """One complete checkpoint of the run: what its nodes completed under one name, as one."""

    name: str
    generation: int
    ordinal: int
    parts: Mapping[str, Checkpoint]

    @property
    def at(self) -> float:
        return max(part.complete.at for part in self.parts.values() if part.complete)

    @property
    def writers(self) -> frozenset[str]:
        return frozenset(self.parts)

    @property
    def key(self) -> tuple[str, int, int]:
        return self.name, self.generation, self.ordinal

    def files(self, node: str) -> dict[str, Source]:
        """All files of all nodes. Where several wrote the same path, a node gets its own, else main's."""
        order = sorted(self.parts, key=lambda one: (one == node, one == "main", one))
        return {
            entry.path: Source(writer, self.parts[writer].number, entry)
            for writer in order
            for entry in self.parts[writer].manifest.files
        }


def read_groups(run: RunFolder, everything: bool = False) -> tuple[list[Group], bool]:
    """The complete groups, the newest first, and whether these are all. One list request, and a get for each part."""
    numbers = listed(run)
    wanted = [
        (node, number) for node, known in numbers.items() for number in (known if everything else known[:_LATEST])
    ]
    if not wanted:
        return [], True
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda one: read_checkpoint(run, *one), wanted)
    parts = [(node, part) for (node, _), part in zip(wanted, found, strict=True) if part]
    return grouped(parts), len(wanted) == sum(map(len, numbers.values()))


def grouped(parts: Iterable[tuple[str, Checkpoint]]) -> list[Group]:
    """What was completed together, the newest first."""
    found: dict[tuple[str, int, int], dict[str, Checkpoint]] = {}
    for node, part in parts:
        if part.complete:
            key = part.name, part.complete.generation, part.complete.ordinal
            found.setdefault(key, {})[node] = part
    groups = [Group(*key, nodes) for key, nodes in found.items()]
    return sorted(groups, key=lambda group: (group.at, group.key), reverse=True)


def lacks_a_part(group: Group, groups: Iterable[Group], members: Members) -> bool:
    """Whether a node that should have written to this group has not.

    A node should have if it completed this very name in this generation before or since, or took part in an older
    group of the same kind of name. Where nodes come and go, only if it was there as late as the writers were.
    """
    kind = pattern(group.name)
    versions = [one for one in groups if (one.name, one.generation) == (group.name, group.generation)]
    since = min(one.at for one in versions if one.writers & group.writers)
    expected: set[str] = set()
    for one in groups:
        if one.writers <= group.writers:
            continue
        if one in versions and (one.at >= since or members(group.generation) is not None):
            expected |= one.writers
        elif pattern(one.name) == kind and one.at < group.at and one.writers > group.writers:
            here = members(group.generation)
            expected |= one.writers if one.generation == group.generation else one.writers & (here or frozenset())
    return not expected <= group.writers


class Choice(NamedTuple):
    """What to lay out, and what must not be used because a part of it is missing."""

    groups: list[Group]
    """Of one moment: all of them, or none."""
    besides: list[Group]
    """Older ones that these may need, as far as they are to be had."""
    passed: list[Group]


def choose(groups: list[Group], node: str, members: Members, before: float | None = None) -> Choice:
    """The newest complete groups for a node. `before` passes over what proved bad, and what is not older."""
    passed: list[Group] = []
    whole: list[Group] = []
    for group in groups:
        if (before is not None and group.at >= before) or lacks_a_part(group, groups, members):
            passed.append(group)
        else:
            whole.append(group)
    if not whole:
        return Choice([], [], passed)
    chosen = _together(whole[0], whole)
    besides = _of_more_kinds(chosen, whole)
    own = next((group for group in whole if node in group.writers), None)
    if own:
        besides += _together(own, whole)
    names = {group.name for group in chosen}
    older = {group.name: group for group in sorted(besides, key=lambda group: group.at) if group.name not in names}
    return Choice(chosen, list(older.values()), [group for group in passed if group.at > whole[0].at])


def _together(newest: Group, groups: list[Group]) -> list[Group]:
    """A group and what was completed shortly before it; of each name the newest."""
    found: dict[str, Group] = {}
    for group in groups:
        if newest.at - TOGETHER <= group.at <= newest.at:
            found.setdefault(group.name, group)
    return list(found.values())


def _of_more_kinds(chosen: list[Group], groups: list[Group]) -> list[Group]:
    """The newest older set that has all kinds of names of this one and more: then this one may be only begun.

    TensorFlow, for one, names its last checkpoint in a file that it writes after the others.
    """
    kinds = {pattern(group.name) for group in chosen}
    for group in groups:
        older = _together(group, groups) if group.at < chosen[-1].at else []
        if {pattern(one.name) for one in older} > kinds:
            return older
    return []
