"""How often a node asks the work dir something, or tells it: by what the store says of itself.

Where requests cost money, all that an idle node does comes to fewer than six in a minute: main looks for a stop file
five times and writes little else; a node without a channel divides the same between looks and signs of life.
"""

from __future__ import annotations

from ..workdir.records import NodeRecord
from ..workdir.store import Capabilities

_BEAT = 5.0
"""Seconds between two writings of a record while nothing changes, where they cost nothing."""
_STALE = 25.0
"""Seconds without a new beat after which a node counts as gone there: five beats."""
_MISSED = 2.5
"""Beats that may be missed where each costs money."""


class Pace:
    """Seconds between two of each, once nothing new happens."""

    def __init__(self, capabilities: Capabilities) -> None:
        self.billed, poll = capabilities.billed, capabilities.poll_seconds
        self.look = poll
        """Main's looks for what somebody asks of it."""
        self.look_apart = 2 * poll if self.billed else poll
        """The looks of a node without a channel."""
        self.sign = 2.5 * poll if self.billed else _BEAT
        """Signs of life of a node without a channel."""
        self.lost = self._stale(self.sign)
        """Without any sign for so long it counts as lost."""
        self.usage = 25 * poll if self.billed else 0.0
        """What a node uses is on its way to the work dir for so long, if nothing else goes there."""
        self.reports = 5 * poll if self.billed else 0.0
        """The same for what a script reports, once it has reported for a while."""
        self.steps = poll if self.billed else 0.0
        """The steps of a node's life, which few want to see, wait so long for other lines."""
        self.gather = poll / 6 if self.billed else 0.0
        """What changes in a record waits so long for what else may change."""
        self._poll = poll

    def record(self, record: NodeRecord) -> float:
        """Writings of an unchanged record. Main, and a node without a channel, have other things to ask or tell."""
        if not self.billed:
            return _BEAT
        return (8 if record.role == "main" or record.link == "store" else 5) * self._poll

    def stale(self, record: NodeRecord) -> float:
        """Without a change of this record for so long its node counts as gone."""
        return self._stale(self.record(record))

    def _stale(self, beat: float) -> float:
        return _MISSED * beat if self.billed else _STALE
