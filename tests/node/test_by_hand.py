"""Nodes that no target started: the environment is all they have, and the work dir is where they meet."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.harness import Muster, eventually
from tests.node.hands import (
    HERE,
    by_hand,
    ended,
    heard,
    read_json,
    record_of,
    result_of,
    script_of,
    texts_of,
)

RANKS = "import os\nprint(os.environ['RANK'], 'of', os.environ['WORLD_SIZE'], flush=True)\n"
WORDS = "import json, sys\nprint(json.dumps(sys.argv[1:]), flush=True)\n"


def test_main_and_two_workers_meet_through_a_folder(muster: Muster) -> None:
    script = script_of(muster, RANKS)
    count = {"WORKER_COUNT": "2"}
    main = by_hand(muster, "run-1", "MAIN", script, **count)
    workers = [by_hand(muster, "run-1", "WORKER", script, RANK=str(rank), **count) for rank in (1, 2)]
    assert ended(main, *workers) == [0, 0, 0]
    assert sorted(texts_of(muster, "run-1")) == ["0 of 3", "1 of 3", "2 of 3"]
    assert result_of(muster, "run-1")["end"] == "script-ended"
    assert "succeeded" in muster("status", "run-1", "--work-dir", muster.runs).stdout


def as_ads_does(muster: Muster, mode: str, script: Path, **env: str) -> subprocess.Popen[str]:
    """The variables that ADS sets, and no other that says what the node is to do."""
    names = {
        "OCI__WORK_DIR": str(muster.runs),
        "OCI__CLUSTER_TYPE": "PLAIN",
        "OCI__MODE": mode,
        "OCI__WORKER_COUNT": "1",
        "OCI__ENTRY_SCRIPT": script.name,
        "OCI__CODE_DIR": str(script.parent),
        "OCI__RUNTIME_TYPE": "python",
        "OCI_IAM_TYPE": "resource_principal",
        "JOB_OCID": "ocid1.datasciencejob.oc1..aaa",
        "JOB_RUN_OCID": f"ocid1.datasciencejobrun.oc1..{mode}",
    }
    return muster.start("node", **{**HERE, **names, **env})


@pytest.mark.parametrize("ephemeral", ["None", "1"])
def test_the_names_of_ads_work_as_they_are(muster: Muster, ephemeral: str) -> None:
    script = script_of(muster, WORDS)
    words = {
        "OCI__EPHEMERAL": ephemeral,
        "OCI__ENTRY_SCRIPT_ARGS": '["a b", "$HOME", 3]',
        "OCI__ENTRY_SCRIPT_KWARGS": "--rate 0.1",
    }
    nodes = [as_ads_does(muster, mode, script, RANK=rank, **words) for mode, rank in (("MAIN", "0"), ("WORKER", "1"))]
    assert ended(*nodes) == [0, 0]
    run = "ocid1.datasciencejob.oc1..aaa"
    assert texts_of(muster, run) == [json.dumps(["a b", "$HOME", "3", "--rate", "0.1"])] * 2
    assert read_json(muster.runs / run / "job.json")["job"]["ephemeral"] is True


def test_nodes_without_a_rank_name_themselves(muster: Muster) -> None:
    script = script_of(muster, RANKS)
    count = {"WORKER_COUNT": "2"}
    nodes = [by_hand(muster, "nameless", mode, script, **count) for mode in ("WORKER", "WORKER", "MAIN")]
    assert ended(*nodes) == [0, 0, 0]
    assert sorted(texts_of(muster, "nameless")) == ["0 of 3", "1 of 3", "2 of 3"]
    names = sorted(path.stem for path in (muster.runs / "nameless" / "nodes").iterdir())
    assert names[0] == "main"
    assert len(set(names)) == 3
    assert all(name.startswith("worker-") for name in names[1:])


@pytest.mark.parametrize(
    ("args", "named", "expected"),
    [
        ("one 'two words' --x=$y", "", ["one", "two words", "--x=$y"]),
        ('["", "a \\"quote\\"", "tab\\there", 1.5, true]', "", ["", 'a "quote"', "tab\there", "1.5", "true"]),
        ("first", "--name 'Ä ö' --flag", ["first", "--name", "Ä ö", "--flag"]),
        ("", '["--only", "named"]', ["--only", "named"]),
    ],
)
def test_arguments_come_as_words_or_as_json(muster: Muster, args: str, named: str, expected: list[str]) -> None:
    script = script_of(muster, WORDS)
    main = by_hand(muster, "words", "MAIN", script, WORKER_COUNT="0", ARGS=args, NAMED_ARGS=named)
    assert ended(main) == [0]
    assert json.loads(texts_of(muster, "words")[0]) == expected


def test_a_script_of_ads_finds_its_sync_dir_and_what_it_leaves_there_comes_home(muster: Muster, tmp_path: Path) -> None:
    text = "import os, pathlib\npathlib.Path(os.environ['OCI__SYNC_DIR'], 'model.txt').write_text('learnt')\n"
    script = script_of(muster, text)
    given = tmp_path / "opt ml"
    main = by_hand(muster, "given", "MAIN", script, WORKER_COUNT="0", OCI__SYNC_DIR=str(given))
    assert ended(main) == [0], main.communicate()
    assert ended(by_hand(muster, "left-out", "MAIN", script, WORKER_COUNT="0")) == [0]
    for run in ("given", "left-out"):
        muster("outputs", run, "--work-dir", muster.runs, "--to", tmp_path / run)
        assert (tmp_path / run / "model.txt").read_text() == "learnt"


def test_scripts_find_modules_beside_them_and_never_the_rank_of_the_node(muster: Muster) -> None:
    script_of(muster, "ANSWER = 42\n", "beside.py")
    script = script_of(
        muster, "import beside, os\nprint(beside.ANSWER, os.environ['RANK'], 'MUSTER_RANK' in os.environ)"
    )
    main = by_hand(muster, "beside", "MAIN", script, WORKER_COUNT="1", RANK="5")
    worker = by_hand(muster, "beside", "WORKER", script, WORKER_COUNT="1", MUSTER_RANK="7", RANK="6")
    assert ended(main, worker) == [0, 0]
    assert sorted(texts_of(muster, "beside")) == ["42 0 False", "42 1 False"]
    assert record_of(muster, "beside", "worker-7")["state"] == "ended"


DASK = """
import os
from distributed import Client

