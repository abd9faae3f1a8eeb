"""`muster stop`."""

from __future__ import annotations

from tests.cli.conftest import Finished
from tests.harness import Muster, eventually
from tests.node.hands import FOREVER, heard, result_of


def test_it_waits_until_the_run_is_over(muster: Muster) -> None:
    launcher = muster.start("run", muster.job(FOREVER, workers=1))
    run = muster.run_id()
    heard(muster, run, "here", times=2)
    assert muster("stop", "test").stdout == f"{run}: stopped (stop-requested)\n"
    assert result_of(muster, run)["detail"] == "stopped by its user"
    assert launcher.wait(60) == 130
    assert "stop-requested: stopped by its user" in launcher.communicate()[1]


def test_it_may_return_at_once(muster: Muster) -> None:
    launcher = muster.start("run", muster.job(FOREVER, workers=0))
    run = muster.run_id()
    heard(muster, run, "here")
    assert muster("stop", run, "--no-wait").stdout == f"{run}: asked to stop\n"
    assert launcher.wait(60) == 130


def test_a_run_that_has_just_been_detached_can_be_stopped(muster: Muster, mark: str) -> None:
    from tests.harness import marked

    run = muster("run", muster.job(FOREVER, workers=1), "--detach").stdout.strip()
    muster("stop", run)
    assert result_of(muster, run)["state"] == "stopped"
    eventually(lambda: not marked(mark), within=60)


def test_an_ended_run_stays_as_it_ended(finished: Finished) -> None:
    assert finished.muster("stop", finished.run).stdout == f"{finished.run}: succeeded (script-ended)\n"
