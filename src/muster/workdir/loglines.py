"""One line of a process's output as a value, and the lines of many nodes as one log."""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from json.encoder import encode_basestring as quoted
from typing import NamedTuple

from ..errors import StoreError
from .prefetching import reading_ahead
from .run import RunFolder
from .segments import read_segments
from .store import Entry, Store


class LogLine(NamedTuple):
    """A line as its node read it. `n` counts the lines of a node, and with it no line is ever shown twice."""

    n: int
    time: float
    """Seconds since the epoch on the node's clock."""
    node: str
    process: str
    stream: str
    text: str
    rank: int | None = None

    def encode(self) -> bytes:
        """One JSON object without a line end. Written by hand: this runs for each line that a script prints."""
        n, time, node, process, stream, text, rank = self
        line = f'{{"n":{n},"time":{time!r},{_who(node, process, stream, rank)},"text":{quoted(text)}}}'
        # What UTF-8 cannot write becomes the escape that JSON has for it.
        return line.encode("utf-8", "backslashreplace")

    @classmethod
    def decode(cls, line: bytes) -> LogLine:
        """Reads what `encode` wrote."""
        try:
            value = json.loads(line)
            return cls(
                value["n"],
                value["time"],
                value["node"],
                value["process"],
                value["stream"],
                value["text"],
                value.get("rank"),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise StoreError(f"a line of a log is damaged: {line[:200]!r}", "It was changed by hand.") from error


@lru_cache(maxsize=1024)
def _who(node: str, process: str, stream: str, rank: int | None) -> str:
    """The part of a line that is the same for all lines of a stream."""
    which = "" if rank is None else f',"rank":{rank}'
    return f'"node":{quoted(node)},"process":{quoted(process)},"stream":{quoted(stream)}{which}'


def merge(streams: Iterable[Iterable[LogLine]]) -> Iterator[LogLine]:
    """The lines of several nodes in the order of their times; those of one node always in their own order."""
    return heapq.merge(*streams, key=lambda line: (line.time, line.node, line.n))


def read_logs(
    folder: RunFolder,
    nodes: Collection[str] | None = None,
    ranks: Collection[int] | None = None,
    grep: re.Pattern[str] | None = None,
    since: float | None = None,
) -> Iterator[LogLine]:
    """The log of a run as one, with what is asked for: certain nodes, ranks, a pattern, or from a time on."""
    with reading_ahead(folder.store, _listed(folder, nodes)) as store:
        streams = dict.fromkeys(entry.key.rpartition("/")[0] for entry in store.list())
        for line in merge(_lines(store, stream) for stream in streams):
            if ranks is not None and line.rank not in ranks:
                continue
            if (since is None or line.time >= since) and (grep is None or grep.search(line.text)):
                yield line


def _listed(folder: RunFolder, nodes: Collection[str] | None) -> Iterator[Entry]:
    """The segments of all nodes in one listing, or those of some."""
    for prefix in [folder.at("logs/")] if nodes is None else [folder.at("logs", node, "") for node in sorted(nodes)]:
        yield from folder.store.list(prefix)


def _lines(store: Store, stream: str) -> Iterator[LogLine]:
    for line in read_segments(store, stream):
        yield LogLine.decode(line)
