"""`muster prune`: what ended long ago goes, with the code that nobody uses any more."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.harness import Muster
from tests.node.hands import FOREVER, heard


@pytest.fixture
def runs(muster: Muster) -> list[str]:
    """Two that have ended, with code of their own."""
    found: list[str] = []
    for number in range(2):
        muster("run", muster.job(f"print({number})", name=f"job{number}", workers=0))
        found.insert(0, muster.run_id(tuple(found)))
    return found[::-1]


def age(folder: Path, days: float) -> None:
    """Makes all that is there older."""
    then = time.time() - days * 86400
    for path in folder.rglob("*"):
        os.utime(path, (then, then))


def end_earlier(muster: Muster, run: str, days: float) -> None:
    path = muster.runs / run / "result.json"
    result = json.loads(path.read_text())
    path.write_text(json.dumps({**result, "ended_at": time.time() - days * 86400}))


def test_what_is_not_old_stays_and_nobody_is_asked(muster: Muster, runs: list[str]) -> None:
    assert muster("prune", "--older-than", "30d").stdout == "Nothing is that old.\n"
    assert len(list(muster.runs.glob("job*"))) == 2


def test_what_is_old_is_shown_and_goes_when_it_may(muster: Muster, runs: list[str]) -> None:
    end_earlier(muster, runs[0], 31)
    done = muster("prune", "--older-than", "30d", check=2)
    assert "there is no terminal" in done.stderr
    assert done.stdout.splitlines()[1].split()[:3] == [runs[0], "succeeded", "31d"]
    assert runs[1] not in done.stdout
    assert (muster.runs / runs[0]).exists()
    muster("prune", "--older-than", "30d", "--yes")
    assert [path.name for path in muster.runs.glob("job*")] == [runs[1]]
    assert runs[0] not in muster("ps").stdout


def test_code_that_no_run_uses_goes_too_but_not_at_once(muster: Muster, runs: list[str]) -> None:
    end_earlier(muster, runs[0], 31)
    assert "code" not in muster("prune", "--older-than", "30d", "--dry-run").stdout
    age(muster.runs / "code", 2)
    assert "code that no run uses: 1 object, " in muster("prune", "--older-than", "30d", "--yes").stdout
    assert len([path for path in (muster.runs / "code").rglob("*") if path.is_file()]) == 1
    assert muster("outputs", runs[1], "--code").stdout.split()[-1] == "script.py"


def test_one_that_runs_is_left_alone_and_said_so(muster: Muster, runs: list[str]) -> None:
    launcher = muster.start("run", muster.job(FOREVER, name="busy", workers=0))
    busy = muster.run_id(tuple(runs))
    heard(muster, busy, "here")
    shown = muster("prune", "--older-than", "0s", "--yes").stdout
    assert f"left alone: {busy}: it is running: main" in shown
    assert [path.name for path in muster.runs.glob("[jb]*-*")] == [busy]
    muster("stop", busy)
    assert launcher.wait(60) == 130


def test_for_programs(muster: Muster, runs: list[str]) -> None:
    end_earlier(muster, runs[0], 31)
    shown = json.loads(muster("prune", "--older-than", "30d", "--dry-run", "--json").stdout)
    assert [one["run"] for one in shown["goes"]] == [runs[0]]
    assert [(one["run"], one["why"][:16]) for one in shown["stays"]] == [(runs[1], "succeeded since ")]
    assert (shown["code"], shown["deleted"]) == ([], False)
    assert "asks no questions" in muster("prune", "--older-than", "30d", "--json", check=2).stderr
    assert json.loads(muster("prune", "--older-than", "30d", "--yes", "--json").stdout)["deleted"]


def test_some_of_each_job_can_be_kept(muster: Muster, runs: list[str]) -> None:
    for run in runs:
        end_earlier(muster, run, 31)
    assert muster("prune", "--older-than", "30d", "--keep-last", "1", "--yes").stdout == "Nothing is that old.\n"


def test_a_whole_work_dir_is_pruned_from_anywhere(muster: Muster, runs: list[str]) -> None:
    for run in runs:
        end_earlier(muster, run, 31)
    another = str(muster.home.parent / "another")
    assert muster("prune", "--older-than", "30d", "--yes", MUSTER_HOME=another).stdout == "Nothing is that old.\n"
    muster("prune", "--older-than", "30d", "--yes", "--work-dir", muster.runs, MUSTER_HOME=another)
    assert list(muster.runs.glob("job*")) == []


def test_a_work_dir_that_cannot_be_read_keeps_no_other_from_being_tidied(muster: Muster, runs: list[str]) -> None:
    for run in runs:
        end_earlier(muster, run, 31)
    index = muster.home / "index" / f"{runs[0]}.json"
    (muster.folder / "file").write_text("")
    index.write_text(json.dumps({**json.loads(index.read_text()), "work_dir": str(muster.folder / "file")}))
    shown = muster("prune", "--older-than", "30d", "--yes").stdout
    assert f"left alone: {runs[0]}: " in shown
    assert not (muster.runs / runs[1]).exists()


def test_an_age_that_is_none_is_told(muster: Muster) -> None:
    assert "is not a duration" in muster("prune", "--older-than", "a month", check=2).stderr
    assert "--older-than" in muster("prune", check=2).stderr
