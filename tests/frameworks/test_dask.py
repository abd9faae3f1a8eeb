"""Dask keeps the contract, and what is its own: nannies, processes, threads, a dashboard, and loss without an end."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import ClassVar
from urllib.request import urlopen

import psutil
import pytest

from tests.frameworks.contract import PATIENT, FrameworkContract, Tour, said_by
from tests.harness import Muster, eventually, marked

TEAM = """
import os, time
from distributed import Client, get_worker
import talk

NAME, FIRST = "script", True
client = Client()

def took_part():
    def where(number):
        time.sleep(0.1)
        return get_worker().name
    return sorted(set(client.gather(client.map(where, range(8)))))

def everywhere(act):
    def there(dask_worker):
        talk.talk(dask_worker.name)
    client.run(there)
    act(NAME)

def fail(act):
    client.submit(act).result()
"""

FAMILY = """
import json, os, signal, time
from distributed import Client

client = Client()

def workers():
    return {worker["name"]: worker for worker in client.scheduler_info(n_workers=-1)["workers"].values()}

def until(look):
    while not look():
        time.sleep(0.1)

print("workers " + json.dumps({name: worker["nthreads"] for name, worker in workers().items()}), flush=True)
before = client.run(os.getpid)
client.submit(os.kill, before[next(iter(before))], signal.SIGKILL)
until(lambda: len(now := client.run(os.getpid, on_error="ignore")) == 4 and now.keys() != before.keys())
print("sum", client.submit(sum, range(10)).result(), flush=True)
until(lambda: os.path.exists(os.environ["LEAVE"]))
"""

LOSS = """
import os, time
from distributed import Client

client = Client()
print("here", sorted(worker["name"] for worker in client.scheduler_info()["workers"].values()), flush=True)
while not os.path.exists(os.environ["LEAVE"]) or len(left := client.scheduler_info()["workers"]) > 1:
    time.sleep(0.1)
print("left", [worker["name"] for worker in left.values()], client.gather(client.map(str, range(4))), flush=True)
"""


class TestDask(FrameworkContract):
    framework = "dask"
    fields: ClassVar = {"workers": 2}
    team = TEAM
    took_part: ClassVar = ["worker-1", "worker-2"]
    scripts = frozenset({"script"})
    speakers = frozenset({"script", "worker-1", "worker-2"})
    culprit = "script"
    watched = ("SCHEDULER_IP", "SCHEDULER_PORT", "DASK_SCHEDULER_ADDRESS", "RANK")

    def check_environment(self, tour: Tour) -> None:
        (record,) = tour.records
        env = record["env"]
        assert env["SCHEDULER_IP"] == "127.0.0.1"
        assert env["DASK_SCHEDULER_ADDRESS"] == f"tcp://127.0.0.1:{env['SCHEDULER_PORT']}"
        assert env["RANK"] is None, "the RANK of whoever started the run has leaked into the script"

    @pytest.mark.slow
    def test_a_killed_process_is_replaced_while_pages_and_ports_stay_on_this_machine(
        self, muster: Muster, mark: str, tmp_path: Path
    ) -> None:
        leave = tmp_path / "leave"
        job = self.job(muster, FAMILY, processes=2, options={"nthreads": 2}, env={"LEAVE": str(leave)})
        process = muster.start("run", job)
        link = re.search(r"http://127\.0\.0\.1:\d+/status", said_by(process, "dashboard: "))
        assert link
        logs = eventually(lambda: "sum 45" in (seen := muster("logs", muster.run_id()).stdout) and seen, PATIENT)
        names = {f"worker-{node}-{number}" for node in (1, 2) for number in (0, 1)}
        assert json.loads(logs.partition("] workers ")[2].splitlines()[0]) == dict.fromkeys(names, 2)
        with urlopen(link[0], timeout=PATIENT) as page:  # noqa: S310 - its beginning was just compared
            assert page.status == 200
        assert {address for pid in marked(mark) for address in listening(pid)} == {"127.0.0.1"}
        leave.touch()
        assert process.wait(PATIENT) == 0

    def test_the_loss_of_a_whole_node_lets_the_run_go_on_with_the_rest(self, muster: Muster, tmp_path: Path) -> None:
        process = muster.start("run", self.job(muster, LOSS, env={"LEAVE": str(tmp_path / "leave")}))
        run = muster.run_id()
        eventually(lambda: "here ['worker-1', 'worker-2']" in muster("logs", run).stdout, PATIENT)
        os.kill(node_pid(muster, run, "worker-2"), signal.SIGKILL)
        assert "worker-2 was lost" in said_by(process, "going on with 1")
        (tmp_path / "leave").touch()
        seen, told = process.communicate(timeout=PATIENT)
        assert process.returncode == 0, told
        assert "left ['worker-1'] ['0', '1', '2', '3']" in seen


def node_pid(muster: Muster, run: str, node: str) -> int:
    return int(json.loads((muster.runs / run / "nodes" / f"{node}.json").read_text())["pid"])


def listening(pid: int) -> set[str]:
    """The addresses that a process accepts connections on."""
    try:
        sockets = psutil.Process(pid).net_connections("tcp")
    except psutil.NoSuchProcess:
        return set()
    return {socket.laddr.ip for socket in sockets if socket.status == psutil.CONN_LISTEN}
