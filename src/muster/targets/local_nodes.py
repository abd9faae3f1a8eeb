"""The nodes of a local run while their launcher is there: started, looked after, ended."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ..errors import LaunchError, StoreBusy, StoreError
from ..node import tree
from ..workdir.home import tidy_node_folder
from ..workdir.opening import open_store
from ..workdir.records import EXIT_CODES, End, Verdict, fold
from ..workdir.run import RunFolder
from .base import RUN, NodePlan, Plan
from .starting import ProcessStarter, Starter

_ASKED = 20.0
"""Seconds that a node has to end its processes and bring its things home once it is asked."""


class LocalNodes:
    """The same for nodes that are processes and nodes that are containers: a `Starter` knows the difference."""

    def __init__(self, plan: Plan, run: str, make: Callable[[str], NodePlan], starter: Starter | None = None) -> None:
        """`make` plans a node that was not there at first, by its name."""
        self.run = run
        self._starter = starter or ProcessStarter(plan, run)
        self._plan, self._make = plan, make
        self._folder = RunFolder(open_store(plan.work_dir), run)
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self._restarts: dict[str, int] = {}
        self._wanted: int | None = None
        self._looked_at = 0.0
        self._main_gone_at: float | None = None
        self._ending = False
        self.said: list[str] = []
        """What nodes said that could not even begin."""

    def start(self, node: NodePlan) -> None:
        """Starts one node; its own output, which is seldom any, goes to a file in its folder."""
        folder = self._folder_of(node)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _errors(folder).open("ab") as errors:
                self._nodes[node.name] = self._starter.start(node, folder, errors)
        except (OSError, LaunchError) as error:
            with suppress(OSError):
                _errors(folder).unlink()
            tidy_node_folder(folder)
            if isinstance(error, LaunchError):
                raise
            raise LaunchError(f"{node.name} could not be started: {error}") from error

    def confirm(self, within: float) -> None:
        """Waits until all nodes have begun, so that one that is refused takes back the launch of all."""
        until = time.monotonic() + within
        waiting = [node for node in self._plan.nodes if node.name in self._nodes]
        while waiting := [node for node in waiting if not self._begun(node)]:
            if time.monotonic() > until:
                raise LaunchError(f"{waiting[0].name} did not begin within {within:g} s")
            time.sleep(0.02)  # what begins is a container, of which there is no event to wait for

    def _begun(self, node: NodePlan) -> bool:
        process, folder = self._nodes[node.name], self._folder_of(node)
        if self._starter.confirm(node, folder, process):
            return True
        if process.poll() is None:
            return False
        if self._folder.node(node.name):
            return True  # it has come and gone, and tells itself how it ended
        told = _errors(folder).read_text(errors="replace").strip() or f"it ended with {process.returncode}"
        raise LaunchError(f"{node.name} could not be started: {told}")

    def _folder_of(self, node: NodePlan) -> Path:
        return Path(node.folder.replace(RUN, self.run))

    def poll(self) -> bool:
        """Looks after the nodes: a lost one is started again while the job allows; true when none is left."""
        try:
            return self._look_after()
        except StoreBusy:
            return False  # the nodes can wait for a work dir that is away, and so can we

    def _look_after(self) -> bool:
        for name, process in list(self._nodes.items()):
            if process.poll() is None:
                continue
            del self._nodes[name]
            try:
                self._ended(name, process)
            except StoreBusy:
                self._nodes[name] = process  # whether it is to be started again is judged at the next look
                raise
        if self._nodes:
            self._hurry()
            self._scale()
            return False
        self._conclude()
        return True

    def _scale(self) -> None:
        """Starts nodes that somebody has asked for meanwhile. Those that are one too many main lets go itself."""
        workers, pause = self._plan.job.workers, self._folder.store.capabilities.poll_seconds
        if not workers.elastic or self._ending or time.monotonic() - self._looked_at < pause:
            return
        self._looked_at = time.monotonic()
        wanted = self._folder.wanted()
        if wanted is None or ("main" not in self._nodes) or self._folder.result():
            return
        before, self._wanted = self._wanted, wanted
        absent = [
            name for name in (f"worker-{number}" for number in range(1, workers.max + 1)) if name not in self._nodes
        ]
        may_start = [name for name in absent if wanted != before or self._released(name)]
        for name in may_start[: max(0, wanted - self._workers())]:
            try:
                self.start(self._node(name))
            except LaunchError as error:
                self.said.append(f"{name}: {error.message}")  # the run goes on without it

    def _workers(self) -> int:
        return len([name for name in self._nodes if name.startswith("worker-")])

    def _released(self, name: str) -> bool:
        record = self._folder.node(name)
        return record is not None and record.verdict is not None and record.verdict.end is End.RELEASED

    def _node(self, name: str) -> NodePlan:
        return next((node for node in self._plan.nodes if node.name == name), None) or self._make(name)

    def _hurry(self) -> None:
        """Nodes that are still there long after the end of their run are asked to go."""
        if "main" in self._nodes:
            return
        self._main_gone_at = self._main_gone_at or time.monotonic()
        if time.monotonic() - self._main_gone_at > _ASKED and self._folder.result():
            for process in self._nodes.values():
                tree.signal_all((process.pid,), signal.SIGTERM)

    def _ended(self, name: str, process: subprocess.Popen[bytes]) -> None:
        self._starter.clear(name, process)
        node = self._node(name)
        folder = self._folder_of(node)
        errors = _errors(folder)
        with suppress(FileNotFoundError):
            self.said += [f"{name}: {line}" for line in errors.read_text(errors="replace").splitlines()]
            errors.unlink()
        record = self._folder.node(name)
        lost = record is None or record.state != "ended"
        surplus = self._wanted is not None and name.startswith("worker-") and self._workers() >= self._wanted
        may_restart = not self._ending and not surplus and self._restarts.get(name, 0) < self._plan.job.retries
        if lost and may_restart and not self._folder.result():
            self._restarts[name] = self._restarts.get(name, 0) + 1
            self.start(node)
            return
        if not tidy_node_folder(folder) and lost:
            self.said.append(f"{name}: not all could be brought home: what is left is in {folder}")
        if lost and name == "main" and self._folder.latest_main() is None:
            # Nobody will ever be main: without a word the others would wait for it until their time is up.
            self._folder.conclude(self._main_lost())

    def _conclude(self) -> None:
        """Where no node was left to say how it ended, whoever started them says so."""
        self._starter.close()
        if self._folder.result():
            return
        verdicts = [record.verdict for record in self._folder.nodes() if record.verdict]
        verdicts.append(self._main_lost())
        result = fold(self.run, verdicts, generation=0, started_at=0.0, ended_at=time.time())
        if result:
            self._folder.write_result(result)

    def _main_lost(self) -> Verdict:
        return Verdict(End.MAIN_LOST, EXIT_CODES[End.MAIN_LOST], "\n".join(self.said) or "main ended without a word")

    def hurry(self) -> None:
        """Each poll looks at all nodes."""

    def wait(self, seconds: float) -> None:
        """Waits until a node has ended, or for so long."""
        if not hasattr(os, "pidfd_open"):
            time.sleep(min(seconds, 0.05))
            return
        pipes: list[int] = []
        try:
            pipes += [os.pidfd_open(process.pid) for process in self._nodes.values() if process.returncode is None]
            # Not `select`, which fails on numbers above 1,023.
            ends = select.poll()
            for pipe in pipes:
                ends.register(pipe, select.POLLIN)
            ends.poll(seconds * 1000)
        except ProcessLookupError:
            pass  # it has ended and is waited for by the next look
        except OSError:
            time.sleep(min(seconds, 0.05))  # an old kernel, or a container that forbids it
        finally:
            for pipe in pipes:
                os.close(pipe)

    def end(self) -> None:
        """Ends the processes of all nodes now, lets the nodes bring home what is there, and makes sure of their end."""
        self._ending = True
        for name, process in self._nodes.items():
            tree.signal_all((process.pid,), signal.SIGTERM)
            self._starter.clear(name, process)
        until = time.monotonic() + _ASKED
        while self._nodes and time.monotonic() < until:
            self.wait(0.2)
            if self.poll():
                return
        for name, process in list(self._nodes.items()):
            record = None
            with suppress(StoreError):
                record = self._folder.node(name)
            self._starter.kill(name, process, record)
        self.poll()


def _errors(folder: Path) -> Path:
    """Taken away with the folder by a node that could do its work; what is left is what one said that could not."""
    return folder / "node.err"