address = f"{os.environ['SCHEDULER_IP']}:{os.environ['SCHEDULER_PORT']}"
with Client(address) as client:
    names = client.gather(client.map(lambda _number: os.environ["JOB_RUN_OCID"], range(4), pure=False))
print(sorted(set(names)), "RANK" in os.environ, flush=True)
"""


def test_a_dask_script_of_ads_finds_its_scheduler(muster: Muster) -> None:
    script = script_of(muster, DASK)
    kind = {"OCI__CLUSTER_TYPE": "dask", "OCI__TIMEOUT": "120"}
    nodes = [
        as_ads_does(muster, mode, script, RANK=rank, nthread="1", death_timeout="30", **kind)
        for mode, rank in (("MAIN", "0"), ("WORKER", "1"))
    ]
    assert ended(*nodes, within=120) == [0, 0]
    assert "['ocid1.datasciencejobrun.oc1..WORKER'] False" in texts_of(muster, "ocid1.datasciencejob.oc1..aaa")


def test_a_long_lived_cluster_stays_without_a_script_until_a_stop_file(muster: Muster) -> None:
    env = {"EPHEMERAL": "False", "WORKER_COUNT": "1", "ENTRY_POINT": ""}
    nodes = [by_hand(muster, "stays", mode, muster.folder, **env) for mode in ("MAIN", "WORKER")]
    eventually(lambda: "ready: 2 nodes" in texts_of(muster, "stays", "note"))
    (muster.runs / "stays" / "stop").write_text("enough")
    assert ended(*nodes) == [130, 130]
    assert result_of(muster, "stays")["detail"] == "enough"


def test_a_second_node_of_the_same_rank_is_refused_and_the_first_goes_on(muster: Muster) -> None:
    script = script_of(
        muster,
        "import pathlib, time\nprint('here', flush=True)\nwhile not pathlib.Path('go').exists(): time.sleep(0.05)\n",
    )
    first = [
        by_hand(muster, "twice", "MAIN", script, WORKER_COUNT="1"),
        by_hand(muster, "twice", "WORKER", script, WORKER_COUNT="1", RANK="1"),
    ]
    heard(muster, "twice", "here", times=2)
    seconds = [
        by_hand(muster, "twice", "WORKER", script, WORKER_COUNT="1", RANK="1"),
        by_hand(muster, "twice", "MAIN", script, WORKER_COUNT="1"),
    ]
    for process, name in zip(seconds, ("worker-1", "main"), strict=True):
        _, told = process.communicate(timeout=60)
        assert process.returncode == 125
        pid = record_of(muster, "twice", name)["pid"]
        assert f"the name {name} of run twice is taken by process {pid} on" in told
        assert "another RANK" in told
        assert "Traceback" not in told
    (muster.folder / "go").touch()
    assert ended(*first) == [0, 0]


def test_all_mistakes_in_the_environment_are_listed(muster: Muster) -> None:
    done = muster("node", check=125, MODE="BOSS", WORKER_COUNT="some", TIMEOUT="soon", ARGS="'", EPHEMERAL="perhaps")
    named = ("WORK_DIR", "MODE", "CLUSTER_TYPE", "MUSTER_RUN_ID", "WORKER_COUNT", "TIMEOUT", "ARGS", "EPHEMERAL")
    assert [name for name in named if f"\n{name}: " not in done.stderr] == []
    assert "Traceback" not in done.stderr


def test_a_framework_that_is_not_there_is_named_with_those_that_are(muster: Muster) -> None:
    main = by_hand(muster, "mpi", "MAIN", script_of(muster, ""), CLUSTER_TYPE="mpi")
    _, told = main.communicate(timeout=60)
    assert main.returncode == 125
    assert "no framework is called 'mpi'" in told
    assert "There are: dask, horovod, plain, pytorch, tensorflow" in told


def job_of_another_muster(muster: Muster, run: str) -> None:
    script = script_of(muster, "")
    assert ended(by_hand(muster, "model", "MAIN", script, WORKER_COUNT="0")) == [0]
    document = read_json(muster.runs / "model" / "job.json")
    (muster.runs / run).mkdir()
    (muster.runs / run / "job.json").write_text(json.dumps({**document, "run": run, "protocol": 99}))


def test_a_node_refuses_a_job_of_another_protocol(muster: Muster) -> None:
    job_of_another_muster(muster, "newer")
    launched = {
        "MUSTER_LAUNCHED": "1",
        "MUSTER_PROTOCOL": "1",
        "MUSTER_WORK_DIR": str(muster.runs),
        "MUSTER_RUN_ID": "newer",
        "MUSTER_MODE": "MAIN",
    }
    nodes = [muster.start("node", **launched), by_hand(muster, "newer", "MAIN", muster.folder / "script.py")]
    for node in nodes:
        _, told = node.communicate(timeout=60)
        assert node.returncode == 125
        assert "run newer speaks protocol 99, and this Muster speaks 1" in told
        assert "pip install --upgrade musterpoint" in told


def test_a_node_refuses_a_launcher_of_another_protocol(muster: Muster) -> None:
    done = muster("node", check=125, MUSTER_LAUNCHED="1", MUSTER_PROTOCOL="2")
    assert "the launcher speaks protocol 2, this node speaks 1" in done.stderr
    assert "same version of musterpoint" in done.stderr


def test_a_worker_refuses_a_main_of_another_protocol(muster: Muster) -> None:
    folder = muster.runs / "mixed" / "generations" / "000001"
    folder.mkdir(parents=True)
    config = {"node": "main", "address": "127.0.0.1", "control_port": 1, "generation": 1, "protocol": 99}
    (folder / "MAIN_config.json").write_text(json.dumps(config))
    worker = by_hand(muster, "mixed", "WORKER", script_of(muster, ""), RANK="1")
    assert ended(worker) == [124]
    assert "main of run mixed speaks protocol 99" in record_of(muster, "mixed", "worker-1")["verdict"]["detail"]
