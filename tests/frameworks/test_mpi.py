"""Open MPI, a package of its own in `examples/plugins`, is found by its entry point alone and keeps the contract."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, ClassVar

import pytest

from muster.errors import NodeError
from muster.spec.job import Job, Workers
from muster.workdir.records import Member
from tests.frameworks.contract import PATIENT, FrameworkContract, Tour, result_of
from tests.frameworks.scenes import scene
from tests.harness import Muster, eventually, marked
from tests.needs import needs
from tests.node.hosts import Host, hosts

PACKAGE = Path(__file__).parents[2] / "examples" / "plugins" / "muster-mpi"

TEAM = """
from mpi4py import MPI

ALL = MPI.COMM_WORLD
RANK = ALL.rank
NAME, FIRST = f"rank {RANK}", RANK == 0

def took_part():
    return ALL.allreduce(10**RANK)

def everywhere(act):
    act(NAME)

def fail(act):
    if RANK == 1:
        act()
    while True:
        ALL.allreduce(1)
"""

JOB = Job(name="j", framework="mpi", entry="train.py", workers=Workers(4, 4))
CONTRACT = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")

ENVIRONMENT = f"""
import json, os
import team
names = {(*CONTRACT, "MUSTER_NODE", "OMP_NUM_THREADS", "OMPI_MCA_btl")!r}
told = {{name: os.environ.get(name) for name in names}}
told["mpi"] = [team.ALL.rank, team.ALL.size]
told["ours"] = [name for name in os.environ if name.startswith("MUSTER_MPI")]
print("env " + json.dumps(told))
"""

KILLED = """
import os, signal
import team
team.fail(lambda: os.kill(os.getpid(), signal.SIGKILL))
"""

ENDED_AT_ONCE = """
import team
team.ALL.barrier()
raise ValueError(f"the cause in rank {team.RANK}")
"""

AGAIN = """
import os, pathlib, signal
import team
died = pathlib.Path(os.environ["MEET"], "died")
if died.exists():
    print("again:", team.took_part())
else:
    team.ALL.barrier()
    if team.RANK == 1:
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    team.ALL.barrier()
"""

SAVES = """
import pathlib, signal, sys, time
import team

def save(*_):
    pathlib.Path("outputs", team.NAME).touch()
    sys.exit(0)

signal.signal(signal.SIGTERM, save)
team.ALL.barrier()
print("here", flush=True)
while True:
    time.sleep(0.1)
"""

WAITS = """
import os, time
import team
team.ALL.barrier()
print("here", len(os.environ["PASSWORD"]), flush=True)
while True:
    time.sleep(0.1)
"""

OTHER = "#!/bin/sh\necho HYDRA build details:\n"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as its users install it, in a folder of its own."""
    needs("mpirun", "orted")
    if find_spec("mpi4py") is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("this test needs mpi4py")
    folder = tmp_path_factory.mktemp("muster-mpi")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--no-deps", "--target", str(folder), str(PACKAGE)], check=True)
    return folder


@pytest.fixture
def muster(muster: Muster, installed: Path) -> Muster:
    """The command where the plugin is installed, and nothing else was done about it."""
    muster.env["PYTHONPATH"] = os.pathsep.join([str(installed), muster.env["PYTHONPATH"]])
    return muster


