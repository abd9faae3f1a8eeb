"""How the verdicts of nodes fold into one result, and how records are written."""

from __future__ import annotations

import json

import pytest

from muster.workdir.records import End, Failure, NodeRecord, Result, Verdict, dump, first_cause, fold

pytestmark = pytest.mark.unit


def folded(*verdicts: Verdict) -> Result | None:
    return fold("run", verdicts, generation=2, started_at=1.0, ended_at=9.0)


def test_nobody_said_anything_so_there_is_no_result() -> None:
    assert folded() is None


def test_the_scripts_own_exit_code_is_never_overwritten() -> None:
    result = folded(Verdict(End.MAIN_LOST, 122), Verdict(End.STOP_REQUESTED, 130), Verdict(End.SCRIPT_ENDED, 7))
    assert result is not None
    assert (result.end, result.exit_code, result.state) == (End.SCRIPT_ENDED, 7, "failed")


@pytest.mark.parametrize(
    ("verdict", "state"),
    [
        (Verdict(End.SCRIPT_ENDED, 0), "succeeded"),
        (Verdict(End.STOP_REQUESTED, 130), "stopped"),
        (Verdict(End.NOT_READY, 121), "failed"),
    ],
)
def test_a_state_says_how_it_ended(verdict: Verdict, state: str) -> None:
    result = folded(verdict)
    assert result is not None
    assert result.state == state


def test_all_who_were_missing_are_named_and_the_first_cause_is_no_complaint() -> None:
    cause, complaint = (
        Failure("worker-1", "rank 1", 3, at=5.0),
        Failure("main", "rank 0", 1, at=4.0, complaint=True),
    )
    result = folded(
        Verdict(End.MEMBER_FAILED, 3, failure=complaint, missing=("worker-2",)),
        Verdict(End.NOT_READY, 121, failure=cause, missing=("worker-3", "worker-2")),
    )
    assert result is not None
    assert result.failure == cause
    assert result.missing == ("worker-2", "worker-3")
    assert first_cause([]) is None


def test_records_are_plain_json_even_where_a_script_printed_no_text() -> None:
    record = NodeRecord("main", "main", "ready", reason="grün \udc80")
    assert "grün".encode() in dump(record)
    assert NodeRecord.from_json(json.loads(dump(record))) == record
