"""The machine in front of you: each node a pair of processes with a folder and free ports of its own."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from ..errors import CodeError, LaunchError
from ..frameworks.base import Framework
from ..frameworks.registry import framework
from ..node.gpus import visible_gpus
from ..node.python import check_framework, interpreter
from ..spec.code_paths import CodeFile, from_image, image_folder
from ..spec.config import Target as TargetConfig
from ..spec.job import Job
from ..spec.locations import is_git
from ..spec.sources import code_source
from ..spec.units import size_text
from ..workdir.home import default_work_dir, home, nodes_folder
from ..workdir.loglines import LogLine
from ..workdir.opening import open_store
from ..workdir.records import EXIT_CODES, PROTOCOL, End, Verdict, fold
from ..workdir.run import RunFolder
from .base import RUN, CodePlan, NodePlan, Plan, Say, Sight, Swept
from .bundling import check_inputs, code_plan
from .local_nodes import LocalNodes

ADDRESS = "127.0.0.1"
_MAIN_GRACE = 5
"""Seconds: here nobody but the launcher brings a main back, and it does so at once."""
_BEGUN_WITHIN = 120.0
"""Seconds for a container to begin; a process does at once."""


class Local:
    remote = False

    def __init__(self, config: TargetConfig) -> None:
        self.config = config

    def plan(self, job: Job) -> Plan:
        if self.config.options.get("containers"):
            from . import local_containers

            return local_containers.plan(self.config, job, _main_grace(job))
        made = framework(job.framework)
        job = _without_image(job, Path(self.config.options.get("code", ".")))
        _check_files(job, made)
        # Written into the job, which is all that a node reads.
        job = replace(job, python=job.python or self.config.options.get("python"))
        python = interpreter(job.python)
        if not job.requirements:
            check_framework(python, made)
        check_inputs(job)
        work_dir = job.work_dir or self.config.work_dir or str(default_work_dir())
        code = code_plan(job, (Path(work_dir), home()))
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
            notes=(*_notes(job), *open_store(work_dir).capabilities.lacks()),
        )

    def _node(
        self,
        job: Job,
        made: Framework,
        name: str,
        work_dir: str,
        code: CodePlan | None,
        scratch: Path | None = None,
    ) -> NodePlan:
        role = name.partition("-")[0]
        folder = (scratch or Path(self.config.options.get("scratch") or nodes_folder())) / RUN / name
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
            "MUSTER_MAIN_GRACE": str(_main_grace(job)),
            **gpu_share(job, made, name),
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

    def logged_in(self, plan: Plan) -> AbstractContextManager[None]:
        return nullcontext()  # git has what its user has

    def reach(self, work_dir: str) -> str:
        return work_dir

    def launch(self, plan: Plan, run: str, say: Say) -> LocalNodes:
        """Starts every node, or none: what was started before a refusal is ended again."""
        made = framework(plan.job.framework)
        # What the target's own options said of folders stands in the plan.
        scratch = Path(plan.nodes[0].folder).parent.parent

        def make(name: str) -> NodePlan:
            if plan.settings.get("containers"):
                return local_containers.node_again(plan, name, _main_grace(plan.job))
            return self._node(plan.job, made, name, plan.work_dir, plan.code, scratch)

        starter = None
        if plan.settings.get("containers"):
            from . import local_containers

            starter = local_containers.starter(plan, run)
        nodes = LocalNodes(plan, run, make, starter)
        try:
            for node in plan.nodes:
                nodes.start(node)
            nodes.confirm(_BEGUN_WITHIN)
        except LaunchError as error:
            # The cause is written first: a result is written once, and the nodes that end now would write theirs.
            _refused(plan, run, error)
            nodes.end()
            raise
        except BaseException:
            nodes.end()
            raise
        return nodes

    def observe(self, plan: Plan, run: str) -> list[Sight]:
        return []  # nodes of this machine say all there is to say in the work dir

    def said(self, plan: Plan, run: str, since: float) -> Iterator[LogLine]:
        return iter(())

    def finish(self, plan: Plan, run: str, say: Say) -> None:
        """Nothing here costs, and nodes end with their launcher."""

    def scale(self, plan: Plan, run: str, workers: int) -> list[str]:
        return []  # the launcher, without which no node lives, starts them

    def sweep(self, say: Say, dry: bool = False) -> list[Swept]:
        return []


def _main_grace(job: Job) -> int:
    return _MAIN_GRACE if not job.retries else 6 * _MAIN_GRACE


def node_names(job: Job) -> list[str]:
    workers = [f"worker-{number}" for number in range(1, job.workers.first + 1)]
    return ["main", *workers, *(f"ps-{number}" for number in range(1, job.ps + 1))]


def gpu_share(job: Job, made: Framework, name: str) -> dict[str, str]:
    """How many GPUs the node has. All nodes share this machine's, so each that computes gets a part of its own.

    Where a job asks for more than there are, ranks have to share them, as a script may want to try here.
    """
    asked = job.role(name.partition("-")[0]).resources.gpus or job.resources.gpus
    workers = [f"worker-{number}" for number in range(1, job.workers.max + 1)]
    computing = [*(["main"] if made.main_computes(job) else []), *workers]
    here = visible_gpus()
    share = len(here) // max(len(computing), 1)
    each = share if asked is None else asked
    if name not in computing or not each:
        return {"MUSTER_GPUS": "0"}
    first = computing.index(name) * each
    own = here[first : first + each] if len(here) >= len(computing) * each else []
    return {"MUSTER_GPUS": str(each), **({"CUDA_VISIBLE_DEVICES": ",".join(own)} if own else {})}


def _without_image(job: Job, folder: Path) -> Job:
    """The job with the code that its image would have taken from a folder of this machine, as its paths then are."""
    place = image_folder(job)
    if place is None:
        return job
    job = from_image(job, folder)
    source = Path(job.code or "")
    why = f"The job's code lies in its image, at {place}; here it is taken from {source}. `--code DIR` names another."
    if not source.is_dir():
        raise CodeError(f"code: there is no folder {source}", why)
    if job.entry and not (source / job.entry).is_file():
        raise CodeError(f"entry: there is no {job.entry!r} in {source}", why)
    return job


def _check_files(job: Job, made: Framework) -> None:
    """Files that options name and that could be missing only when a process opens them."""
    options = {name for name, kind in made.options().items() if isinstance(kind, CodeFile)}
    source = Path(job.code) if job.code and job.code.startswith("/") else None
    for role in ("main", "worker", "ps"):
        for name in sorted(options & job.options_of(role).keys()):
            path = Path(job.options_of(role)[name])
            place = source / path if source and source.is_dir() else path
            if place.is_absolute() and not place.is_file():
                fix = "Put it there, or name another. A relative path starts at the code folder."
                raise CodeError(f"options.{name}: there is no file {place}", fix)


def _notes(job: Job) -> Iterator[str]:
    """What this machine does otherwise than the job file says, so that nothing is left out in silence."""
    if job.code and code_source(job.code):
        yield "code: fetched at launch, and then the same for all nodes"
    if job.image or any(role.image for role in job.roles.values()):
        yield "image: is not used: here the nodes are processes of this machine"
    if job.code and is_git(job.code):
        yield "code: git fetches it as you, with the keys and passwords that it finds here"
    wanted = job.resources
    if wanted.cpus and wanted.cpus > (os.cpu_count() or 1):
        yield f"resources.cpus: {wanted.cpus} wanted for each node, this machine has {os.cpu_count()} for all"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if wanted.memory and wanted.memory > memory:
        yield f"resources.memory: {size_text(wanted.memory)} wanted, this machine has {size_text(memory)}"
    if wanted.gpus:
        here = len(visible_gpus())
        yield f"resources.gpus: {wanted.gpus} wanted for each node; all nodes share the {here} of this machine"


def _refused(plan: Plan, run: str, error: LaunchError) -> None:
    verdict = Verdict(End.LAUNCH_REFUSED, EXIT_CODES[End.LAUNCH_REFUSED], error.message)
    result = fold(run, [verdict], generation=0, started_at=time.time(), ended_at=time.time())
    if result:
        RunFolder(open_store(plan.work_dir), run).write_result(result)