class TestMpi(FrameworkContract):
    framework = "mpi"
    fields: ClassVar = {"workers": 1}
    team = TEAM
    took_part: ClassVar = 11
    scripts = speakers = frozenset({"rank 0", "rank 1"})
    culprit = "rank 1"
    watched = (*CONTRACT, "OMPI_COMM_WORLD_RANK")

    def check_environment(self, tour: Tour) -> None:
        environments = sorted((record["env"] for record in tour.records), key=lambda env: str(env["RANK"]))
        assert [contract(env) for env in environments] == ranks(nodes=2, each=1)
        assert [env["OMPI_COMM_WORLD_RANK"] for env in environments] == ["0", "1"]

    def test_several_ranks_of_a_node_are_neighbours_and_each_has_its_own_log(self, muster: Muster) -> None:
        done = muster("run", self.job(muster, ENVIRONMENT, processes=2))
        environments = environments_of(done.stdout)
        assert [contract(env) for env in environments] == ranks(nodes=2, each=2)
        assert [env["MUSTER_NODE"] for env in environments] == ["main", "main", "worker-1", "worker-1"]
        assert [env["mpi"] for env in environments] == [[rank, 4] for rank in range(4)]
        assert [env["OMP_NUM_THREADS"] for env in environments] == ["1"] * 4
        assert [env["ours"] for env in environments] == [[]] * 4
        assert all(f"[rank {rank}] env " in done.stdout for rank in range(4))

    def test_a_main_that_does_not_compute_runs_no_rank_and_words_for_mpirun_reach_it(self, muster: Muster) -> None:
        options = {"start_args": ["--mca", "btl", "self,tcp"]}
        job = self.job(muster, ENVIRONMENT, workers=2, main={"computes": False}, options=options)
        environments = environments_of(muster("run", job).stdout)
        assert [contract(env) for env in environments] == ranks(nodes=2, each=1)
        assert [env["MUSTER_NODE"] for env in environments] == ["worker-1", "worker-2"]
        assert [env["OMPI_MCA_btl"] for env in environments] == ["self,tcp"] * 2

    def test_a_killed_rank_is_the_cause_and_not_those_that_were_ended_for_it(self, muster: Muster) -> None:
        done = muster("run", self.job(muster, KILLED, processes=2), check=137)
        assert "rank 1 on main failed first, with exit code 137. It said nothing." in done.stderr

    def test_of_ranks_that_all_fail_one_is_shown_with_its_own_words(self, muster: Muster) -> None:
        done = muster("run", self.job(muster, ENDED_AT_ONCE, workers=2), check=1)
        first = re.search(r"rank (\d) on (\S+) failed first, with exit code 1", done.stderr)
        assert first
        assert first[2] == ("main", "worker-1", "worker-2")[int(first[1])]
        assert f"muster:   ValueError: the cause in rank {first[1]}" in done.stderr

    @pytest.mark.slow
    def test_after_a_rank_died_all_start_again(self, muster: Muster, tmp_path: Path) -> None:
        done = muster("run", self.job(muster, AGAIN, retries=1, env={"MEET": str(tmp_path)}))
        assert sorted(re.findall(r"\[rank (\d)\] again: (\d+)", done.stdout)) == [("0", "11"), ("1", "11")]
        assert "generation 2: rank 1 on worker-1 ended with exit code 137" in done.stderr
        assert result_of(muster, muster.run_id())["generation"] == 2

    def test_ranks_may_save_when_the_run_is_stopped(self, muster: Muster, tmp_path: Path) -> None:
        process = muster.start("run", self.job(muster, SAVES))
        run = muster.run_id()
        eventually(lambda: muster("logs", run).stdout.count("] here") == 2, PATIENT)
        muster("stop", run)
        assert process.wait(PATIENT) == 130
        found = json.loads(muster("outputs", run, "--to", tmp_path / "outputs", "--json").stdout)
        assert found.keys() == {"rank 0", "rank 1"}

    def test_no_secret_and_no_value_of_the_job_is_on_a_command_line(self, muster: Muster, mark: str) -> None:
        job = self.job(muster, WAITS, secrets=["PASSWORD"], env={"OPEN": "a-value-of-the-job"}, args=["an-argument"])
        process = muster.start("run", job, PASSWORD="only-the-ranks-know")
        run = muster.run_id()
        eventually(lambda: muster("logs", run).stdout.count("] here 19") == 2, PATIENT)
        lines = marked(mark).values()
        assert [line for line in lines if "an-argument" in line and "-m mpi4py" in line]
        assert len([line for line in lines if line.startswith("orted ")]) == 2
        assert not [line for line in lines if "only-the-ranks-know" in line or "a-value-of-the-job" in line]
        muster("stop", run)
        assert process.wait(PATIENT) == 130

    @pytest.mark.slow
    def test_the_loss_of_a_node_ends_the_run_with_its_name(self, muster: Muster) -> None:
        process = muster.start("run", self.job(muster, WAITS, workers=2, env={"PASSWORD": "none"}))
        run = muster.run_id()
        eventually(lambda: muster("logs", run).stdout.count("] here") == 3, PATIENT)
        record = json.loads((muster.runs / run / "nodes" / "worker-2.json").read_text())
        os.kill(int(record["pid"]), signal.SIGKILL)
        _, told = process.communicate(timeout=PATIENT)
        assert process.returncode != 0
        assert "worker-2 was lost" in told

    def test_a_node_without_open_mpi_says_what_to_install(self, muster: Muster) -> None:
        done = muster("run", self.job(muster, ENVIRONMENT, worker={"env": {"PATH": "/nowhere"}}), check=None)
        assert done.returncode != 0
        assert "worker-1 has no orted on its PATH, which framework mpi needs" in done.stderr
        assert "apt install openmpi-bin" in done.stderr
        assert "Traceback" not in done.stderr

    def test_another_mpirun_than_open_mpis_is_refused_with_its_name(self, muster: Muster, tmp_path: Path) -> None:
        (tmp_path / "mpirun").write_text(OTHER)
        (tmp_path / "mpirun").chmod(0o755)
        path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
        done = muster("run", self.job(muster, ENVIRONMENT, env={"PATH": path}), check=1)
        assert "speaks with mpirun of Open MPI 4, and this is HYDRA build details:" in done.stderr
        assert "apt install openmpi-bin" in done.stderr

    def test_a_job_in_which_nothing_computes_is_refused(self, muster: Muster) -> None:
        job = self.job(muster, ENVIRONMENT, workers=0, main={"computes": False})
        assert "nothing computes" in muster("run", job, check=2).stderr

    @pytest.mark.slow
    def test_the_example_finds_what_it_looks_for(self, muster: Muster, tmp_path: Path) -> None:
        example = muster.folder / "example"
        shutil.copytree(PACKAGE / "example", example)
        done = muster("run", example / "job.yaml")
        assert "3 ranks found the shape" in done.stdout
        muster("outputs", muster.run_id(), "--to", tmp_path / "outputs")
        result = json.loads((tmp_path / "outputs" / "result.json").read_text())
        assert result["ranks"] == 3
        assert result["error"] < 1e-4
        assert len(result["shape"]) == 300


