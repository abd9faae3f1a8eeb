"""Launching a job and holding on to its run: the verbs of the command as functions."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import AlreadyExists, JobError, LaunchError, MusterError, NotFound, Problem, ScaleError
from .frameworks.registry import Known
from .spec.code_paths import image_folder
from .spec.config import Target as TargetConfig
from .spec.config import load_config
from .spec.job import Job
from .spec.load import checked
from .spec.load import load as load_job
from .spec.load import load_both as _load_both
from .spec.sources import code_source
from .targets.base import CodePlan, Launched, Plan, Sight, Target
from .targets.registry import target
from .workdir.document import CodeRef, JobDocument
from .workdir.home import absolute_paths, index_folder, launcher_log
from .workdir.index import IndexEntry, entries, find, remember
from .workdir.loglines import LogLine
from .workdir.machine import Process, this_machine
from .workdir.names import find_run
from .workdir.opening import open_store
from .workdir.progress import Progress, unseen
from .workdir.records import EXIT_CODES, End, Result, Verdict, fold
from .workdir.run import RunFolder, new_run_id
from .workdir.view import dead, gone

if TYPE_CHECKING:
    from .spec.ads_where import Where

Say = Callable[[str], None]
_STOPPED_WITHIN = 60.0
_CLOUD_ASKED = 30.0
"""Seconds between questions to a cloud whether a run's machines are all gone."""


def load(path: str | os.PathLike[str]) -> Job:
    """The job in this file, checked. Every mistake is in the one `JobError` that it may raise."""
    return load_job(path, Known())


def load_both(path: str | os.PathLike[str]) -> tuple[Job, Where | None]:
    """The job in this file, and where an Oracle ADS file says that its nodes run."""
    return _load_both(path, Known())


def target_of(path: str | os.PathLike[str], on: str | None = None) -> tuple[Job, TargetConfig]:
    """The job in this file, and the target that it runs on."""
    job, where = load_both(path)
    return job, _chosen(on, Path(path).parent, where)


def _chosen(on: str | None, folder: str | os.PathLike[str], where: Where | None) -> TargetConfig:
    """A target of `muster.toml`. What an Oracle ADS file says of where it runs goes before what stands there."""
    config = load_config(folder)
    name = on or config.default
    known = config.targets.get(name)
    if where is None or (known.kind if known else name) != "oci":
        return config.target(on)
    said = where.target(name)
    if known is None:
        return said
    return replace(known, work_dir=said.work_dir or known.work_dir, options={**known.options, **said.options})


def plan(
    job: Job,
    on: str | None = None,
    folder: str | os.PathLike[str] = ".",
    code: str | os.PathLike[str] | None = None,
    where: Where | None = None,
    containers: bool = False,
) -> Plan:
    """What `run` would create, on the target called `on` in the `muster.toml` of `folder`. Touches nothing.

    `code` is the folder that code of an image is taken from where no image is used; by default it is `folder`.
    `where` is what an Oracle ADS file says of that. `containers`: of the job's image, where this machine is the target.
    """
    if code is not None and image_folder(job) is None:
        message = f"--code stands for code that lies in an image, and the job's code is {job.code}"
        raise JobError([Problem(message, "Leave --code out, or write `code: image:/code` into the job.")])
    chosen = _chosen(on, folder, where)
    chosen = replace(chosen, options={**chosen.options, "code": str(folder if code is None else code)})
    if containers:
        chosen = _with_containers(chosen)
    return target(chosen).plan(checked(job, Known()))


def _with_containers(chosen: TargetConfig) -> TargetConfig:
    if chosen.kind != "local":
        raise LaunchError(f"--containers is for this machine; nodes of {chosen.name} are containers anyway")
    return replace(chosen, options={**chosen.options, "containers": "1"})


def run(
    job: Job,
    on: str | None = None,
    folder: str | os.PathLike[str] = ".",
    detach: bool = False,
    code: str | os.PathLike[str] | None = None,
) -> Run:
    """Starts a run of the job. It ends with this process unless it is detached."""
    return start(plan(job, on, folder, code), detach=detach)


def runs() -> list[Run]:
    """The runs launched from this account, the newest first."""
    return [Run(entry.run, entry.work_dir) for entry in entries()]


