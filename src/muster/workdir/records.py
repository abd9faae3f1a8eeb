"""The files of a run's folder as values, and how the verdicts of its nodes fold into one result."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from functools import cache
from typing import Any

PROTOCOL = 1
"""Raised when a node of one version could misread the files or messages of another."""


class End(str, Enum):
    """Why a cluster was torn down. The order is the order of precedence when nodes disagree.

    A script's own end comes first: its exit code is never overwritten by what happened afterwards.
    """

    SCRIPT_ENDED = "script-ended"
    MEMBER_FAILED = "member-failed"
    LAUNCH_REFUSED = "launch-refused"
    TTL_REACHED = "ttl-reached"
    STOP_REQUESTED = "stop-requested"
    NOT_READY = "not-ready"
    MAIN_NOT_FOUND = "main-not-found"
    MAIN_LOST = "main-lost"
    RELEASED = "released"


EXIT_CODES: Mapping[End, int] = {
    End.MEMBER_FAILED: 124,
    End.LAUNCH_REFUSED: 120,
    End.TTL_REACHED: 123,
    End.STOP_REQUESTED: 130,
    End.NOT_READY: 121,
    End.MAIN_NOT_FOUND: 122,
    End.MAIN_LOST: 122,
    End.RELEASED: 0,
}
"""Exit codes of `muster run` where no script gave one."""


def _known(kind: type[Any], value: Mapping[str, Any]) -> dict[str, Any]:
    names = _names(kind)  # type: ignore[arg-type]
    return {key: item for key, item in value.items() if key in names}


@cache
def _names(kind: type[Any]) -> frozenset[str]:
    """Kept, because each of a thousand nodes reads of a thousand members."""
    return frozenset(item.name for item in fields(kind))


@dataclass(frozen=True)
class Failure:
    """One process that ended badly: the candidate for a run's first cause."""

    node: str
    process: str
    exit_code: int
    at: float
    """Seconds since the epoch on the node's own clock; orders failures of one node only."""
    rank: int | None = None
    tail: tuple[str, ...] = ()
    """Its last lines, the traceback if there is one."""
    complaint: bool = False
    """It only complains about a peer that was lost, so the cause is elsewhere."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Failure:
        return cls(**{**_known(cls, value), "tail": tuple(value.get("tail", ()))})


@dataclass(frozen=True)
class Verdict:
    """What one node says about why it ended."""

    end: End
    exit_code: int
    detail: str = ""
    failure: Failure | None = None
    missing: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Verdict:
        failure = value.get("failure")
        return cls(
            end=End(value["end"]),
            exit_code=value["exit_code"],
            detail=value.get("detail", ""),
            failure=Failure.from_json(failure) if failure else None,
            missing=tuple(value.get("missing", ())),
        )


@dataclass(frozen=True)
class MainConfig:
    """`generations/<n>/MAIN_config.json`: where main is, and how its cluster is reached."""

    node: str
    address: str
    control_port: int
    generation: int
    ports: Mapping[str, int] = field(default_factory=dict)
    protocol: int = PROTOCOL

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> MainConfig:
        return cls(**_known(cls, value))


@dataclass(frozen=True)
class Member:
    """One computing node as all must know it: where it is and which ranks it holds."""

    node: str
    role: str
    address: str
    processes: int
    first_rank: int
    ports: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Member:
        return cls(**_known(cls, value))


@dataclass(frozen=True)
class NodeRecord:
    """`nodes/<node>.json`: written by that node alone."""

    node: str
    role: str
    state: str
    host: str = ""
    pid: int = 0
    machine: str = ""
    """With `pid` and `pid_started`: which process it is, as `machine.py` tells them apart."""
    pid_started: str = ""
    address: str = ""
    incarnation: int = 1
    """Counts how often a machine took this name."""
    boot: str = ""
    """A random word per start of the node program, so that two claimants can tell each other apart."""
    beat: int = 0
    link: str = "channel"
    """How it hears of main: over the control channel, or through the `store` alone."""
    generation: int = 0
    processes: int = 1
    first_rank: int | None = None
    ports: Mapping[str, int] = field(default_factory=dict)
    done: bool = False
    """Its processes of this generation have all ended well."""
    failure: Failure | None = None
    """The first of its processes that ended badly in this generation."""
    reason: str = ""
    """Why it is in this state."""
    notes: tuple[str, ...] = ()
    """What its user should know once, such as a control channel that cannot be reached."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    reported: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The last `muster.report(...)` of each process."""
    started_at: float = 0.0
    ended_at: float | None = None
    verdict: Verdict | None = None

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> NodeRecord:
        verdict, failure = value.get("verdict"), value.get("failure")
        return cls(
            **{
                **_known(cls, value),
                "verdict": Verdict.from_json(verdict) if verdict else None,
                "failure": Failure.from_json(failure) if failure else None,
                "notes": tuple(value.get("notes", ())),
            }
        )


@dataclass(frozen=True)
class Result:
    """`result.json`: the end of a run."""

    run: str
    state: str
    """succeeded, failed or stopped"""
    end: End
    exit_code: int
    detail: str = ""
    failure: Failure | None = None
    missing: tuple[str, ...] = ()
    generation: int = 1
    started_at: float = 0.0
    ended_at: float = 0.0

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Result:
        failure = value.get("failure")
        return cls(
            **{
                **_known(cls, value),
                "end": End(value["end"]),
                "failure": Failure.from_json(failure) if failure else None,
                "missing": tuple(value.get("missing", ())),
            }
        )


def dump(record: Any) -> bytes:
    """A record as the bytes of its file: one JSON object, readable by people too."""
    value = record if isinstance(record, Mapping) else asdict(record)
    text = json.dumps(value, ensure_ascii=False, indent=1) + "\n"
    # A lone surrogate (a byte of a script's output that is not UTF-8) becomes JSON's own escape for it.
    return text.encode("utf-8", "backslashreplace")


def fold(
    run: str, verdicts: Iterable[Verdict], *, generation: int, started_at: float, ended_at: float
) -> Result | None:
    """The one result of many verdicts, by the fixed precedence of `End`; None if nobody said anything."""
    order = list(End)
    ranked = sorted(verdicts, key=lambda verdict: order.index(verdict.end))
    if not ranked:
        return None
    first = ranked[0]
    if first.exit_code == 0:
        state = "succeeded"
    else:
        state = "stopped" if first.end is End.STOP_REQUESTED else "failed"
    return Result(
        run=run,
        state=state,
        end=first.end,
        exit_code=first.exit_code,
        detail=first.detail,
        failure=first_cause(verdict.failure for verdict in ranked if verdict.failure),
        missing=tuple(sorted({name for verdict in ranked for name in verdict.missing})),
        generation=generation,
        started_at=started_at,
        ended_at=ended_at,
    )


def first_cause(failures: Iterable[Failure]) -> Failure | None:
    """The earliest failure that is not a complaint about a lost peer, else the earliest."""
    return min(failures, key=lambda failure: (failure.complaint, failure.at), default=None)
