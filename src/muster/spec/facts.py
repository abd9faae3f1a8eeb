"""What the checks of a job must know of the frameworks, without knowing any framework."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .job import Job
from .kinds import Kind


class Objection(Protocol):
    """Something that a job asks for and its framework cannot do."""

    @property
    def field(self) -> str: ...

    @property
    def message(self) -> str: ...

    @property
    def fix(self) -> str: ...


@dataclass(frozen=True)
class Facts:
    """What one framework can do, as far as a job may ask for it."""

    elastic: bool
    roles: frozenset[str]
    options: Mapping[str, Kind] = field(default_factory=dict)
    objections: Callable[[Job], Iterable[Objection]] = lambda _job: ()
    """What else of a job it cannot do."""


class Frameworks(Protocol):
    """The frameworks that are installed."""

    def names(self) -> Sequence[str]:
        """Their names, in the order to show them."""

    def facts(self, name: str) -> Facts | None:
        """What the framework of this name can do; None if there is none of this name."""
