"""Dask: main runs the scheduler and the script, each worker runs `dask worker` with its nanny."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..spec.job import Job
from .base import Command, Framework, HttpCount, Objection, Port, Scene
from .dask_tls import named_files, scheme, tls_objections, tls_options, tls_settings, tls_words, wants_tls

if TYPE_CHECKING:
    from ..spec.fields import Kind

_SCHEDULER, _DASHBOARD = 8786, 8787
_RANGES = {"--worker-port": "8700:8800", "--nanny-port": "3000:3100"}
_DEATH_TIMEOUT = 60.0


class Dask(Framework):
    name = "dask"
    module = "distributed"
    install = 'pip install "musterpoint[dask]"'
    elastic = True
    probed = True
    entry_needed = False

    def options(self) -> Mapping[str, Kind]:
        from ..spec.fields import Duration, Integer, TextList

        return {
            "nthreads": Integer(min=1),
            "nprocs": Integer(min=1),
            "death_timeout": Duration(),
            "port": Integer(min=1, max=65535),
            "dashboard_port": Integer(min=1, max=65535),
            "start_args": TextList(),
            **tls_options(),
        }

    def objections(self, job: Job) -> Iterator[Objection]:
        return tls_objections(job)

    def encrypts(self, job: Job, wished: bool) -> bool:
        return wants_tls(job, wished)

    def certificate_files(self, job: Job, role: str) -> tuple[str, str, str] | None:
        return named_files(job, role)

    def gathers(self, job: Job) -> bool:
        return False

    def survives_loss(self, job: Job) -> bool:
        return True

    def script_everywhere(self, job: Job) -> bool:
        return False

    def main_computes(self, job: Job) -> bool:
        return False

    def processes(self, job: Job, gpus: int) -> int:
        return job.processes or _integer(job.options_of("worker"), "nprocs", 0) or gpus or 1

    def ports(self, job: Job, role: str) -> tuple[Port, ...]:
        if role == "main":
            options = job.options_of("main")
            return (
                Port("scheduler", _integer(options, "port", _SCHEDULER)),
                Port("dashboard", _integer(options, "dashboard_port", _DASHBOARD)),
            )
        ranges, _ = _ports_apart(_words(job.options_of("worker")))
        bounds = ([int(number) for number in re.findall(r"\d+", text)][:2] or [0] for text in ranges.values())
        return tuple(Port(name, *numbers) for name, numbers in zip(("workers", "nannies"), bounds, strict=True))

    def services(self, scene: Scene) -> tuple[Command, ...]:
        return (_scheduler(scene),) if scene.role == "main" else (_worker(scene),)

    def scripts(self, scene: Scene) -> tuple[Command, ...]:
        if scene.role != "main" or not scene.job.entry:
            return ()
        address = _address(scene)
        env = {
            # Dask's own setting: a bare `Client()` then finds this cluster.
            "DASK_SCHEDULER_ADDRESS": address,
            # Scripts made for ADS put the two together, and with TLS expect its scheme here.
            "SCHEDULER_IP": address.rpartition(":")[0] if scene.certificates else scene.main.address,
            "SCHEDULER_PORT": str(scene.main.ports["scheduler"]),
            **tls_settings(scene),
        }
        return (Command("script", (scene.python, *scene.entry_argv()), env, script=True),)

    def retire(self, scene: Scene, nodes: Sequence[str]) -> Command | None:
        helper = Path(__file__).with_name("_dask_retire.py")
        return Command("retire", (scene.python, str(helper), _address(scene), *nodes), tls_settings(scene))

    def ready(self, scene: Scene, least: int) -> HttpCount | None:
        url = f"http://{scene.main.address}:{scene.main.ports['dashboard']}/json/counts.json"
        return HttpCount(url, "workers", least * self.processes(scene.job, 0))

    def links(self, scene: Scene) -> dict[str, str]:
        return {"dashboard": f"http://{scene.main.address}:{scene.main.ports['dashboard']}/status"}

    def complaint(self, tail: Sequence[str]) -> bool:
        return any("CommClosedError" in line or "Connection to scheduler broken" in line for line in tail)


def _scheduler(scene: Scene) -> Command:
    ports = scene.main.ports
    argv = (
        *(scene.python, "-m", "distributed.cli.dask_scheduler"),
        *("--host", scene.main.address, "--port", str(ports["scheduler"])),
        *("--dashboard-address", f"{scene.main.address}:{ports['dashboard']}"),
        *tls_words(scene),
        # Only main's own: what the job says for all is said to the workers.
        *_words(scene.job.role("main").options),
    )
    return Command("scheduler", argv, tls_settings(scene), _defaults(scene))


def _worker(scene: Scene) -> Command:
    options = scene.options
    argv = [scene.python, "-m", "distributed.cli.dask_worker"]
    argv += [_address(scene)]
    # Without its pages a worker still serves its metrics, and on every address unless it is told one.
    argv += ["--no-dashboard", "--dashboard-address", f"{scene.address}:0"]
    argv += ["--name", scene.node, "--local-directory", str(_scratch(scene))]
    argv += ["--host", scene.address, "--nworkers", str(scene.processes)]
    argv += ["--nthreads", str(_integer(options, "nthreads", 1))]
    argv += ["--death-timeout", str(options.get("death_timeout", _DEATH_TIMEOUT))]
    argv += tls_words(scene)
    ranges, others = _ports_apart(_words(options))
    if scene.fixed_ports:
        argv += [word for option in ranges.items() for word in option]
    argv += others
    return Command("worker", tuple(argv), tls_settings(scene), _defaults(scene))


def _address(scene: Scene) -> str:
    return f"{scheme(scene)}://{scene.main.address}:{scene.main.ports['scheduler']}"


def _words(options: Mapping[str, object]) -> list[str]:
    extra = options.get("start_args", ())
    return [str(word) for word in extra] if isinstance(extra, (list, tuple)) else []


def _ports_apart(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """The ranges of ports among the words of a worker, or Muster's own, and all other words."""
    ranges, others = dict(_RANGES), []
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in ranges:
            ranges[name] = value if equals else next(rest, "")
        else:
            others.append(word)
    return ranges, others


def _defaults(scene: Scene) -> dict[str, str]:
    return {
        # Left alone, Dask tells some thirty lines per worker that nobody asked for.
        "DASK_LOGGING__DISTRIBUTED": "warning",
        # A scheduler has no option for it, and would take the machine's temporary folder.
        "DASK_TEMPORARY_DIRECTORY": str(_scratch(scene)),
    }


def _scratch(scene: Scene) -> Path:
    return scene.folder / "dask"


def _integer(options: Mapping[str, object], name: str, default: int) -> int:
    value = options.get(name)
    return value if isinstance(value, int) else default
