"""Which runs of a work dir are old enough to go, and which code goes with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..errors import MusterError, RunNotFound
from ..spec.units import age_text
from .document import JobDocument
from .parallel import at_once
from .retention import Holding, May, Papers, held, read_papers, remove
from .run import RunFolder
from .store import Entry, Store

GRACE = 24 * 3600.0
"""Seconds that new code is left alone, because the run that it is for may not be there yet."""


class Rule(NamedTuple):
    """What the user wants gone."""

    older_than: float
    keep_last: int = 0
    """So many runs of each job stay, whatever their age."""
    force: bool = False


class Stays(NamedTuple):
    """A run that does not go, and why."""

    run: str
    work_dir: str
    why: str
    told: bool = True
    """False for what nobody would wonder about: it is not old enough."""

    def to_json(self) -> dict[str, Any]:
        return {"run": self.run, "work_dir": self.work_dir, "why": self.why}


@dataclass(frozen=True)
class Pruning:
    """What would go from one work dir."""

    goes: tuple[Holding, ...] = ()
    stays: tuple[Stays, ...] = ()
    code: tuple[Entry, ...] = ()
    code_stays: str = ""
    """Why no code goes at all."""


class _Run(NamedTuple):
    folder: RunFolder
    papers: Papers

    @property
    def job(self) -> JobDocument | None:
        return self.papers.job

    @property
    def code(self) -> str:
        return self.job.code.digest if self.job and self.job.code else ""


@dataclass
class Pruner:
    """Looks at one work dir. `runs` are those that may go, by default all; the others' code stays all the same."""

    store: Store
    rule: Rule
    now: float
    runs: frozenset[str] | None = None
    _seen: list[_Run] = field(default_factory=list)

    def look(self) -> Pruning:
        """Two gets for each run, a listing for each that is old enough, and what the code takes."""
        self._seen = list(self._runs())
        kept = self._last_of_each_job()
        mine = [one for one in self._seen if self.runs is None or one.folder.run in self.runs]
        looked = list(at_once(self.store.capabilities.parallel, lambda one: self._judge(one, kept), mine))
        goes = tuple(sorted((one for one in looked if isinstance(one, Holding)), key=lambda one: one.since))
        stays = tuple(sorted(one for one in looked if isinstance(one, Stays)))
        code_stays = next((one.papers.problem for one in self._seen if not one.job and not _is_in(one, goes)), "")
        return Pruning(goes, stays, () if code_stays else tuple(self._unused(goes)), code_stays)

    def carry_out(self, pruning: Pruning) -> tuple[Entry, ...]:
        """Takes it all away; the code that went."""
        for one in pruning.goes:
            remove(self.store, one)
        if not pruning.code:
            return ()
        # A run may have been launched while the user was thinking, with code that nobody had used for long.
        before = {entry.key for entry in pruning.code}
        self._seen = list(self._runs())
        still = self._unused(()) if all(one.job for one in self._seen) else []
        code = tuple(entry for entry in still if entry.key in before)
        self.store.delete_all(entry.key for entry in code)
        return code

    def _runs(self) -> Iterator[_Run]:
        able = self.store.capabilities
        yield from filter(None, at_once(able.parallel, self._read, self.store.list_names()))

    def _read(self, name: str) -> _Run | None:
        folder = RunFolder(self.store, name)
        try:
            return _Run(folder, read_papers(folder, result=self.runs is None or name in self.runs))
        except RunNotFound:
            return None

    def _last_of_each_job(self) -> set[str]:
        newest: dict[str, list[_Run]] = {}
        for one in sorted((one for one in self._seen if one.job), key=_created_at, reverse=True):
            newest.setdefault(one.job.job.name if one.job else "", []).append(one)
        return {one.folder.run for runs in newest.values() for one in runs[: self.rule.keep_last]}

    def _judge(self, one: _Run, kept: set[str]) -> Holding | Stays:
        run, url = one.folder.run, self.store.url
        if run in kept:
            return Stays(run, url, f"it is among the last {self.rule.keep_last} of its job", told=False)
        result = one.papers.result
        if result and self.now - result.ended_at < self.rule.older_than:
            return self._too_young(run, result.state, result.ended_at)
        try:
            found = held(one.folder, one.papers, self.now)
        except MusterError as error:
            return Stays(run, url, error.message)
        if found.may is May.NOT or (found.may is May.FORCED and not self.rule.force):
            return Stays(run, url, found.why)
        if self.now - found.since < self.rule.older_than:
            return self._too_young(run, found.state, found.since)
        return found

    def _too_young(self, run: str, state: str, since: float) -> Stays:
        return Stays(run, self.store.url, f"{state} since {age_text(self.now - since)}", told=False)

    def _unused(self, goes: Iterable[Holding]) -> list[Entry]:
        """Code of no run that stays, and node programs that no run without an end can have been launched with."""
        from .bundle import unused_code
        from .programs import unused_programs

        stays = [one for one in self._seen if not _is_in(one, goes)]
        begun = [_created_at(one) for one in stays if one.job and not one.papers.result]
        code = unused_code(self.store, {one.code for one in stays if one.code}, GRACE, self.now)
        return [*code, *unused_programs(self.store, min([self.now, *begun]) - GRACE)]


def _created_at(one: _Run) -> float:
    return one.job.created_at if one.job else 0.0


def _is_in(one: _Run, goes: Iterable[Holding]) -> bool:
    return any(one.folder.run == each.run for each in goes)
