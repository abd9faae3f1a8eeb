"""The local target: its plan as one value, and runs that keep to their own folders, ports and user."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.harness import Muster, eventually, marked
from tests.node.hands import FOREVER, heard, record_of, result_of, texts_of


def node_plan(name: str, retries: bool = False) -> dict[str, Any]:
    role = name.partition("-")[0]
    return {
        "name": name,
        "role": role,
        "command": ["PYTHON", "-m", "muster.node"],
        "environment": {
            "MUSTER_LAUNCHED": "1",
            "MUSTER_PROTOCOL": "1",
            "MUSTER_WORK_DIR": "HOME/runs",
            "MUSTER_RUN_ID": "{run}",
            "MUSTER_MODE": role.upper(),
            "MUSTER_NODE": name,
            "MUSTER_FOLDER": f"HOME/nodes/{{run}}/{name}",
            "MUSTER_ADDRESS": "127.0.0.1",
            "MUSTER_FREE_PORTS": "1",
            "MUSTER_MAIN_GRACE": "30" if retries else "5",
            "MUSTER_GPUS": "0",
            "MUSTER_CODE": "DIGEST",
        },
        "folder": f"HOME/nodes/{{run}}/{name}",
        "ports": {"plain": "23456"},
    }


PLAN = {
    "target": "local",
    "kind": "local",
    "job": {
        "name": "test",
        "framework": "plain",
        "code": "JOB/code",
        "entry": "script.py",
        "args": ["--epochs", "3"],
        "env": {"LEVEL": "high"},
        "secrets": ["TOKEN"],
        "workers": {"min": 2, "max": 2, "start": None},
        "ps": 0,
        "processes": None,
        "python": None,
        "python_path": [],
        "resources": {"gpus": None, "gpu": None, "cpus": None, "memory": None, "disk": None},
        "image": None,
        "requirements": None,
        "inputs": {},
        "outputs": "outputs",
        "checkpoints": "checkpoints",
        "ephemeral": True,
        "timeout": 600.0,
        "ttl": 3600.0,
        "retries": 2,
        "roles": {},
        "options": {},
        "tags": {"team": "vision"},
        "work_dir": None,
    },
    "work_dir": "HOME/runs",
    "code": {"source": "JOB/code", "digest": "DIGEST", "files": 1, "bytes": 5, "ignored": []},
    "python": "PYTHON",
    "requirements": None,
    "nodes": [node_plan(name, retries=True) for name in ("main", "worker-1", "worker-2")],
    "network": "nothing outside this machine; on 127.0.0.1, each moved where taken: 23456, 23456",
    "protocol": 1,
    "price_per_hour": None,
    "statements": [],
    "resources": [],
    "settings": {},
    "notes": [],
}


def test_the_plan_is_this_value_whole(muster: Muster) -> None:
    more: dict[str, Any] = {"env": {"LEVEL": "high"}, "tags": {"team": "vision"}, "args": ["--epochs", 3]}
    job = muster.job("pass\n", workers=2, secrets=["TOKEN"], ttl="1h", retries=2, **more)
    shown = muster("plan", job, "--json").stdout
    digest = json.loads(shown)["code"]["digest"]
    assert re.fullmatch("[0-9a-f]{64}", digest)
    for found, name in ((muster.home, "HOME"), (job.parent, "JOB"), (sys.executable, "PYTHON"), (digest, "DIGEST")):
        shown = shown.replace(str(found), name)
    assert json.loads(shown) == PLAN


def test_a_plan_touches_nothing(muster: Muster, tmp_path: Path) -> None:
    job = muster.job("pass\n", workers=2)
    before = sorted(path for path in tmp_path.rglob("*"))
    muster("plan", job)
    muster("plan", job, "--json")
    assert not muster.home.exists()
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_the_plan_in_words_says_what_will_be(muster: Muster) -> None:
    job = muster.job("pass\n", workers=2, secrets=["TOKEN"], resources={"cpus": 4000}, image="registry/x:1")
    shown = muster("plan", job).stdout
    for part in (
        "test: plain on local, 3 nodes",
        f"work dir      {muster.runs}",
        f"python        {sys.executable}",
        "1 files, 5B, ",
        "TOKEN (from your environment; never written down)",
        "ready within  10m",
        "ends within   1d",
        "price         nothing",
        "worker-2      ports plain 23456",
        "resources.cpus: 4000 wanted for each node",
        "image: is not used",
        "Nothing was created. `muster run` does just this.",
    ):
        assert part in shown


def test_run_does_what_the_plan_says(muster: Muster) -> None:
    job = muster.job("pass\n", workers=1)
    planned = json.loads(muster("plan", job, "--json").stdout)
    muster("run", job)
    assert json.loads((muster.runs / muster.run_id() / "plan.json").read_text()) == planned


# --- muster.toml ------------------------------------------------------------------------------------------

TARGETS = """
default = "near"

[targets.near]
kind = "local"
work_dir = "near runs"

