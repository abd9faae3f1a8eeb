"""The life of one node, as a pure function: `step(life, event, now) -> (life, actions)`.

No clock, no file, no process: the shell (`program.py`) feeds events in and carries actions out. Main lives this
life too; what makes it main stands in `cluster.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from ..workdir.records import EXIT_CODES, End, Failure, MainConfig, Member, Verdict
from .messages import Again, Conclude, Done, Failed, Go, Hello, Left, MainSeen, Members, Started, ToMain


class Phase(str, Enum):
    CLAIMING = "claiming"
    PREPARING = "preparing"
    MEETING = "meeting"
    GATHERING = "gathering"
    RUNNING = "running"
    RESTARTING = "restarting"
    ENDING = "ending"
    ENDED = "ended"


STEPS: Mapping[tuple[Phase, Phase], str] = {
    (Phase.CLAIMING, Phase.PREPARING): "its name is its own",
    (Phase.PREPARING, Phase.MEETING): "code and Python are in place",
    (Phase.MEETING, Phase.GATHERING): "main is known; the others are not yet",
    (Phase.MEETING, Phase.RUNNING): "main is known, and that is enough to start",
    (Phase.GATHERING, Phase.GATHERING): "a newer generation gathers",
    (Phase.GATHERING, Phase.RUNNING): "all are here",
    (Phase.RUNNING, Phase.RESTARTING): "a newer generation takes over, or its processes start again",
    (Phase.RESTARTING, Phase.GATHERING): "the old processes are gone",
    (Phase.RESTARTING, Phase.RUNNING): "the old processes are gone, and it waits for nobody",
    (Phase.CLAIMING, Phase.ENDING): "it ended before it had a name",
    (Phase.PREPARING, Phase.ENDING): "it ended before it met main",
    (Phase.MEETING, Phase.ENDING): "it ended before it met main",
    (Phase.GATHERING, Phase.ENDING): "it ended before all were here",
    (Phase.RUNNING, Phase.ENDING): "the run is over for it",
    (Phase.RESTARTING, Phase.ENDING): "the run is over for it",
    (Phase.ENDING, Phase.ENDED): "its processes are gone, and what they left is shipped",
}
"""Every allowed step, and the reason that is recorded with it."""


ENDING_BOUND = 900.0
"""Seconds to end its processes, and seconds in which nothing comes home. Then a node leaves, for it costs money."""


@dataclass(frozen=True)
class Life:
    node: str
    role: str
    gathers: bool
    script: str
    """When the script starts here: at `start`, when the cluster is `ready`, or `never`."""
    timeout: float
    ttl: float | None
    main_grace: float
    """How long a lost main may take to come back."""
    born: float
    incarnation: int = 1
    """Counts how often a node of this name was started."""
    phase: Phase = Phase.CLAIMING
    reason: str = ""
    generation: int = 0
    main: MainConfig | None = None
    members: tuple[Member, ...] = ()
    address: str = ""
    processes: int = 1
    ports: Mapping[str, int] | None = None
    scripts: frozenset[str] = frozenset()
    """Scripts of this generation that still run."""
    going: bool = False
    """The script that waited for the cluster has been started."""
    main_gone_at: float | None = None
    ending_at: float | None = None
    shipping: bool = False
    verdict: Verdict | None = None


# --- events beside the messages of main ------------------------------------------------------------------


@dataclass(frozen=True)
class Claimed:
    """The name is ours."""


@dataclass(frozen=True)
class Addressed:
    """The address that the others reach us by; a worker may know it only when it knows main's."""

    address: str


@dataclass(frozen=True)
class Prepared:
    """Code, Python and ports are there."""

    processes: int
    ports: Mapping[str, int]


@dataclass(frozen=True)
class Broken:
    """This node cannot take part."""

    detail: str
    at: float = 0.0
    """Seconds since the epoch, as in a failure."""


@dataclass(frozen=True)
class Launched:
    """Processes were started."""

    generation: int
    scripts: frozenset[str]


@dataclass(frozen=True)
class Exited:
    """A process ended by itself. `failure` is None where it ended well."""

    generation: int
    process: str
    script: bool
    failure: Failure | None


