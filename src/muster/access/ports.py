"""Which ports must be open between the nodes of a job: what its framework listens on, and Muster's own channel.

>>> rules(job)
(PortRule(name='scheduler', first=8786, last=8786, listens='main', reason='…'), …)

Options, start arguments and variables that a user sets for the framework are followed, because it is the framework
itself that is asked.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..frameworks.base import Framework, Port
from ..frameworks.registry import framework
from ..spec.job import Job
from .rules import LAST_PORT, PortRule

CONTROL_PORT = 29399
"""Where main's control channel listens on machines of a cloud, unless the job's MUSTER_CONTROL_PORT says otherwise."""

_WHOLE = "all TCP between the nodes"
"""What a framework says in `open_ports` where no list of ports would do."""

_REASONS = {
    ("dask", "scheduler"): "the workers and the script find the scheduler here",
    ("dask", "dashboard"): "Dask's pages, and what says how many workers there are",
    ("dask", "workers"): "workers fetch results from each other, and the scheduler asks them",
    ("dask", "nannies"): "the scheduler restarts a worker through its nanny",
    ("pytorch", "store"): "the ranks meet at the store of rank 0",
    ("horovod", "rendezvous"): "Horovod's processes meet at the launcher on main",
    ("tensorflow", "server"): "each process talks to the server of every other; it dials from any port",
}
_RANDOM = {
    "pytorch": "gloo and NCCL take random ports and have no setting for a range: with {port} alone the ranks find each "
    "other, and hang at the first collective",
    "horovod": "gloo and NCCL take random ports and have no setting for a range: with {port} alone the processes "
    "start, and hang at the first collective",
}


def rules(job: Job) -> tuple[PortRule, ...]:
    """What every node must reach on every other, with the reasons. Nothing where there is but one node."""
    if not job.workers.max and not job.ps:
        return ()
    made = framework(job.framework)
    return (*_of_framework(made, job), _control(job))


def _of_framework(made: Framework, job: Job) -> Iterator[PortRule]:
    seen: dict[Port, list[str]] = {}
    for role in _roles(job):
        for port in made.ports(job, role) if role in made.roles else ():
            seen.setdefault(port, []).append(role)
    for each, roles in seen.items():
        yield _rule(made, each, "every node" if len(roles) == len(_roles(job)) else ", ".join(roles))
    if _WHOLE in made.open_ports(job):
        meeting = str(next(iter(seen), ""))
        why = _RANDOM.get(made.name, f"{made.name} takes random ports: {made.open_ports(job)}")
        yield PortRule("between all processes", 1, LAST_PORT, "every node", why.format(port=meeting))


def _roles(job: Job) -> list[str]:
    return ["main", *(["worker"] if job.workers.max else []), *(["ps"] if job.ps else [])]


def _rule(made: Framework, port: Port, listens: str) -> PortRule:
    reason = _REASONS.get((made.name, port.name), f"{made.name} listens here")
    if not port.number:
        return PortRule(port.name, 1, LAST_PORT, listens, f"{reason}; the job gives no range, so any port may be it")
    return PortRule(port.name, port.number, port.last or port.number, listens, reason)


def control_port(job: Job) -> int:
    """Where main listens for its workers: one port, so that a security list can let it through."""
    said = job.env_of("main").get("MUSTER_CONTROL_PORT", "")
    return int(said) if said.isdigit() and 0 < int(said) <= LAST_PORT else CONTROL_PORT


def _control(job: Job) -> PortRule:
    number = control_port(job)
    why = "Muster's control channel; where it is closed the run works, and notices a lost node 25 seconds later"
    return PortRule("control", number, number, "main", why)