[targets.far]
kind = "local"
work_dir = "{far}"
scratch = "scratch"
"""


def test_targets_are_named_in_muster_toml_and_chosen_with_on(muster: Muster, tmp_path: Path) -> None:
    job = muster.job("print('well')", workers=0)
    (job.parent / "muster.toml").write_text(TARGETS.format(far=tmp_path / "far"))
    muster("run", job)
    muster("run", job, "--on", "far")
    muster("run", job, "--on", "local")
    near, far = job.parent / "near runs", tmp_path / "far"
    for place in (near, far, muster.runs):
        assert len(list(place.glob("test-*/result.json"))) == 1
    assert len(muster("ps").stdout.splitlines()) == 4
    assert str(job.parent / "scratch" / "{run}" / "main") in muster("plan", job, "--on", "far").stdout
    assert not list((job.parent / "scratch").iterdir())
    done = muster("run", job, "--on", "fra", check=2)
    assert "there is no target 'fra'" in done.stderr
    assert "Did you mean `far`?" in done.stderr


def test_the_job_may_say_where_its_nodes_meet(muster: Muster, tmp_path: Path) -> None:
    job = muster.job("print('well')", workers=0, work_dir="own runs")
    (job.parent / "muster.toml").write_text(TARGETS.format(far=tmp_path / "far"))
    muster("run", job, "--on", "far")
    assert len(list((job.parent / "own runs").glob("test-*/result.json"))) == 1
    assert not (tmp_path / "far").exists()


def test_a_target_of_a_later_version_is_a_clear_error(muster: Muster) -> None:
    job = muster.job("", workers=0)
    (job.parent / "muster.toml").write_text('[targets.cloud]\nkind = "aws"\n')
    done = muster("run", job, "--on", "cloud", check=2)
    assert "targets of the kind 'aws' are not in this version" in done.stderr


# --- keeping to itself ------------------------------------------------------------------------------------


def test_several_runs_at_once_do_not_meet(muster: Muster) -> None:
    text = "import os, time\ntime.sleep(0.5)\nprint(os.environ['WHO'], os.environ['RANK'], os.environ['WORLD_SIZE'])\n"
    jobs = [muster.job(text, workers=1, env={"WHO": f"job {number}"}) for number in range(4)]
    launchers = [muster.start("run", job) for job in jobs]
    for number, launcher in enumerate(launchers):
        shown, told = launcher.communicate(timeout=120)
        assert launcher.returncode == 0, told
        assert sorted(shown.splitlines()) == [f"[rank 0] job {number} 0 2", f"[rank 1] job {number} 1 2"]
    assert len(list(muster.runs.glob("test-*"))) == 4


NAMES = ["with space", "with # hash", "with\ttab", "ünïcödé 训练", "quote'\"$HOME;&"]


@pytest.mark.parametrize("name", NAMES)
def test_any_path_works_for_home_work_dir_and_code(muster: Muster, tmp_path: Path, name: str) -> None:
    odd = tmp_path / name
    code = odd / "code" / name
    code.mkdir(parents=True)
    (code / f"{name}.py").write_text(
        "import pathlib, sys\nprint(sys.argv[1], pathlib.Path.cwd().name)\n"
        f"pathlib.Path('outputs', {name!r}).write_text('out')\n"
    )
    (code / f"{name}.txt").write_text("beside")
    job = {"name": "odd", "framework": "plain", "code": f"code/{name}", "entry": f"{name}.py", "args": [name]}
    (odd / "job.json").write_text(json.dumps({**job, "workers": 1, "work_dir": f"runs {name}"}))
    done = muster("run", odd / "job.json", MUSTER_HOME=str(odd / "home"))
    assert sorted(done.stdout.splitlines()) == [f"[rank {rank}] {name} code" for rank in (0, 1)]
    fetched = tmp_path / "fetched" / name
    muster("outputs", "odd", "--to", fetched, MUSTER_HOME=str(odd / "home"))
    assert (fetched / name).read_text() == "out"
    assert len(list((odd / f"runs {name}").glob("odd-*/result.json"))) == 1
    assert not list((odd / "home" / "nodes").iterdir())


def test_a_relative_pythonpath_means_what_it_meant_to_the_caller(muster: Muster) -> None:
    (muster.folder / "lib").mkdir()
    (muster.folder / "lib" / "found_here.py").write_text("ANSWER = 42\n")
    path = os.pathsep.join(["lib", muster.env["PYTHONPATH"]])
    done = muster("run", muster.job("import found_here\nprint(found_here.ANSWER)", workers=0), PYTHONPATH=path)
    assert done.stdout == "[rank 0] 42\n"


def test_what_the_caller_has_in_its_environment_does_not_confuse_the_nodes(muster: Muster) -> None:
    text = "import os\nprint(os.environ['RANK'], os.environ['KEPT'], 'MUSTER_MODE' in os.environ)"
    stray = {"RANK": "7", "OCI__MODE": "PS", "MODE": "WORKER", "MUSTER_NODE": "other", "MUSTER_RUN_ID": "other"}
    done = muster("run", muster.job(text, workers=1), check=0, KEPT="yes", **stray)
    assert sorted(line.split()[2:4] for line in done.stdout.splitlines()) == [["0", "yes"], ["1", "yes"]]


def listeners(mark: str) -> set[tuple[str, str]]:
    """Every address on which a process of this test listens, with what it is."""
    found = set()
    for pid, line in marked(mark).items():
        try:
            connections = psutil.Process(pid).net_connections(kind="tcp")
        except psutil.Error:
            continue
        found |= {(one.laddr.ip, line) for one in connections if one.status == psutil.CONN_LISTEN}
    return found


@pytest.mark.parametrize("framework", ["plain", "dask"])
def test_a_run_listens_on_loopback_only(muster: Muster, mark: str, framework: str) -> None:
    launcher = muster.start("run", muster.job(FOREVER, framework=framework, workers=1))
    run = muster.run_id()
    heard(muster, run, "here", times=2 if framework == "plain" else 1)
    seen = listeners(mark)
    assert len(seen) >= (1 if framework == "plain" else 3)
    assert {address for address, _ in seen} == {"127.0.0.1"}
    muster("stop", run)
    assert launcher.wait(60) == 130


def test_nodes_have_ports_of_their_own_and_the_record_says_which(muster: Muster) -> None:
    launcher = muster.start("run", muster.job(FOREVER, workers=2))
    run = muster.run_id()
    heard(muster, run, "here", times=3)
    ports = [record_of(muster, run, node)["ports"]["plain"] for node in ("main", "worker-1", "worker-2")]
    assert len(set(ports)) == 3
    muster("stop", run)
    assert launcher.wait(60) == 130


def test_a_node_that_cannot_even_begin_says_why(muster: Muster) -> None:
    """The first thing a node does is to read its job; here somebody has changed it."""
    job = muster.job("print('never')", workers=0)
    text = (
        "import json, pathlib, sys\n"
        "from muster import launching\n"
        "plan = launching.plan(launching.load(sys.argv[1]))\n"
        "run = launching.record(plan, lambda _text: None)\n"
        "path = pathlib.Path(plan.work_dir, run, 'job.json')\n"
        "path.write_text(path.read_text().replace('\"protocol\": 1', '\"protocol\": 99'))\n"
    )
    subprocess.run([sys.executable, "-c", text, str(job)], env=muster.env, cwd=muster.folder, check=True, timeout=60)
    done = muster("run", "--resume", muster.run_id(), check=122)
    assert "speaks protocol 99, and this Muster speaks 1" in done.stderr
    assert result_of(muster, muster.run_id())["end"] == "main-lost"


WITHOUT_ROOT = (
    ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"],
    ["unshare", "--user", "--map-user=65534", "--map-group=65534"],
)
"""Ways to become nobody. The second also does where the interpreter lies in a folder of root's own."""