@dataclass(frozen=True)
class StopSeen:
    """Somebody wants this to end: a stop file, a signal, a launcher that went away."""

    detail: str


@dataclass(frozen=True)
class MainGone:
    """Main no longer answers."""


@dataclass(frozen=True)
class MainBack:
    """Main answers again."""


@dataclass(frozen=True)
class Quiet:
    """None of our processes is left."""


@dataclass(frozen=True)
class Arriving:
    """Something of what is shipped has arrived, or is on its way."""


@dataclass(frozen=True)
class Shipped:
    """Logs, outputs and the last record are where they belong."""


@dataclass(frozen=True)
class Tick:
    """Time has passed."""


Event: TypeAlias = (
    Claimed
    | Addressed
    | Prepared
    | Broken
    | MainSeen
    | Members
    | Go
    | Again
    | Launched
    | Exited
    | Conclude
    | StopSeen
    | MainGone
    | MainBack
    | Quiet
    | Arriving
    | Shipped
    | Tick
)


# --- actions ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prepare:
    """Bring code and Python into place and find ports."""


@dataclass(frozen=True)
class Meet:
    """Main publishes itself; a worker looks for main."""


@dataclass(frozen=True)
class Start:
    """Start processes of this generation."""

    generation: int
    services: bool
    scripts: bool


@dataclass(frozen=True)
class EndProcesses:
    """Ask every process to end, and make sure of it."""

    patient: bool
    """Leave time to save; a cluster whose script is done needs none."""


@dataclass(frozen=True)
class Tell:
    """Say this to main."""

    message: ToMain


@dataclass(frozen=True)
class Ship:
    """Bring the last logs, outputs and the record home."""


@dataclass(frozen=True)
class Leave:
    """End the program."""

    exit_code: int


Action: TypeAlias = Prepare | Meet | Start | EndProcesses | Tell | Ship | Leave
Next = tuple[Life, list[Action]]


def step(life: Life, event: Event, now: float) -> Next:
    """One event in, the next life and what to do about it out. Events that no longer matter change nothing."""
    if life.phase is Phase.ENDED:
        return life, []
    if life.phase is Phase.ENDING:
        return _ending(life, event, now)
    if isinstance(event, Conclude):
        return _end(life, event.verdict)
    if isinstance(event, StopSeen):
        return _end(life, _verdict(End.STOP_REQUESTED, event.detail))
    if isinstance(event, Broken):
        tail = tuple(event.detail.splitlines()) or ("it broke",)
        failure = Failure(life.node, "node", EXIT_CODES[End.MEMBER_FAILED], at=event.at, tail=tail)
        return _end(life, _verdict(End.MEMBER_FAILED, tail[0], failure))
    if isinstance(event, Tick):
        return _tick(life, now)
    if isinstance(event, MainGone):
        return replace(life, main_gone_at=life.main_gone_at or now), []
    if isinstance(event, MainBack):
        return replace(life, main_gone_at=None), []
    return _living(life, event)


def _living(life: Life, event: Event) -> Next:
    if isinstance(event, Claimed) and life.phase is Phase.CLAIMING:
        return _to(life, Phase.PREPARING), [Prepare()]
    if isinstance(event, Prepared) and life.phase is Phase.PREPARING:
        facts = replace(life, processes=event.processes, ports=event.ports)
        return _to(facts, Phase.MEETING), [Meet()]
    if isinstance(event, Addressed):
        return replace(life, address=event.address), []
    if isinstance(event, MainSeen):
        return _main_seen(life, event.config, event.patient)
    if isinstance(event, Members) and life.phase is Phase.GATHERING and event.generation == life.generation:
        # Who came late hears of a generation that it is not in, and waits for the next.
        member = life.role == "main" or any(one.node == life.node for one in event.members)
        return _run(replace(life, members=event.members)) if member else (life, [])
    if isinstance(event, Quiet) and life.phase is Phase.RESTARTING:
        return _gather(life) if life.gathers else _run(life)
    if life.phase is Phase.RUNNING:
        return _running(life, event)
    return life, []


