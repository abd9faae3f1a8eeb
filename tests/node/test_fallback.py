"""Where the control channel cannot be had the work dir carries the run: slower, and said so once."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.harness import Muster, eventually
from tests.node.hands import FOREVER, by_hand, ended, heard, record_of, result_of, script_of, texts_of

RANKS = "import os\nprint(os.environ['RANK'], 'of', os.environ['WORLD_SIZE'], flush=True)\n"


def cluster(muster: Muster, run: str, script: Path, **env: str) -> list[subprocess.Popen[str]]:
    """Main, a worker behind a closed port, and one with the channel."""
    count = {"WORKER_COUNT": "2", **env}
    return [
        by_hand(muster, run, "MAIN", script, **count),
        by_hand(muster, run, "WORKER", script, RANK="1", MUSTER_CONTROL="store", **count),
        by_hand(muster, run, "WORKER", script, RANK="2", **count),
    ]


def note_of(muster: Muster, run: str) -> str:
    notes = record_of(muster, run, "worker-1")["notes"]
    assert len(notes) == 1
    return str(notes[0])


def test_a_run_without_a_channel_works_from_start_to_end_and_says_so_once(muster: Muster) -> None:
    assert ended(*cluster(muster, "closed", script_of(muster, RANKS))) == [0, 0, 0]
    assert sorted(texts_of(muster, "closed")) == ["0 of 3", "1 of 3", "2 of 3"]
    assert result_of(muster, "closed")["end"] == "script-ended"
    note = note_of(muster, "closed")
    assert "the control channel to main cannot be reached" in note
    assert "a lost node is noticed within 25 s instead of at once" in note
    assert texts_of(muster, "closed", "note").count(note) == 1
    assert record_of(muster, "closed", "worker-1")["link"] == "store"
    assert record_of(muster, "closed", "worker-2")["link"] == "channel"
    assert note in muster("status", "closed", "--work-dir", muster.runs).stdout


def test_a_failure_is_heard_of_through_the_work_dir(muster: Muster) -> None:
    fails = "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(7)\ntime.sleep(600)\n"
    assert ended(*cluster(muster, "fails", script_of(muster, fails))) == [7, 7, 7]
    result = result_of(muster, "fails")
    assert (result["end"], result["exit_code"], result["failure"]["process"]) == ("member-failed", 7, "rank 1")


def test_a_new_generation_is_heard_of_through_the_work_dir_and_the_note_is_not_repeated(muster: Muster) -> None:
    once = (
        "import os, pathlib, sys\nprint('here', flush=True)\n"
        "if os.environ['RANK'] == '2' and not pathlib.Path('tried').exists():\n"
        "    pathlib.Path('tried').touch()\n    sys.exit(3)\n"
    )
    assert ended(*cluster(muster, "again", script_of(muster, once), RETRIES="1")) == [0, 0, 0]
    assert result_of(muster, "again")["generation"] == 2
    note_of(muster, "again")


def test_a_stop_is_heard_of_through_the_work_dir(muster: Muster) -> None:
    nodes = cluster(muster, "stopped", script_of(muster, FOREVER))
    heard(muster, "stopped", "here", times=3)
    muster("stop", "stopped", "--work-dir", muster.runs)
    assert ended(*nodes) == [130, 130, 130]
    assert result_of(muster, "stopped")["end"] == "stop-requested"


def test_a_main_whose_port_is_closed_is_told_apart_from_one_that_is_gone(muster: Muster) -> None:
    """The port that main publishes is answered by nobody: what the worker sees is what a firewall shows."""
    script = script_of(muster, RANKS)
    main = by_hand(muster, "walled", "MAIN", script, WORKER_COUNT="1", MUSTER_ADDRESS="127.0.0.1")
    config = muster.runs / "walled" / "generations" / "000001" / "MAIN_config.json"
    eventually(config.exists)
    text = config.read_text()
    port = text.split('"control_port": ')[1].split(",")[0]
    config.write_text(text.replace(f'"control_port": {port}', '"control_port": 1'))
    worker = by_hand(muster, "walled", "WORKER", script, WORKER_COUNT="1", RANK="1")
    assert ended(main, worker) == [0, 0]
    assert "127.0.0.1:1 (" in note_of(muster, "walled")


def test_a_worker_that_leaves_is_told_of_once(muster: Muster) -> None:
    text = "import pathlib, time\nprint('here', flush=True)\nwhile not pathlib.Path('go').exists(): time.sleep(0.05)\n"
    nodes = cluster(muster, "leaves", script_of(muster, text), CLUSTER_TYPE="dask")
    heard(muster, "leaves", "here")
    nodes[1].terminate()
    assert nodes[1].wait(60) == 130
    told = "worker-1 was asked to end by SIGTERM; going on with 1"
    eventually(lambda: told in texts_of(muster, "leaves", "note"))
    beat = record_of(muster, "leaves", "main")["beat"]
    # Main writes its record every few seconds and looks at the others' every second.
    eventually(lambda: record_of(muster, "leaves", "main")["beat"] > beat, within=60)
    (muster.folder / "go").touch()
    assert ended(nodes[0], nodes[2]) == [0, 0]
    assert texts_of(muster, "leaves", "note").count(told) == 1