class Run:
    """One launch of a job."""

    def __init__(self, run: str, work_dir: str, launched: Launched | None = None) -> None:
        self.id, self.work_dir = run, work_dir
        self._launched = launched
        self._ask_cloud_at = 0.0

    @classmethod
    def find(cls, wish: str, work_dir: str | None = None) -> Run:
        """The run of this id, or of the id that begins so; `work_dir` where it was launched elsewhere."""
        if work_dir is None:
            entry = find(wish)
            return cls(entry.run, entry.work_dir)
        return cls(find_run(open_store(work_dir), wish), work_dir)

    @cached_property
    def folder(self) -> RunFolder:
        return RunFolder(open_store(self.work_dir), self.id)

    @cached_property
    def launch_plan(self) -> Plan | None:
        """The plan that it was launched by; None where its nodes were started by themselves."""
        try:
            return read_plan(self.folder)
        except LaunchError:
            return None

    @cached_property
    def cloud(self) -> Target | None:
        """The target whose nodes go on without a launcher; None where there is no such cloud to ask."""
        found = target(self.launch_plan.config()) if self.launch_plan else None
        return found if found and found.remote else None

    def observe(self) -> list[Sight]:
        """The nodes as their cloud sees them."""
        return self.cloud.observe(self.launch_plan, self.id) if self.cloud and self.launch_plan else []

    def said(self) -> Iterator[LogLine]:
        """What its nodes said to their cloud."""
        if not self.cloud or not self.launch_plan:
            return iter(())
        return self.cloud.said(self.launch_plan, self.id, self.folder.read_job().created_at)

    def finish(self, say: Say = lambda _text: None) -> None:
        """Makes sure that nothing of the run is left in its cloud."""
        if self.cloud and self.launch_plan:
            self.cloud.finish(self.launch_plan, self.id, say)

    def poll(self) -> Result | None:
        """The result, or None while the run goes on. Looks after nodes that were started from here."""
        if self._launched and not self._launched.poll():
            return None
        return self.folder.result() or self._lost()

    def _lost(self) -> Result | None:
        """A run whose nodes were all killed has nobody left to write its end; whoever finds it so does."""
        folder = self.folder
        number, launcher = folder.latest_launch()
        if number and not launcher.dead and not self._launched:
            return folder.result()  # it may be starting a lost node again at this moment
        nodes = folder.nodes()
        gone = all(dead(node) for node in nodes) if nodes else False
        if (not gone and not self._cloud_is_empty()) or folder.result():
            return folder.result()
        verdict = Verdict(End.MAIN_LOST, EXIT_CODES[End.MAIN_LOST], "all nodes are gone, and none said why")
        started = nodes[0].started_at if nodes else folder.read_job().created_at
        return self._conclude([verdict, *(node.verdict for node in nodes if node.verdict)], started)

    def _cloud_is_empty(self) -> bool:
        """Whether all machines of the run are gone, as their cloud says, which is seldom asked."""
        if not self.cloud or self._launched or time.monotonic() < self._ask_cloud_at:
            return False
        self._ask_cloud_at = time.monotonic() + _CLOUD_ASKED
        try:
            seen = self.observe()
        except MusterError:
            return False  # who may not ask, or gets no answer, knows no more than the work dir
        return bool(seen) and all(one.final for one in seen)

    def _conclude(self, verdicts: list[Verdict], started_at: float) -> Result | None:
        result = fold(self.id, verdicts, generation=0, started_at=started_at, ended_at=time.time())
        if result:
            self.folder.write_result(result)
        return self.folder.result()

    def wait(self, timeout: float | None = None) -> Result:
        """Waits for the end."""
        if result := self._within(timeout):
            return result
        raise MusterError(f"run {self.id} has not ended within {timeout:g} s")

    def _within(self, timeout: float | None) -> Result | None:
        until = math.inf if timeout is None else time.monotonic() + timeout
        pause, slowest = 0.5, max(0.5, self.folder.store.capabilities.poll_seconds)
        while (result := self.poll()) is None:
            if time.monotonic() >= until:
                return None
            self.pause(min(pause, max(0.0, until - time.monotonic())))
            # Nodes of ours wake us when they end; whoever else is asked again and again is asked ever less often.
            pause = pause if self._launched else min(1.5 * pause, slowest)
        return result

    def has_nodes(self) -> bool:
        """Whether nodes that were started from here are left."""
        return self._launched is not None and not self._launched.poll()

    def hurry(self) -> None:
        """Looks after nodes that were started from here at once, because the run has ended."""
        if self._launched:
            self._launched.hurry()

    def pause(self, seconds: float) -> None:
        """Waits for a node started from here to end, or for so long."""
        if self._launched:
            self._launched.wait(seconds)
        else:
            time.sleep(seconds)

    def stop(self, why: str = "stopped by its user", wait: bool = True) -> Result | None:
        """Asks the run to end, and waits until it has."""
        if result := self.folder.result():
            return result
        self.folder.request_stop(why, by="user")
        if self._launched is None and not self.folder.nodes():
            # Its launcher died before the first node, or has not got there yet: nobody else would write the end.
            verdict = Verdict(End.STOP_REQUESTED, EXIT_CODES[End.STOP_REQUESTED], why)
            return self._conclude([verdict], time.time())
        from .node.watching import ask_to_stop

        ask_to_stop(self.folder, why)
        if not wait:
            return None
        return self._within(_STOPPED_WITHIN) or self._ended_by_cloud(why)

    def _ended_by_cloud(self, why: str) -> Result | None:
        """Nodes that cannot be asked any more are ended all the same, where somebody else can."""
        if not self.cloud:
            raise MusterError(f"run {self.id} has not ended within {_STOPPED_WITHIN:g} s")
        self.finish()
        told = f"{why}; its nodes did not answer, and were ended by their cloud"
        return self._conclude([Verdict(End.STOP_REQUESTED, EXIT_CODES[End.STOP_REQUESTED], told)], time.time())

    def scale(self, workers: int) -> None:
        """Asks for so many workers from now on, within the bounds of the job."""
        folder = self.folder
        if result := folder.result():
            raise ScaleError(f"run {self.id} has ended: {result.end.value}", "Start the job again as a new run.")
        if not folder.nodes() and folder.latest_launch()[1].dead and not self.observe():
            fix = f"Take it up first: `muster run --resume {self.id}`."
            raise ScaleError(f"run {self.id} has no nodes yet, and its launcher is gone", fix)
        bounds = folder.read_job().job.workers
        if not bounds.elastic:
            fix = f"An elastic job says so in its file: `workers: {{min: 1, max: {max(bounds.max, workers, 2)}}}`."
            raise ScaleError(f"run {self.id} has a fixed size of {bounds.max} workers", fix)
        if not bounds.min <= workers <= bounds.max:
            raise ScaleError(
                f"run {self.id} cannot have {workers} workers",
                f"Its job allows {bounds.min} to {bounds.max}.",
            )
        folder.request_scale(workers, by="user")
        if self.cloud and self.launch_plan:
            self.cloud.scale(self.launch_plan, self.id, workers)
        from .node.watching import ask_to_look

        ask_to_look(folder)

    def workers(self) -> list[str] | None:
        """The workers that take part now; None while the cluster forms, or starts anew at another size."""
        nodes = [node for node in self.folder.nodes() if not gone(node)]
        if len({(node.state, node.generation) for node in nodes if node.state != "ending"}) != 1:
            return None
        return [node.node for node in nodes if node.role == "worker" and node.state == "running"]

    def end(self) -> None:
        """Ends nodes that were started from here, at once."""
        if self._launched:
            self._launched.end()

    def outputs(self, to: str | os.PathLike[str]) -> Iterator[tuple[str, int]]:
        """Brings what the script left into a folder; yields each path as it arrives."""
        from .workdir.sync import fetch_outputs

        return fetch_outputs(self.folder, Path(to))


