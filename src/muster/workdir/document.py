"""`job.json`: the resolved job, who launched it and which code it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import ProtocolError
from ..spec.job import Job
from .records import PROTOCOL


@dataclass(frozen=True)
class CodeRef:
    """Which code a run uses: the digest of its manifest, how many files it has and how many bytes."""

    digest: str
    files: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class JobDocument:
    """The first file of a run, written once by whoever minted the run."""

    run: str
    job: Job
    by: Literal["launcher", "node"]
    created_at: float
    code: CodeRef | None = None
    protocol: int = PROTOCOL

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> JobDocument:
        """Reads what was written; a version that this Muster does not speak is a `ProtocolError`."""
        check_protocol(f"run {value.get('run')}", value["protocol"])
        code = value.get("code")
        return cls(
            run=value["run"],
            job=Job.from_json(value["job"]),
            by=value["by"],
            created_at=float(value["created_at"]),
            code=CodeRef(code["digest"], code["files"], code["bytes"]) if code else None,
        )


def check_protocol(what: str, found: int) -> None:
    """Refuses a file that was written by a Muster of another protocol."""
    if found == PROTOCOL:
        return
    if found > PROTOCOL:
        fix = "Upgrade Muster here: pip install --upgrade musterpoint."
    else:
        fix = "Upgrade Muster where it was launched (pip install --upgrade musterpoint), and launch it again."
    raise ProtocolError(f"{what} speaks protocol {found}, and this Muster speaks {PROTOCOL}", fix)
