"""Nodes that are containers of this machine: started, confirmed, ended, and nothing of them left behind."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import zlib
from contextlib import suppress
from pathlib import Path
from typing import IO

from ..errors import LaunchError, MusterError
from ..images.tool import Tool
from ..node.archive import store_program
from ..node.boot import boot_environment
from ..workdir.bundle import fetch_code
from ..workdir.opening import open_store
from ..workdir.records import NodeRecord
from .base import RUN, NodePlan, Plan
from .starting import secret_values

BEGUN = "begun"
FILES = "files"
"""Where a node's folder has the code; the container has it at `/code`, and the node program finds it as `code`."""
LABEL = "muster.run"
_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")
_GONE_WITHIN = 60.0


class ContainerStarter:
    """Each node is a container that one process of the tool stays attached to.

    The node's standard input is its lifeline: when the launcher is gone, however it went, the tool sees the end of
    what it reads, the container too, and the node ends itself. A keeper in a session of its own waits for the same
    end, and then takes away what is left: a container that did not end, the network, folders.
    """

    def __init__(self, plan: Plan, run: str, tool: Tool) -> None:
        self._plan, self._run, self._tool = plan, run, tool
        self._keeper: subprocess.Popen[bytes] | None = None
        self._boot = ""

    def start(self, node: NodePlan, folder: Path, errors: IO[bytes]) -> subprocess.Popen[bytes]:
        self._open(folder.parent)
        self._lay_out(folder)
        told = self._told(node)
        process = subprocess.Popen(
            [word.replace(RUN, self._run) for word in node.command],
            cwd=folder,
            env={**self._own_environment(), "MUSTER_BOOT": self._boot},
            stdin=subprocess.PIPE,
            stdout=errors,
            stderr=errors,
            start_new_session=True,
        )
        try:
            assert process.stdin is not None  # noqa: S101 - it is a pipe
            process.stdin.write(b"%08d" % len(told) + told)
            process.stdin.flush()
        except OSError:
            pass  # the tool was refused and has ended: what it said is read when it is confirmed
        return process

    def _open(self, folder: Path) -> None:
        """What all containers of the run share: made with the first of them."""
        if self._keeper is not None:
            return
        store = open_store(self._plan.work_dir)
        boot = boot_environment(store_program(store))
        self._boot = _with_prelude(boot["MUSTER_BOOT"])
        self._program = boot["MUSTER_PROGRAM"]
        self._keeper = subprocess.Popen(
            [sys.executable, "-m", "muster.targets.container_keeper", self._tool.program, self._run, str(folder)],
            cwd="/",
            env=self._own_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            for image in sorted({str(one.payload["image"]) for one in self._plan.resources if "image" in one.payload}):
                if self._tool.look(image) is None:
                    self._tool.ask("pull", "--quiet", *self._tool.plainly(image), image, about=image, within=None)
            name = f"muster-{self._run}"
            self._tool.ask("network", "create", "--label", f"{LABEL}={self._run}", name)
        except MusterError as error:
            raise LaunchError(error.message, error.fix) from error

    def _own_environment(self) -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if name not in self._plan.job.secrets}

    def _lay_out(self, folder: Path) -> None:
        """The code, as the container will have it: checked here, a copy for each node, which may write into it."""
        (folder / BEGUN).unlink(missing_ok=True)
        if not self._plan.code:
            return
        if not (folder / FILES).exists():
            fetch_code(open_store(self._plan.work_dir), self._plan.code.digest, folder / FILES)
        with suppress(FileExistsError):
            (folder / "code").symlink_to("/code")

    def _told(self, node: NodePlan) -> bytes:
        """What the container hears first. Proxies may hold a password, so that they are in here as well."""
        proxies = {name: value for name, value in os.environ.items() if name.lower() in _PROXIES}
        own = {name: value.replace(RUN, self._run) for name, value in node.environment.items()}
        environment = {**proxies, **own, "MUSTER_PROGRAM": self._program}
        secrets = json.loads(secret_values(self._plan.job.secrets)) if self._plan.job.secrets else {}
        return json.dumps({"environment": environment, "secrets": secrets}).encode()

    def confirm(self, node: NodePlan, folder: Path, process: subprocess.Popen[bytes]) -> bool:
        return (folder / BEGUN).exists()

    def clear(self, name: str, process: subprocess.Popen[bytes]) -> None:
        if process.returncode is None:
            return  # its node ends its own processes, as it was asked to
        if process.stdin:
            with suppress(OSError):
                process.stdin.close()
        if process.returncode < 0:
            self._remove(name)  # the tool was killed, which says nothing of its container

    def kill(self, name: str, process: subprocess.Popen[bytes], record: NodeRecord | None) -> None:
        self._remove(name)
        process.kill()
        process.wait()

    def _remove(self, name: str) -> None:
        with suppress(MusterError):  # it was gone already, or the keeper tries again
            self._tool.ask("rm", "-f", "-v", container_name(self._run, name))

    def close(self) -> None:
        """Lets the keeper take away what is left, and waits until it has."""
        keeper, self._keeper = self._keeper, None
        if keeper is None or keeper.stdin is None:
            return
        keeper.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            keeper.wait(_GONE_WITHIN)


def container_name(run: str, node: str) -> str:
    return f"muster-{run}-{node}"


def _with_prelude(boot: str) -> str:
    """The boot of nodes in any image, told first what comes over standard input."""
    prelude = Path(__file__).with_name("_container_prelude.py").read_bytes()
    return base64.b64encode(zlib.compress(prelude + b"\n" + zlib.decompress(base64.b64decode(boot)), 9)).decode()
