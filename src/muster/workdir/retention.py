"""What a run takes up in its work dir, whether it may go, and how it goes.

What shows that there is a run is deleted last: whoever is cut off in the middle finds it again, and ends what it began.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from ..errors import AccessDenied, MusterError, NotFound, RunNotFound, StoreBusy
from ..spec.units import age_text
from .document import JobDocument
from .home import nodes_folder, remove_node_folder
from .index import forget
from .machine import this_machine
from .names import JOB, check_name
from .records import NodeRecord, Result
from .run import CLOUD, RunFolder
from .store import Entry, Store
from .view import gone, state_of

T = TypeVar("T")

RESULT = "result.json"
AFTERWARDS = 3600.0
"""Seconds after the end of a run in which a node of it may still be leaving. Later its record is not asked for."""


class Gone(RunNotFound):
    """There is nothing of this name."""


class May(Enum):
    """Whether a run may go."""

    GO = "go"
    FORCED = "forced"
    """Only if the user insists, because nobody here can know."""
    NOT = "not"


@dataclass(frozen=True)
class Holding:
    """One run as it lies in its work dir."""

    run: str
    work_dir: str
    job: str
    """The job's name; empty if it cannot be read."""
    created_at: float
    state: str
    since: float
    """When it ended or, if it has not, when anything of it was last written."""
    keys: tuple[str, ...]
    bytes: int
    may: May = May.GO
    why: str = ""
    """Why it may not go, or not without force."""

    def to_json(self, now: float) -> dict[str, Any]:
        return {
            "run": self.run,
            "work_dir": self.work_dir,
            "state": self.state,
            "age_seconds": round(max(now - self.since, 0.0), 3),
            "objects": len(self.keys),
            "bytes": self.bytes,
        }


def holding(store: Store, run: str, now: float | None = None) -> Holding:
    """What there is of a run; `RunNotFound` for what is none, and `Gone` if there is nothing at all.

    Two gets and one listing, one request for each 1000 keys. Nodes are asked for only where the run has not ended, or
    only just.
    """
    folder = RunFolder(store, check_name("run", run))
    try:
        papers = read_papers(folder)
    except RunNotFound as error:
        if next(iter(store.list(folder.at(""))), None) is None:
            raise Gone(f"no run is called {run!r} in {store.url}", error.fix) from None
        raise
    return held(folder, papers, time.time() if now is None else now)


class Papers(NamedTuple):
    """The two files that tell of a run as a whole."""

    job: JobDocument | None
    result: Result | None = None
    problem: str = ""
    """Why one of them cannot be read."""


def read_papers(folder: RunFolder, result: bool = True) -> Papers:
    """Job and, if wanted, result of a run; `RunNotFound` where there is no job. One get for each."""
    job, problem = _read(folder.read_job)
    if job is None and not problem:
        fix = f"`muster ps --work-dir {folder.store.url}` lists those that are. Nothing was touched."
        raise RunNotFound(f"{folder.run!r} is no run in {folder.store.url}", fix)
    end, more = _read(folder.result) if result else (None, "")
    return Papers(job, end, problem or more)


def _read(read: Callable[[], T | None]) -> tuple[T | None, str]:
    """What it gives, None if it is not there, or why it cannot be read."""
    try:
        return read(), ""
    except NotFound:
        return None, ""
    except (StoreBusy, AccessDenied):
        raise  # nothing is wrong with the run itself
    except MusterError as error:
        return None, error.message


def held(folder: RunFolder, papers: Papers, now: float) -> Holding:
    """The same where the papers were read already."""
    job, result, problem = papers
    entries = list(folder.store.list(folder.at("")))
    since = result.ended_at if result else max((entry.modified for entry in entries), default=0.0)
    state, may, why = _judged(folder, result, entries, now)
    if problem and may is May.GO:
        may, why = May.FORCED, problem
    return Holding(
        run=folder.run,
        work_dir=folder.store.url,
        job=job.job.name if job else "",
        created_at=job.created_at if job else 0.0,
        state=state,
        since=since,
        keys=tuple(entry.key for entry in entries),
        bytes=sum(entry.size for entry in entries),
        may=may,
        why=why,
    )


def remove(store: Store, held: Holding) -> None:
    """Takes a run away: its objects, its place in the index, and what its nodes left on this machine."""
    if f"{held.run}/{CLOUD}" in held.keys and (twin := RunFolder(store, held.run).cloud().get("job")):
        store.delete_all([entry.key for entry in store.list(f"{twin}/")])
    last = [f"{held.run}/{RESULT}", f"{held.run}/{JOB}"]
    store.delete_all(key for key in held.keys if key not in last)
    # What a node that was slow to leave wrote meanwhile: without its job nobody would find it again.
    store.delete_all([entry.key for entry in store.list(f"{held.run}/") if entry.key not in last])
    for key in last:
        store.delete(key)
    forget(held.run, store.url)
    left = nodes_folder() / held.run
    for node in left.iterdir() if left.is_dir() else ():
        remove_node_folder(node)


def _judged(folder: RunFolder, result: Result | None, entries: Sequence[Entry], now: float) -> tuple[str, May, str]:
    if result and now - result.ended_at > AFTERWARDS:
        return result.state, May.GO, ""
    nodes = folder.nodes() if any(entry.key.startswith(folder.at("nodes/")) for entry in entries) else []
    state = state_of(result, tuple(nodes))
    here = [node for node in nodes if not gone(node) and node.machine == this_machine()]
    elsewhere = [node for node in nodes if not gone(node) and node.machine != this_machine()]
    if here:
        return state, May.NOT, _told(f"it is {state}" if not result else "it is ending", here)
    if elsewhere:
        ended = f"it ended {age_text(now - result.ended_at)} ago" if result else f"it is {state}"
        return state, May.FORCED, _told(f"{ended}, as far as can be seen from here", elsewhere)
    if result:
        return state, May.GO, ""
    if not nodes and (launcher := folder.latest_launch()[1]).pid and not launcher.dead:
        return state, May.NOT if launcher.machine == this_machine() else May.FORCED, "it is being launched"
    return state, May.FORCED, f"it is {state}, and has no end: it could be taken up again"


def _told(how: str, nodes: Sequence[NodeRecord]) -> str:
    names = ", ".join(node.node for node in nodes[:3])
    return f"{how}: {names}{f' and {len(nodes) - 3} more' if len(nodes) > 3 else ''}"
