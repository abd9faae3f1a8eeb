"""What main knows of the nodes that have no channel to it: by the signs they leave, and the records behind those."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass

from ..workdir.records import NodeRecord
from ..workdir.run import RunFolder, Sign, Signs
from .asking import ask
from .pace import Pace


@dataclass
class Heard:
    """One such node."""

    record: NodeRecord
    sign: Sign
    since: float
    """When we first saw this sign, on our own clock."""


class Apart:
    """The nodes without a channel. A record is read again only when its sign says that it is new."""

    def __init__(self, run: RunFolder) -> None:
        self._run, self._pace = run, Pace(run.store.capabilities)
        self.known: dict[str, Heard] = {}

    async def look(self, signs: Signs, connected: Collection[str]) -> bool:
        """Takes in what a listing showed; true if there was something new to read."""
        now = time.monotonic()
        seen = {name: sign for name, sign in signs.nodes.items() if name != "main" and name not in connected}
        new = [name for name, sign in seen.items() if name not in self.known or self._number(name) != sign.number]
        for record in await ask(self._run.nodes_called, new) if new else ():
            self.known[record.node] = Heard(record, seen[record.node], now)
        for name, sign in seen.items():
            if (heard := self.known.get(name)) and heard.sign != sign:
                heard.sign, heard.since = sign, now
        for name in self.known.keys() & set(connected):
            del self.known[name]
        return bool(new)

    def silent(self, heard: Heard) -> bool:
        """Whether it has left no sign for so long that it counts as lost."""
        return time.monotonic() - heard.since > self._pace.lost

    def _number(self, name: str) -> int:
        return self.known[name].sign.number