def test_it_works_without_root(muster: Muster, mark: str) -> None:
    """Where we are no root, every other test shows it."""
    if os.getuid() != 0:
        pytest.skip("this is not root already")
    look = [
        sys.executable,
        "-c",
        "import muster, subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)",
    ]
    ways = [way for way in WITHOUT_ROOT if shutil.which(way[0])]
    way = next((way for way in ways if not subprocess.run([*way, *look], capture_output=True).returncode), None)
    assert way is not None, "nobody but root may use this interpreter; install setpriv and unshare (util-linux)"
    folder = Path(tempfile.mkdtemp(prefix="muster-nobody-"))
    try:
        shutil.copytree(muster.job("import os\nprint(os.getuid())", workers=1).parent, folder / "job")
        folder.chmod(0o777)
        env = {**muster.env, "MUSTER_HOME": str(folder / "home"), "HOME": str(folder), "TMPDIR": str(folder)}
        words = [*way, *muster.argv("run", folder / "job" / "job.yaml")]
        done = subprocess.run(words, env=env, cwd=folder, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert sorted(done.stdout.splitlines()) == ["[rank 0] 65534", "[rank 1] 65534"]
        eventually(lambda: not marked(mark))
        assert not list((folder / "home" / "nodes").iterdir())
    finally:
        shutil.rmtree(folder)


def test_a_run_leaves_only_its_record(muster: Muster, tmp_path: Path) -> None:
    muster("run", muster.job("print('well')", workers=1))
    run = muster.run_id()
    assert sorted(path.name for path in muster.home.iterdir() if any(path.rglob("*"))) == ["index", "runs"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "work"]
    assert texts_of(muster, run) == ["well", "well"]


def test_a_plan_needs_no_credentials(muster: Muster) -> None:
    job = muster.job("print(1)\n", work_dir="s3://bucket/runs", inputs={"data": "s3://other/set"})
    for name in [name for name in muster.env if name.startswith("AWS_")]:
        del muster.env[name]
    planned = json.loads(muster("plan", job, "--json", AWS_EC2_METADATA_DISABLED="true").stdout)
    assert planned["work_dir"] == "s3://bucket/runs"
