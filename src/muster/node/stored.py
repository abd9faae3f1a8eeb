"""The lines of a run as its folder has them, read again and again: each segment once, and with few requests."""

from __future__ import annotations

from collections.abc import Mapping

from ..workdir.loglines import LogLine
from ..workdir.run import RunFolder
from ..workdir.segments import numbered, read_lines

_PAGE = 1000
"""Keys that a bucket lists per request."""


class Stored:
    """What the segments of all nodes hold and was not asked for before."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        self._seen: dict[str, int] = {}
        """The highest segment of each node that was looked at."""
        self._keys = 0

    def new(self, last: Mapping[str, int]) -> list[LogLine]:
        """The lines behind the last ones that are known of each node. One list request, and a get for each segment."""
        found: list[LogLine] = []
        listed = self._listed()
        for node, segments in listed.items():
            for _, key in sorted(segments, reverse=True):
                lines = [LogLine.decode(line) for line in read_lines(self._run.store, key) or ()]
                found += [line for line in lines if line.n > last.get(node, 0)]
                if lines and lines[0].n <= last.get(node, 0) + 1:
                    break
        # Not before all are read: what one of them cannot be had for now must be asked for again.
        self._seen.update({node: max(number for number, _ in segments) for node, segments in listed.items()})
        return found

    def _listed(self) -> dict[str, list[tuple[int, str]]]:
        """The segments that are new, by node."""
        if self._keys // _PAGE > len(self._seen):
            nodes = {node: self._run.at("logs", node) for node in self._run.store.list_names(self._run.at("logs/"))}
            new = {node: [*numbered(self._run.store, at, self._seen.get(node, 0))] for node, at in nodes.items()}
            return {node: segments for node, segments in new.items() if segments}
        # All of them in one go: cheaper than a request for each node, until there are very many.
        prefix, listed = self._run.at("logs/"), dict[str, list[tuple[int, str]]]()
        entries = [entry.key for entry in self._run.store.list(prefix)]
        self._keys = len(entries)
        for key in entries:
            node, _, name = key[len(prefix) :].partition("/")
            number = name.partition(".")[0]
            if number.isdecimal() and int(number) > self._seen.get(node, 0):
                listed.setdefault(node, []).append((int(number), key))
        return listed
