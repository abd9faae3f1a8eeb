"""What a sweep keeps, ends and deletes on Oracle's cloud, whoever launched it, and at which time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.rehearsal.oracle import OracleServer
from muster.targets.oci_payloads import MARGIN
from tests.harness import Muster, eventually
from tests.targets.oracle_hands import at_rest, cleared, end, jobs, killed, result_of, run_of, runs, swept, work_dir
from tests.targets.oracle_place import There, account, reach
from tests.targets.target_contract import SAYS, job

UNTIL = 60 + 300 + 2 * MARGIN
"""Seconds that a run of `fields` may be there at most."""
NEW, SETTLED, HOME = 900, 120, 900


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OracleServer]:
    with account(tmp_path_factory.mktemp("cloud")) as server:
        yield server


@pytest.fixture
def place(muster: Muster, cloud: OracleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[There]:
    there = at_rest(muster, cloud, tmp_path)
    for name in ("OCI_CONFIG_FILE", "MUSTER_OCI_ENDPOINT", "OCI_OBJECTSTORAGE_SERVICE_ENDPOINT"):
        monkeypatch.setenv(name, muster.env[name])
    yield there
    cleared(there)


def launch(place: There, **fields: Any) -> tuple[str | Path, ...]:
    fields = {"workers": 1, "timeout": "60s", "ttl": "5m", **fields}
    return ("run", job(place, SAYS, **fields), "--on", place.on)


def detached(place: There, **fields: Any) -> str:
    return place.muster(*launch(place, **fields), "--detach").stdout.strip()


def test_what_is_at_work_is_kept_until_its_time_and_then_ended(place: There) -> None:
    run = detached(place)
    (kept,) = swept(place, after=UNTIL - 60)
    assert (kept.run, kept.did, kept.why) == (run, "kept", "2 of 2 nodes at work")
    (dry,) = swept(place, after=UNTIL, dry=True)
    assert dry.did == "ended"
    assert {one["lifecycleState"] for one in runs(place, run)} == {"ACCEPTED"}
    (ended,) = swept(place, after=UNTIL)
    assert (ended.did, ended.why) == ("ended", "it is past the time that it said for itself")
    assert {one["lifecycleState"] for one in runs(place, run)} == {"CANCELED"}
    assert place.left() == []
    assert "swept" in result_of(place, run).detail, "whoever looks at the run learns that it is over"


def test_what_a_run_left_that_has_ended_is_ended_after_a_while(place: There) -> None:
    run = detached(place)
    place.muster("stop", run, "--no-wait")
    assert [one.did for one in swept(place, after=HOME - 60)] == ["kept"], "nodes may bring home what they have"
    (found,) = swept(place, after=HOME)
    assert (found.did, found.why) == ("ended", "its run has ended, and 2 of its nodes have not")
    assert place.left() == []
    assert end(place, run) == "stop-requested"


def test_a_job_without_nodes_waits_for_its_launcher_for_a_while(place: There) -> None:
    killed(place, *launch(place), way="keep", kind="create_job")
    assert [one.did for one in swept(place, after=NEW - 60)] == ["kept"]
    (found,) = swept(place, after=NEW)
    assert (found.did, found.why) == ("deleted", "its launcher made no node")
    assert place.left() == []


def test_lost_nodes_may_get_others_for_a_while(place: There) -> None:
    """Nobody wrote an end, for all its machines are gone: a launcher may be about to make others."""
    run = detached(place, workers=0)
    cancel(place, run)
    assert [one.did for one in swept(place)] == ["kept"]
    (found,) = swept(place, after=SETTLED)
    assert (found.did, found.why) == ("deleted", "its nodes have ended, and got no others")
    assert place.left() == []


def cancel(place: There, run: str) -> None:
    """As somebody does in the console."""
    from muster.clouds.oci import session
    from muster.clouds.oci_services import Services

    services = Services(session())
    services.call("data_science", "cancel_job_run", run_of(place, run, "main")["id"])
    eventually(lambda: run_of(place, run, "main")["lifecycleState"] == "CANCELED")


def test_what_others_launched_into_other_work_dirs_is_swept_too(
    place: There, cloud: OracleServer, tmp_path: Path
) -> None:
    run = detached(place, work_dir=f"{work_dir(place)}-of-another")
    other = reach(place.muster, cloud, tmp_path / "other")
    assert [one.did for one in swept(other)] == ["kept"]
    assert [(one.run, one.did) for one in swept(other, after=UNTIL)] == [(run, "ended")]
    assert place.left() == []


def test_jobs_of_others_are_none_of_its_business(place: There) -> None:
    from muster.clouds.oci import session
    from muster.clouds.oci_services import Services

    run = detached(place, workers=0)
    said = {name: value for name, value in jobs(place, run)[0].items() if name not in READ_ONLY}
    services = Services(session())
    own = services.call("data_science", "create_job", {**said, "freeformTags": {}, "displayName": "by hand"}).data
    assert [one.run for one in swept(place, after=UNTIL)] == [run]
    assert place.jobs() == ["by hand"]
    services.call("data_science", "delete_job", own["id"])


READ_ONLY = ("id", "timeCreated", "createdBy", "lifecycleState", "lifecycleDetails")


def test_one_that_cannot_be_ended_does_not_save_the_others(place: There) -> None:
    for _ in range(2):
        detached(place, workers=0)
    place.server.steering.fail(times=1, status=404, kind="delete_job")
    assert sorted(one.did for one in swept(place, after=UNTIL)) == ["ended", "failed"]
    assert len(place.jobs()) == 1
    assert [one.did for one in swept(place, after=UNTIL)] == ["deleted"]
    assert place.left() == []