# --- machines of their own -------------------------------------------------------------------------------


@pytest.fixture
def three() -> Iterator[list[Host]]:
    needs("ip", "nsenter", root=True)
    with hosts(3) as made:
        yield made


def test_ranks_on_three_hosts_meet_without_ssh(muster: Muster, three: list[Host]) -> None:
    """Hosts that share nothing but a folder and a subnet, and have no ssh."""
    code = muster.folder / "code"
    code.mkdir()
    (code / "team.py").write_text(TEAM)
    (code / "script.py").write_text("import team\nprint('met', team.took_part())")
    tools = muster.folder / "tools"
    tools.mkdir()
    for tool in ("mpirun", "orted", "sh", "true"):
        (tools / tool).symlink_to(str(shutil.which(tool)))
    nodes = []
    for number, host in enumerate(three):
        given = {
            "WORK_DIR": str(muster.runs),
            "CLUSTER_TYPE": "mpi",
            "MODE": "WORKER" if number else "MAIN",
            "WORKER_COUNT": "2",
            "JOB_OCID": "far",
            "CODE_DIR": str(code),
            "ENTRY_SCRIPT": "script.py",
            "TIMEOUT": "60",
            "MUSTER_HOME": str(muster.home / host.name),
            "PATH": str(tools),
            # Shared memory is named after the machine, and these have one name between them.
            "OMPI_MCA_btl": "self,tcp",
        }
        argv = host.argv(sys.executable, "-m", "muster", "node")
        argv[0] = str(shutil.which(argv[0]))
        nodes.append(subprocess.Popen(argv, env={**muster.env, **given}, stdout=-1, stderr=-1, text=True))
    muster.started += nodes
    assert [node.wait(PATIENT) for node in nodes] == [0, 0, 0], [node.communicate() for node in nodes]
    lines = map(json.loads, muster("logs", "far", "--work-dir", muster.runs, "--json").stdout.splitlines())
    met = {line["node"]: line["rank"] for line in lines if line["text"] == "met 111"}
    assert sorted(met.values()) == [0, 1, 2]
    assert met["main"] == 0


# --- without a process -----------------------------------------------------------------------------------


@pytest.fixture
def plugin() -> Any:
    spec = spec_from_file_location("muster_mpi", PACKAGE / "muster_mpi.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.unit
@pytest.mark.parametrize(
    "line",
    [
        'orted -mca orte_hnp_uri "1.0;tcp://10.0.0.1:5"',
        'PATH=/opt/mpi/bin:$PATH ; export PATH ; /opt/mpi/bin/orted -mca orte_hnp_uri "1.0;tcp://10.0.0.1:5"',
        '( test ! -r ./.profile || . ./.profile; orted -mca orte_hnp_uri "1.0;tcp://10.0.0.1:5" )',
    ],
)
def test_of_what_mpirun_would_tell_a_shell_only_the_daemon_is_started(plugin: Any, line: str) -> None:
    words = plugin.shlex.split(line)
    command = plugin.Mpi().hired(scene(JOB, "worker-1"), {"words": words})
    assert command.argv == ("orted", "-mca", "orte_hnp_uri", "1.0;tcp://10.0.0.1:5")


@pytest.mark.unit
def test_something_else_than_the_daemon_is_not_started(plugin: Any) -> None:
    with pytest.raises(NodeError, match="not orted: rm -rf"):
        plugin.Mpi().hired(scene(JOB, "worker-1"), {"words": ["rm", "-rf"]})


@pytest.mark.unit
def test_a_node_may_have_a_name_that_mpirun_could_not_read(plugin: Any) -> None:
    names = ["main", "worker-1", "two words", "a,b:3", "10.0.0.1"]
    members = [Member(name, "worker", "10.0.0.1", 2, 2 * number, {}) for number, name in enumerate(names)]
    (command,) = plugin.Mpi().scripts(scene(JOB, members=members))
    settings = json.loads(command.argv[-1])
    assert list(settings["hosts"].values()) == names
    assert list(settings["hosts"]) == ["muster-main", "muster-worker-1", "muster-2", "muster-3", "muster-4"]
    assert settings["slots"] == [2] * 5


def ranks(nodes: int, each: int) -> list[dict[str, str]]:
    """What every rank of so many nodes with so many ranks each finds in its environment."""
    return [
        {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank % each),
            "WORLD_SIZE": str(nodes * each),
            "LOCAL_WORLD_SIZE": str(each),
        }
        for rank in range(nodes * each)
    ]


def environments_of(seen: str) -> list[dict[str, Any]]:
    told = [json.loads(line.partition("] env ")[2]) for line in seen.splitlines() if "] env {" in line]
    return sorted(told, key=lambda env: int(env["RANK"]))


def contract(env: dict[str, Any]) -> dict[str, Any]:
    return {name: env[name] for name in CONTRACT}
