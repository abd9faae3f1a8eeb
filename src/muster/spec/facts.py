"""What the checks of a job must know of the frameworks, without knowing any framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .kinds import Kind


@dataclass(frozen=True)
class Facts:
    """What one framework can do, as far as a job may ask for it."""

    elastic: bool
    roles: frozenset[str]
    options: Mapping[str, Kind] = field(default_factory=dict)


class Frameworks(Protocol):
    """The frameworks that are installed."""

    def names(self) -> Sequence[str]:
        """Their names, in the order to show them."""

    def facts(self, name: str) -> Facts | None:
        """What the framework of this name can do; None if there is none of this name."""