def _main_seen(life: Life, config: MainConfig, patient: bool) -> Next:
    if config.generation <= life.generation:
        return life, []
    fresh = replace(life, members=(), scripts=frozenset(), going=False, main_gone_at=None)
    known = replace(fresh, main=config, generation=config.generation)
    if life.phase in (Phase.MEETING, Phase.GATHERING):
        return _gather(known) if life.gathers else _run(known)
    if life.phase is Phase.RUNNING:
        return _to(known, Phase.RESTARTING), [EndProcesses(patient)]
    # While restarting, the newest generation is the one to come back in.
    return (known, []) if life.phase is Phase.RESTARTING else (life, [])


def _gather(life: Life) -> Next:
    return _to(life, Phase.GATHERING), [Tell(_hello(life))]


def _run(life: Life) -> Next:
    greeting: list[Action] = [] if life.gathers else [Tell(_hello(life))]
    start = Start(life.generation, services=True, scripts=life.script == "start")
    return _to(life, Phase.RUNNING), [*greeting, start]


def _running(life: Life, event: Event) -> Next:
    if isinstance(event, Launched) and event.generation == life.generation:
        known = replace(life, scripts=life.scripts | event.scripts)
        return known, [Tell(Started(life.node, life.generation))]
    if isinstance(event, Go) and life.script == "ready" and not life.going:
        return replace(life, going=True), [Start(life.generation, services=False, scripts=True)]
    if isinstance(event, Again) and event.generation == life.generation:
        return _to(replace(life, scripts=frozenset(), going=False), Phase.RESTARTING), [EndProcesses(patient=False)]
    if isinstance(event, Exited) and event.generation == life.generation:
        return _exited(life, event)
    return life, []


def _exited(life: Life, event: Exited) -> Next:
    left = life.scripts - {event.process}
    known = replace(life, scripts=left)
    if event.failure is not None:
        return known, [Tell(Failed(life.node, life.generation, event.failure, event.script))]
    if event.script and not left:
        return known, [Tell(Done(life.node, life.generation))]
    return known, []


def _tick(life: Life, now: float) -> Next:
    if life.ttl is not None and now - life.born >= life.ttl:
        return _end(life, _verdict(End.TTL_REACHED, f"the run reached its ttl of {life.ttl:g} s"))
    waits = life.phase in (Phase.CLAIMING, Phase.PREPARING, Phase.MEETING)
    if waits and life.role != "main" and now - life.born >= life.timeout:
        return _end(life, _verdict(End.MAIN_NOT_FOUND, f"{life.node} waited {life.timeout:g} s and saw no main"))
    if life.main_gone_at is not None and now - life.main_gone_at >= life.main_grace:
        detail = f"main went away, and no new main came within {life.main_grace:g} s"
        return _end(life, _verdict(End.MAIN_LOST, detail))
    return life, []


def _end(life: Life, verdict: Verdict) -> Next:
    patient = verdict.end is not End.SCRIPT_ENDED
    return _to(replace(life, verdict=verdict), Phase.ENDING), [EndProcesses(patient)]


def _ending(life: Life, event: Event, now: float) -> Next:
    if isinstance(event, Quiet) and not life.shipping:
        return replace(life, shipping=True, ending_at=None), [Ship()]
    if isinstance(event, Arriving):
        return replace(life, ending_at=None), []
    if isinstance(event, Tick) and life.ending_at is None:
        return replace(life, ending_at=now), []
    late = isinstance(event, Tick) and life.ending_at is not None and now - life.ending_at >= ENDING_BOUND
    if (isinstance(event, Shipped) or late) and life.verdict is not None:
        gone = _to(life, Phase.ENDED)
        return gone, [Tell(Left(life.node, life.verdict)), Leave(life.verdict.exit_code)]
    return life, []


def _to(life: Life, phase: Phase) -> Life:
    return replace(life, phase=phase, reason=STEPS[life.phase, phase])


def _hello(life: Life) -> Hello:
    ports = dict(life.ports or {})
    return Hello(life.node, life.role, life.generation, life.address, life.processes, ports, life.incarnation)


def _verdict(end: End, detail: str, failure: Failure | None = None) -> Verdict:
    return Verdict(end, EXIT_CODES[end], detail, failure)