def start(
    plan: Plan, detach: bool = False, say: Say = lambda _text: None, progress: Callable[[str], Progress] | None = None
) -> Run:
    """Carries a plan out. The intent is durable before the first node exists.

    `progress` is asked, with words for what is done, for something to tell how far it has come.
    """
    _check_secrets(plan)
    run_id = record(plan, say, progress("uploading the code") if progress else unseen)
    if plan.code and not plan.code.digest:
        plan = read_plan(RunFolder(open_store(_here(plan)), run_id))  # with the code that was fetched
    if detach and not target(plan.config()).remote:
        return _detached(plan, run_id)
    return _launched(plan, run_id, say)


def resume(wish: str, work_dir: str | None = None, detach: bool = False, say: Say = lambda _text: None) -> Run:
    """Takes up a run whose launcher died before it had started every node."""
    found = Run.find(wish, work_dir)
    if result := found.folder.result():
        raise LaunchError(f"run {found.id} has ended already: {result.end.value}", "Start the job again as a new run.")
    plan = read_plan(found.folder)
    if target(plan.config()).remote:
        return _launched(plan, found.id, say)
    alive = [record.node for record in found.folder.nodes() if not gone(record)]
    if alive:
        raise LaunchError(
            f"run {found.id} still has nodes: {', '.join(alive)}",
            f"Its launcher is there: see `muster status {found.id}`, or end it with `muster stop {found.id}`.",
        )
    _check_secrets(plan)
    return _detached(plan, found.id) if detach else _launched(plan, found.id, say)


def _here(plan: Plan) -> str:
    """The plan's work dir as this machine opens it."""
    return target(plan.config()).reach(plan.work_dir)


