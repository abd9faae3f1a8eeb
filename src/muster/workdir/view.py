"""A run as its readers see it, made from its folder alone: the read model of `ps`, `status` and whatever follows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..errors import MusterError
from .document import JobDocument
from .machine import Process
from .records import NodeRecord, Result
from .run import RunFolder


@dataclass(frozen=True)
class RunView:
    run: str
    work_dir: str
    state: str
    """created, starting, running, ending, lost, succeeded, failed or stopped"""
    job: JobDocument
    result: Result | None
    nodes: tuple[NodeRecord, ...]

    def to_json(self) -> dict[str, Any]:
        result = asdict(self.result) if self.result else None
        return {
            "run": self.run,
            "work_dir": self.work_dir,
            "state": self.state,
            "name": self.job.job.name,
            "framework": self.job.job.framework,
            "created_at": self.job.created_at,
            "result": result,
            "nodes": [asdict(node) for node in self.nodes],
        }


def view(folder: RunFolder) -> RunView:
    """How the run stands now."""
    document, result = folder.read_job(), folder.result()
    nodes = tuple(folder.nodes())
    return RunView(folder.run, folder.store.url, state_of(result, nodes), document, result, nodes)


def brief(folder: RunFolder) -> RunView | MusterError:
    """The same for a list, where one run that is damaged, or another Muster's, must not hide the others."""
    try:
        return view(folder)
    except MusterError as error:
        return error


def state_of(result: Result | None, nodes: tuple[NodeRecord, ...]) -> str:
    if result:
        return result.state
    if not nodes:
        return "created"
    if all(dead(node) for node in nodes):
        return "lost"
    main = next((node for node in nodes if node.role == "main"), None)
    if main is None or main.state in ("claiming", "preparing", "meeting", "gathering"):
        return "starting"
    return "ending" if main.state in ("ending", "ended") else "running"


def gone(node: NodeRecord) -> bool:
    """Ended, or, where we can know it because it ran on this machine, no longer there."""
    return node.state == "ended" or dead(node)


def dead(node: NodeRecord) -> bool:
    """Known to be no longer there, because it ran on this machine and its process is gone."""
    return Process(node.machine, node.pid, node.pid_started).dead
