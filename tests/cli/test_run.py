"""`muster run` in a pipe: the script's lines and exit code, mistakes in plain words, and nothing left behind."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.harness import Muster, eventually, marked
from tests.node.hands import result_of


def test_the_scripts_lines_go_to_output_and_musters_own_to_errors(muster: Muster) -> None:
    text = "import sys\nprint('out')\nprint('err', file=sys.stderr)\n"
    done = muster("run", muster.job(text, workers=1))
    assert sorted(done.stdout.splitlines()) == ["[rank 0] err", "[rank 0] out", "[rank 1] err", "[rank 1] out"]
    assert all(line.startswith("muster: ") for line in done.stderr.splitlines())
    run = muster.run_id()
    assert f"muster: run {run}\n" in done.stderr
    assert re.search(rf"muster: run {run} succeeded after [0-9.]+ s \(script-ended\)\n$", done.stderr)


@pytest.mark.parametrize("code", [0, 1, 3, 42, 200])
def test_the_exit_code_is_the_scripts_own(muster: Muster, code: int) -> None:
    muster("run", muster.job(f"raise SystemExit({code})", workers=0), check=code)


def test_quiet_shows_only_a_failed_end(muster: Muster) -> None:
    done = muster("run", "--quiet", muster.job("print('well')", workers=0))
    assert (done.stdout, done.stderr) == ("", "")
    done = muster("run", "--quiet", muster.job("raise RuntimeError('boom')", workers=0), check=1)
    assert done.stdout == ""
    assert "RuntimeError: boom" in done.stderr


def test_a_failed_rank_is_what_is_told_first(muster: Muster) -> None:
    text = (
        "import os, sys, time\n"
        "if os.environ['RANK'] == '1': raise ValueError('the cause')\n"
        "time.sleep(0.5)\nsys.exit('lost a peer')\n"
    )
    done = muster("run", muster.job(text, workers=1), check=1)
    told = done.stderr[done.stderr.index("failed first") :]
    assert "ValueError: the cause" in told
    assert "lost a peer" not in told


MISTAKES = """name: Mnist!
framework: plain
wrokers: 3
timeout: soon
entry: missing.py
retries: -1
"""


def test_all_mistakes_in_a_job_file_are_listed_with_their_lines(muster: Muster) -> None:
    (muster.folder / "job.yaml").write_text(MISTAKES)
    for verb in ("run", "plan"):
        done = muster(verb, check=2)
        for line, field in ((1, "name"), (3, "wrokers"), (4, "timeout"), (5, "entry"), (6, "retries")):
            assert f"job.yaml:{line}: {field}: " in done.stderr
        assert "workers" in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
    assert not muster.home.exists()


def test_a_job_file_that_is_not_there_is_a_clear_error(muster: Muster) -> None:
    done = muster("run", "nowhere.yaml", check=2)
    assert "nowhere.yaml" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_work_dir_that_cannot_be_written_is_a_clear_error(muster: Muster) -> None:
    (muster.folder / "file").write_text("")
    done = muster("run", muster.job("", workers=0, work_dir=str(muster.folder / "file" / "runs")), check=None)
    assert done.returncode in (2, 125)
    assert str(muster.folder / "file") in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_has_had_enough_ends_the_run(muster: Muster, mark: str) -> None:
    text = "import time\nfor n in range(100_000):\n    print('line', n, flush=True)\n    time.sleep(0.001)\n"
    words = " ".join(f"'{word}'" for word in muster.argv("run", muster.job(text, workers=0)))
    shell = ["bash", "-c", f"{words} | head -1; echo ${{PIPESTATUS[0]}}"]
    done = subprocess.run(shell, env=muster.env, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["[rank 0] line 0", "141"]
    assert "Traceback" not in done.stderr
    eventually(lambda: not marked(mark), within=60)
    assert result_of(muster, muster.run_id())["state"] == "stopped"


def test_detach_prints_the_id_and_nothing_else(muster: Muster) -> None:
    done = muster("run", muster.job("print('well')", workers=1), "--detach")
    run = muster.run_id()
    assert (done.stdout, done.stderr) == (f"{run}\n", "")
    assert result_of(muster, run)["state"] == "succeeded"


def test_waiting_names_the_nodes_that_are_missing(muster: Muster) -> None:
    """The worker is held up by its Python, which takes its time there."""
    slow = muster.folder / "slow-python"
    slow.write_text(f'#!/bin/sh\n[ "$MUSTER_NODE" = worker-1 ] && sleep 2\nexec {muster.argv()[0]} "$@"\n')
    slow.chmod(0o755)
    done = muster("run", muster.job("print('well')", workers=1, python=str(slow)))
    assert re.search(r"muster: waiting for .*worker-1", done.stderr)