def _launched(plan: Plan, run_id: str, say: Say) -> Run:
    """Starts the nodes, as the one launcher that the run has."""
    folder = RunFolder(open_store(_here(plan)), run_id)
    number, former = folder.latest_launch()
    taken = LaunchError(
        f"run {run_id} is being launched already",
        f"See `muster status {run_id}`, or end it with `muster stop {run_id}`.",
    )
    # Where nodes need no launcher, one on a machine that is not seen from here is taken to be gone.
    elsewhere = target(plan.config()).remote and former.machine != this_machine()
    if number and not former.dead and not elsewhere:
        raise taken
    try:
        folder.claim_launch(number + 1, Process.here())
    except AlreadyExists:
        raise taken from None
    say(f"starting {len(plan.nodes)} nodes")
    return Run(run_id, folder.store.url, target(plan.config()).launch(plan, run_id, say))


def record(plan: Plan, say: Say, progress: Progress = unseen) -> str:
    """Writes down what is about to be: code, key, plan, and last the job, which makes it a run."""
    if plan.code is None or plan.code.digest:
        return _record(plan, Path(plan.code.source) if plan.code else None, say, progress)
    if (source := code_source(plan.code.source)) and source.kind == "bucket":
        return _record(_with_bucket_code(plan, source.place), None, say, progress)
    from .workdir.known_sources import known_code

    if known := known_code(open_store(_here(plan)), plan.code.source, plan.job.entry):
        say(f"{plan.code.source} is in the work dir already")
        return _record(plan.with_code(CodePlan(plan.code.source, known.digest, known.files, known.bytes)), None, say)
    from .workdir.fetching import fetched
    from .workdir.scan import scan

    with target(plan.config()).logged_in(plan), fetched(plan.code.source, plan.job.entry, say) as got:
        found = scan(got.folder)
        code = CodePlan(got.source, found.digest, len(found.files), found.bytes)
        return _record(plan.with_code(code), got.folder, say, progress)


def _with_bucket_code(plan: Plan, place: str) -> Plan:
    """The plan with the version of its code that is in the bucket now. Each node fetches just that."""
    from .workdir.bucket_code import pinned

    code, files, size = pinned(place)
    return replace(plan, job=replace(plan.job, code=code), code=CodePlan(code, "", files, size))


def _record(plan: Plan, source: Path | None, say: Say, progress: Progress = unseen) -> str:
    job = plan.job
    run_id = new_run_id(job.name)
    store = open_store(_here(plan))
    for lack in store.capabilities.lacks():
        say(lack)
    folder = RunFolder(store, run_id)
    code = CodeRef(plan.code.digest, plan.code.files, plan.code.bytes) if plan.code and plan.code.digest else None
    if plan.code and source:
        from .workdir.bundle import store_code
        from .workdir.known_sources import remember_code

        say(f"bundling {plan.code.files} files, {plan.code.bytes:,} bytes")
        code = store_code(
            store, source, job.name, expected=plan.code.digest, ignore=plan.code.ignored, progress=progress
        )
        remember_code(store, plan.code.source, code)
    if plan.requirements:
        folder.write_requirements(Path(plan.requirements).name, Path(plan.requirements).read_bytes())
    folder.make_key()
    _provide_certificates(plan, folder)
    folder.write_plan(plan.to_json())
    now = time.time()
    folder.write_job(JobDocument(run=run_id, job=job, by="launcher", created_at=now, code=code))
    remember(IndexEntry(run_id, store.url, plan.target, now))
    return run_id


def _provide_certificates(plan: Plan, folder: RunFolder) -> None:
    from .frameworks.registry import framework
    from .node.tls import provide

    provide(folder, plan.job, framework(plan.job.framework), plan.nodes[0].environment)


def _check_secrets(plan: Plan) -> None:
    """Secrets of nodes on this machine come from the caller's environment; a cloud has a place of its own for them."""
    absent = [name for name in plan.job.secrets if name not in os.environ]
    if absent and plan.kind == "local":
        raise LaunchError(
            f"secrets: {', '.join(absent)} not in your environment",
            f"Set it first, such as: export {absent[0]}=…",
        )


def read_plan(folder: RunFolder) -> Plan:
    """The plan that a run was launched by."""
    try:
        return Plan.from_json(folder.plan())
    except NotFound:
        raise LaunchError(
            f"run {folder.run} has no plan: no launcher made it", "Start its nodes as they were."
        ) from None


def _detached(plan: Plan, run_id: str) -> Run:
    """Hands the run to a launcher of its own, in a session of its own."""
    launcher = [sys.executable, "-m", "muster", "run", "--resume", run_id, "--quiet"]
    work_dir = ["--work-dir", plan.work_dir]
    with launcher_log(run_id).open("ab") as said:
        process = subprocess.Popen(
            [*launcher, *work_dir],
            # Not in the user's folder, whose modules would be taken for Python's own.
            cwd=index_folder(),
            env=absolute_paths(dict(os.environ)),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    # Nobody waits for it: it outlives us, and init takes it over.
    process.returncode = 0
    return Run(run_id, plan.work_dir)
