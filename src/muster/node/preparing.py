"""What a node does before it meets the others: code in place, Python found, counts and addresses known."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import NodeError
from ..frameworks.base import Certificates, Framework
from ..spec.job import Job
from ..workdir.bundle import fetch_code
from ..workdir.home import temporary_folder
from ..workdir.inputs import Share, lay_out
from ..workdir.progress import lines
from ..workdir.run import RunFolder
from .gpus import count_gpus
from .python import check_framework, environment, interpreter
from .settings import Settings
from .surroundings import inputs_folder, sync_folder
from .tls import lay_out_certificates


@dataclass(frozen=True)
class Ground:
    """What the node stands on."""

    code: Path
    python: str
    processes: int
    certificates: Certificates | None = None


def prepare(settings: Settings, run: RunFolder, job: Job, framework: Framework, say: Callable[[str], None]) -> Ground:
    """Blocks while code is unpacked and requirements are installed; `say` tells how it goes."""
    (settings.folder / "streams").mkdir(parents=True, exist_ok=True)
    temporary_folder(settings.folder).mkdir(parents=True, exist_ok=True, mode=0o700)
    code = _code(settings, run, job, say)
    python = interpreter(job.python)
    if job.requirements:
        name, content = run.requirements()
        python = environment(name, content, python, say)
    check_framework(python, framework)
    outputs, checkpoints = sync_folder(job, code), code / job.checkpoints if job.checkpoints else None
    for folder in filter(None, (outputs, checkpoints)):
        with suppress(OSError):  # an image may forbid it; a script that leaves something then says so itself
            folder.mkdir(parents=True, exist_ok=True)
    lay_out_inputs(settings, job, code, framework, say)
    certificates = lay_out_certificates(settings, run, job, framework, code, python, say)
    return Ground(code, python, framework.processes(job, count_gpus()), certificates)


def lay_out_inputs(settings: Settings, job: Job, code: Path, framework: Framework, say: Callable[[str], None]) -> None:
    """Each input stands at `inputs/<name>` in the script's folder."""
    folder = inputs_folder(settings, code)
    for name, one in job.inputs.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            share = share_of(job, framework, settings.node) if one.shard else None
            lay_out(name, one.source, place, share, say)
        if folder != code / "inputs":
            _show(place, code / "inputs" / name, say)


def _show(place: Path, link: Path, say: Callable[[str], None]) -> None:
    """Links an input into code that outlives this node and may be another node's too."""
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.exists() and (not link.is_symlink() or link.readlink() != place):
        say(f"{link} is there already, and not of this node; its own is {place} (MUSTER_INPUTS)")
        return
    link.unlink(missing_ok=True)  # an earlier run's, which leads nowhere now
    link.symlink_to(place)


def share_of(job: Job, framework: Framework, node: str | None) -> Share | None:
    """Which share of a sharded input is this node's. One that does not compute has all: it may look at any."""
    first = 1 if framework.main_computes(job) else 0
    if node == "main":
        return Share(0, job.workers.max + 1) if first else None
    role, _, number = (node or "").rpartition("-")
    if role == "ps":
        return None
    if role != "worker" or not number.isdecimal() or not 1 <= int(number) <= job.workers.max:
        raise NodeError(
            f"a node called {node!r} has no share of a sharded input",
            f"Call it worker-1 to worker-{job.workers.max} (MUSTER_NODE), or give it a RANK.",
        )
    return Share(int(number) - 1 + first, job.workers.max + first)


def _code(settings: Settings, run: RunFolder, job: Job, say: Callable[[str], None]) -> Path:
    if settings.code:
        place = settings.folder / "code"
        if not place.exists():
            fetch_code(run.store, settings.code, place, lines(say, "fetching the code"))
        return place
    if job.code and not job.code.startswith("image:"):  # as only an environment says it: a launcher fetches itself
        from ..workdir.fetching import fetch_to

        place = Path(settings.code_dir or settings.folder / "code").absolute()
        if settings.code_dir or not place.exists():
            fetch_to(job.code, job.entry, place, say)
        return place
    place = Path(settings.code_dir or (job.code or ".").removeprefix("image:"))
    if not place.is_dir():
        raise NodeError(f"the code folder {place} is not on this machine", "Set CODE_DIR to where the code is.")
    return place.absolute()
