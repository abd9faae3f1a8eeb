"""`muster sweep`: what it prints, what it changes, and its exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Muster
from tests.targets.oracle_hands import at_rest, runs
from tests.targets.oracle_place import There, account
from tests.targets.target_contract import SAYS, job


@pytest.fixture
def place(muster: Muster, tmp_path: Path) -> Iterator[There]:
    with account(tmp_path) as server:
        yield at_rest(muster, server, tmp_path)


def test_it_keeps_shows_ends_and_says_what_it_could_not(place: There) -> None:
    muster = place.muster
    assert muster("sweep", "--on", "oci").stdout == "Nothing of Muster's is there.\n"
    run = muster("run", job(place, SAYS), "--on", "oci", "--detach").stdout.strip()
    assert "kept" in muster("sweep", "--on", "oci").stdout

    place.server.deny("DATA_SCIENCE_JOB_DELETE")
    assert "delete job" in muster("stop", run, check=None).stderr
    assert "would be deleted" in muster("sweep", "--on", "oci", "--dry-run").stdout
    assert len(place.jobs()) == 1
    (failed,) = json.loads(muster("sweep", "--on", "oci", "--json", check=1).stdout)
    assert (failed["run"], failed["did"]) == (run, "failed")
    assert "delete job" in failed["why"]
    assert {one["lifecycleState"] for one in runs(place, run)} == {"CANCELED"}

    place.server.deny()
    (deleted,) = json.loads(muster("sweep", "--on", "oci", "--json").stdout)
    assert (deleted["did"], deleted["resource"][:21]) == ("deleted", "ocid1.datasciencejob.")
    assert place.left() == []


def test_a_target_without_a_cloud_has_nothing_to_sweep(muster: Muster) -> None:
    assert muster("sweep").stdout == "Nothing of Muster's is there.\n"
