"""How one node is started here, and how it is ended: as processes of this machine. Containers have their own way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import IO, Protocol

from ..errors import LaunchError
from ..node import tree
from ..workdir.home import absolute_paths
from ..workdir.records import NodeRecord
from ..workdir.view import gone
from .base import RUN, NodePlan, Plan


class Starter(Protocol):
    """What differs between nodes that are processes and nodes that are containers.

    Either way a process of ours stands for the node: it lasts as long as the node does, and hands SIGTERM to it.
    """

    def start(self, node: NodePlan, folder: Path, errors: IO[bytes]) -> subprocess.Popen[bytes]:
        """Starts a node whose own output goes to `errors`. An `OSError` or a `LaunchError` says that it cannot be."""

    def confirm(self, node: NodePlan, folder: Path, process: subprocess.Popen[bytes]) -> bool:
        """Whether a node that was started has begun, or has ended already. False: it may still be refused."""

    def clear(self, name: str, process: subprocess.Popen[bytes]) -> None:
        """Ends now whatever runs for a node beside its program."""

    def kill(self, name: str, process: subprocess.Popen[bytes], record: NodeRecord | None) -> None:
        """Ends a node that did not end when it was asked."""

    def close(self) -> None:
        """No node is left, and none will come."""


class ProcessStarter:
    """Holds the pipe whose end tells the nodes that their launcher is gone."""

    def __init__(self, plan: Plan, run: str) -> None:
        self._secrets, self._run = plan.job.secrets, run
        self._lifeline, self._held = os.pipe()
        os.set_inheritable(self._lifeline, True)

    def start(self, node: NodePlan, folder: Path, errors: IO[bytes]) -> subprocess.Popen[bytes]:
        secrets = _secrets_pipe(self._secrets)
        try:
            return subprocess.Popen(
                node.command,
                cwd=folder,
                env=self._environment(node, secrets),
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                pass_fds=[pipe for pipe in (self._lifeline, secrets) if pipe is not None],
                start_new_session=True,
            )
        finally:
            if secrets is not None:
                os.close(secrets)

    def _environment(self, node: NodePlan, secrets: int | None) -> dict[str, str]:
        mine = {name: value.replace(RUN, self._run) for name, value in node.environment.items()}
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name not in self._secrets and (not name.startswith("MUSTER_") or name == "MUSTER_HOME")
        }
        pipes = {"MUSTER_LIFELINE": str(self._lifeline)}
        if secrets is not None:
            pipes["MUSTER_SECRETS"] = str(secrets)
        return {**absolute_paths(inherited), **mine, **pipes}

    def confirm(self, node: NodePlan, folder: Path, process: subprocess.Popen[bytes]) -> bool:
        return True  # the kernel has refused it at once, or not at all

    def clear(self, name: str, process: subprocess.Popen[bytes]) -> None:
        tree.kill(f"{self._run}/{name}/", descent=False)

    def kill(self, name: str, process: subprocess.Popen[bytes], record: NodeRecord | None) -> None:
        if record and not gone(record):
            tree.signal_all((record.pid,), signal.SIGKILL)  # the guardian then ends what the program left
            try:
                process.wait(1.0)
            except subprocess.TimeoutExpired:
                pass
        process.kill()
        process.wait()
        self.clear(name, process)

    def close(self) -> None:
        for pipe in (self._lifeline, self._held):
            if pipe >= 0:
                os.close(pipe)
        self._lifeline = self._held = -1


def secret_values(names: tuple[str, ...]) -> bytes:
    """The caller's secrets as a node reads them."""
    content = json.dumps({name: os.environ[name] for name in names}).encode()
    # A pipe holds 64 KiB without a reader; more secrets than that are no secrets.
    if len(content) > 60_000:
        raise LaunchError("secrets hold more than 60,000 bytes", "Put large files into `inputs`.")
    return content


def _secrets_pipe(names: tuple[str, ...]) -> int | None:
    """A pipe that holds the caller's secrets: in no file, no argument and no environment of the node program."""
    if not names:
        return None
    content = secret_values(names)
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    os.set_inheritable(reading, True)
    return reading
