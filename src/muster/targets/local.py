"""The machine in front of you: each node a pair of processes with a folder and free ports of its own."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ..errors import CodeError, LaunchError
from ..frameworks.base import Framework
from ..frameworks.registry import framework
from ..node.python import check_framework, interpreter
from ..spec.config import Target as TargetConfig
from ..spec.job import Job
from ..spec.units import size_text
from ..workdir.home import default_work_dir, home, nodes_folder
from ..workdir.opening import open_store
from ..workdir.records import EXIT_CODES, PROTOCOL, End, Verdict, fold
from ..workdir.run import RunFolder
from .base import RUN, CodePlan, NodePlan, Plan
from .local_nodes import LocalNodes

ADDRESS = "127.0.0.1"
_MAIN_GRACE = 5
"""Seconds: here nobody but the launcher brings a main back, and it does so at once."""


class Local:
    def __init__(self, config: TargetConfig) -> None:
        self.config = config

    def plan(self, job: Job) -> Plan:
        made = framework(job.framework)
        # Written into the job, which is all that a node reads.
        job = replace(job, python=job.python or self.config.options.get("python"))
        python = interpreter(job.python)
        if not job.requirements:
            check_framework(python, made)
        _check_inputs(job)
        work_dir = job.work_dir or self.config.work_dir or str(default_work_dir())
        code = _code(job, (Path(work_dir), home()))
        return Plan(
            target=self.config.name,
            kind="local",
            job=job,
            work_dir=work_dir,
            code=code,
            python=python,
            requirements=job.requirements,
            nodes=tuple(self._node(job, made, name, work_dir, code) for name in node_names(job)),
            network=f"nothing outside this machine; on {ADDRESS}, each moved where taken: {made.open_ports(job)}",
            notes=tuple(_notes(job)),
        )

    def _node(self, job: Job, made: Framework, name: str, work_dir: str, code: CodePlan | None) -> NodePlan:
        role = name.partition("-")[0]
        folder = Path(self.config.options.get("scratch") or nodes_folder()) / RUN / name
        environment = {
            "MUSTER_LAUNCHED": "1",
            "MUSTER_PROTOCOL": str(PROTOCOL),
            "MUSTER_WORK_DIR": work_dir,
            "MUSTER_RUN_ID": RUN,
            "MUSTER_MODE": role.upper(),
            "MUSTER_NODE": name,
            "MUSTER_FOLDER": str(folder),
            "MUSTER_ADDRESS": ADDRESS,
            "MUSTER_FREE_PORTS": "1",
            "MUSTER_MAIN_GRACE": str(_MAIN_GRACE if not job.retries else 6 * _MAIN_GRACE),
            # The nodes share this machine's GPUs, so none may count them all as its own.
            "MUSTER_GPUS": str(job.role(role).resources.gpus or job.resources.gpus or 0),
        }
        if code:
            environment["MUSTER_CODE"] = code.digest
        return NodePlan(
            name=name,
            role=role,
            command=(sys.executable, "-m", "muster.node"),
            environment=environment,
            folder=str(folder),
            ports={port.name: str(port) for port in made.ports(job, role)},
        )

    def launch(self, plan: Plan, run: str) -> LocalNodes:
        """Starts every node, or none: what was started before a refusal is ended again."""
        nodes = LocalNodes(plan, run)
        try:
            for node in plan.nodes:
                nodes.start(node)
        except LaunchError as error:
            # The cause is written first: a result is written once, and the nodes that end now would write theirs.
            _refused(plan, run, error)
            nodes.end()
            raise
        except BaseException:
            nodes.end()
            raise
        return nodes


def node_names(job: Job) -> list[str]:
    workers = [f"worker-{number}" for number in range(1, job.workers.max + 1)]
    return ["main", *workers, *(f"ps-{number}" for number in range(1, job.ps + 1))]


def _notes(job: Job) -> Iterator[str]:
    """What this machine does otherwise than the job file says, so that nothing is left out in silence."""
    if job.image or any(role.image for role in job.roles.values()):
        yield "image: is not used: here the nodes are processes of this machine"
    wanted = job.resources
    if wanted.cpus and wanted.cpus > (os.cpu_count() or 1):
        yield f"resources.cpus: {wanted.cpus} wanted for each node, this machine has {os.cpu_count()} for all"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if wanted.memory and wanted.memory > memory:
        yield f"resources.memory: {size_text(wanted.memory)} wanted, this machine has {size_text(memory)}"
    if wanted.gpus:
        yield f"resources.gpus: every node starts {wanted.gpus} processes, and all share this machine's GPUs"


def _check_inputs(job: Job) -> None:
    """Inputs of this machine are linked into place; those elsewhere cannot be fetched by this version."""
    remote = [source for source in job.inputs.values() if "://" in source]
    if remote:
        raise CodeError(f"inputs: {remote[0]} cannot be fetched by this version", "Give a path of this machine.")
    absent = [source for source in job.inputs.values() if not Path(source).exists()]
    if absent:
        raise CodeError(f"inputs: {absent[0]} is not there", "Give the path of a file or folder of this machine.")


def _code(job: Job, own: tuple[Path, ...]) -> CodePlan | None:
    """The code as it will be bundled, without the folders of our `own` that may lie inside it."""
    if job.code is None or job.code.startswith("image:"):
        return None
    if "://" in job.code or job.code.startswith("git@"):
        raise CodeError(
            f"code: {job.code} cannot be fetched by this version", "Give a folder or a file of this machine."
        )
    from ..workdir.bundle import scan
    from ..workdir.ignore import literal

    source = Path(job.code)
    ignored = tuple(literal(folder.relative_to(source)) for folder in own if source in folder.parents)
    manifest = scan(source, ignored)
    return CodePlan(job.code, manifest.digest, len(manifest.files), manifest.bytes, ignored)


def _refused(plan: Plan, run: str, error: LaunchError) -> None:
    verdict = Verdict(End.LAUNCH_REFUSED, EXIT_CODES[End.LAUNCH_REFUSED], error.message)
    result = fold(run, [verdict], generation=0, started_at=time.time(), ended_at=time.time())
    if result:
        RunFolder(open_store(plan.work_dir), run).write_result(result)
