"""`muster ps` and how a run is found: by its id, the beginning of it, or its job's name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.errors import RunNotFound
from muster.workdir.index import IndexEntry, find, remember
from tests.cli.conftest import Finished
from tests.harness import Muster
from tests.node.hands import FOREVER, heard


def test_without_runs_it_says_how_to_begin(muster: Muster) -> None:
    assert muster("ps").stdout == "No runs yet. `muster init` makes a job to start from.\n"
    assert muster("ps", "--json").stdout == "[]\n"
    assert not muster.home.exists()


def test_runs_are_listed_with_state_and_end_the_newest_first(muster: Muster) -> None:
    muster("run", muster.job("", workers=0, name="first"))
    muster("run", muster.job("raise SystemExit(3)", workers=0, name="second"), check=3)
    launcher = muster.start("run", muster.job(FOREVER, workers=1, name="third"))
    third = muster.run_id(known=tuple(path.stem for path in (muster.home / "index").iterdir()))
    heard(muster, third, "here", times=2)
    rows = [line.split() for line in muster("ps").stdout.splitlines()]
    assert rows[0] == ["RUN", "STATE", "FRAMEWORK", "NODES", "AGE", "END"]
    assert [row[:4] for row in rows[1:]] == [
        [third, "running", "plain", "2"],
        [rows[2][0], "failed", "plain", "1"],
        [rows[3][0], "succeeded", "plain", "1"],
    ]
    assert rows[2][5:] == ["member-failed,", "exit", "code", "3"]
    listed = json.loads(muster("ps", "--json").stdout)
    assert [(run["name"], run["state"]) for run in listed] == [
        ("third", "running"),
        ("second", "failed"),
        ("first", "succeeded"),
    ]
    muster("stop", third)
    assert launcher.wait(60) == 130


def test_a_work_dir_is_listed_without_the_index(finished: Finished, tmp_path: Path) -> None:
    env = {"MUSTER_HOME": str(tmp_path / "other home")}
    assert finished.run not in finished.muster("ps", check=0, **env).stdout
    assert finished.run in finished.muster("ps", "--work-dir", finished.muster.runs, check=0, **env).stdout


def test_one_damaged_or_foreign_run_does_not_hide_the_others(muster: Muster) -> None:
    for name in ("good", "gone", "foreign"):
        muster("run", muster.job("", workers=0, name=name))
    good, gone, foreign = (next(muster.runs.glob(f"{name}-*")) for name in ("good", "gone", "foreign"))
    (gone / "job.json").write_text("{")
    document = json.loads((foreign / "job.json").read_text())
    (foreign / "job.json").write_text(json.dumps({**document, "protocol": 99}))
    for words in (["ps"], ["ps", "--work-dir", str(muster.runs)]):
        shown = muster(*words).stdout
        assert f"{good.name} " in shown
        assert "is damaged" in shown
        assert "speaks protocol 99" in shown
    assert [run["name"] for run in json.loads(muster("ps", "--json").stdout)] == ["good"]


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path))
    for age, run in enumerate(("mnist-old00000", "mnist-new00000", "digits-aaaa1111", "digits-aaab2222")):
        remember(IndexEntry(run, "/runs", "local", created_at=float(age)))


@pytest.mark.unit
@pytest.mark.usefixtures("index")
def test_a_run_is_found_by_its_id_its_beginning_or_its_jobs_name() -> None:
    assert find("mnist-old00000").run == "mnist-old00000"
    assert find("mnist-o").run == "mnist-old00000"
    assert find("mnist").run == "mnist-new00000"
    assert find("digits-aaab").run == "digits-aaab2222"


@pytest.mark.unit
@pytest.mark.usefixtures("index")
def test_what_could_be_several_runs_is_asked_for_more_of() -> None:
    with pytest.raises(RunNotFound, match="'digits-aaa' could be any of digits-aaab2222, digits-aaaa1111") as caught:
        find("digits-aaa")
    assert caught.value.fix == "Give more of the id."
    with pytest.raises(RunNotFound, match="no run is called ''"):
        find("")
    with pytest.raises(RunNotFound, match=r"no run is called '\.\./x'"):
        find("../x")


@pytest.mark.unit
@pytest.mark.usefixtures("index")
def test_what_is_no_run_gets_the_latest_that_there_is() -> None:
    with pytest.raises(RunNotFound, match="no run is called 'xyz'") as caught:
        find("xyz")
    assert caught.value.fix == "The latest is digits-aaab2222; `muster ps` lists all."


def test_every_verb_on_a_run_says_so_when_there_is_none(muster: Muster) -> None:
    for verb in ("status", "logs", "stop", "outputs"):
        done = muster(verb, "nothing", check=2)
        assert "no run is called 'nothing'" in done.stderr
        assert "There are none yet" in done.stderr
        assert "Traceback" not in done.stderr
        done = muster(verb, "nothing", "--work-dir", muster.folder, check=2)
        assert f"no run is called 'nothing' in {muster.folder}" in done.stderr
