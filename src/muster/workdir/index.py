"""The user's own index of runs, one small file each, so that `muster ps` finds them wherever their work dirs are."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ..errors import RunNotFound
from .home import index_folder, launcher_log


@dataclass(frozen=True)
class IndexEntry:
    run: str
    work_dir: str
    target: str
    created_at: float


def remember(entry: IndexEntry) -> None:
    folder = index_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{entry.run}.json"
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(asdict(entry)) + "\n")
    temporary.replace(path)


def forget(run: str, work_dir: str) -> None:
    """Takes a run out of the index, if the one that is there under this id is of this work dir."""
    from .opening import open_store

    path = index_folder() / f"{run}.json"
    found = _read(path)
    if found and open_store(found.work_dir).url == work_dir:
        path.unlink(missing_ok=True)
        launcher_log(run).unlink(missing_ok=True)


def entries() -> list[IndexEntry]:
    """All runs launched from here, the newest first. A damaged entry is left out: its run is in its work dir."""
    folder = index_folder()
    paths = folder.glob("*.json") if folder.is_dir() else ()
    found = (entry for path in paths if (entry := _read(path)))
    return sorted(found, key=lambda entry: entry.created_at, reverse=True)


def find(wish: str) -> IndexEntry:
    """The run of this id; or the only one whose id begins so; or, for a job's name, its latest."""
    exact = _read(index_folder() / f"{wish}.json") if "/" not in wish else None
    if exact:
        return exact
    known = entries()
    matches = [entry for entry in known if entry.run.startswith(wish)]
    named = [entry for entry in matches if entry.run.rpartition("-")[0] == wish]
    if wish and len(matches) == 1:
        return matches[0]
    if named:
        return named[0]
    if wish and matches:
        raise RunNotFound(
            f"{wish!r} could be any of {', '.join(entry.run for entry in matches[:5])}",
            "Give more of the id.",
        )
    latest = (
        f"The latest is {known[0].run}; `muster ps` lists all."
        if known
        else "There are none yet: `muster run` starts one."
    )
    raise RunNotFound(f"no run is called {wish!r}", latest)


def _read(path: Path) -> IndexEntry | None:
    try:
        value = json.loads(path.read_text())
        return IndexEntry(value["run"], value["work_dir"], value["target"], float(value["created_at"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
