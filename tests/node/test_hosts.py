"""Nodes on hosts of their own, started by environment alone, that share nothing but a folder and a subnet."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Muster, eventually
from tests.needs import needs
from tests.node.hosts import Host, hosts

ADDRESSES = """
import json, os, pathlib
rank = os.environ["RANK"]
pathlib.Path(os.environ["OCI__SYNC_DIR"], rank + ".json").write_text(json.dumps(dict(os.environ)))
print("rank", rank, "is here")
"""


@pytest.fixture
def three() -> Iterator[list[Host]]:
    needs("ip", "nsenter", "iptables", root=True)
    with hosts(3) as made:
        yield made


def node(muster: Muster, host: Host, run: str, mode: str, script: Path, **env: str) -> subprocess.Popen[str]:
    given = {
        "WORK_DIR": str(muster.runs),
        "CLUSTER_TYPE": "plain",
        "MODE": mode,
        "WORKER_COUNT": "2",
        "JOB_OCID": run,
        "ENTRY_POINT": str(script),
        "TIMEOUT": "60",
        "MUSTER_HOME": str(muster.home / host.name),
        **env,
    }
    process = subprocess.Popen(
        host.argv(sys.executable, "-m", "muster", "node"),
        env={**muster.env, **given},
        cwd=muster.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    muster.started.append(process)
    return process


def started(muster: Muster, machines: list[Host], script: str, **env: str) -> list[subprocess.Popen[str]]:
    path = muster.folder / "script.py"
    path.write_text(script)
    roles = ["MAIN", *["WORKER"] * (len(machines) - 1)]
    nodes = []
    for number, (host, role) in enumerate(zip(machines, roles, strict=True)):
        sync = muster.folder / f"sync-{number}"
        sync.mkdir()
        own = {"OCI__SYNC_DIR": str(sync), **({"RANK": str(number)} if number else {})}
        nodes.append(node(muster, host, "far", role, path, **own, **env))
    return nodes


def records(muster: Muster) -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in (muster.runs / "far" / "nodes").glob("*.json")}


def test_each_finds_the_address_by_which_main_reaches_it(muster: Muster, three: list[Host]) -> None:
    nodes = started(muster, three, ADDRESSES)
    assert [process.wait(60) for process in nodes] == [0, 0, 0]
    assert {name: record["address"] for name, record in records(muster).items()} == {
        "main": "10.77.0.1",
        "worker-1": "10.77.0.2",
        "worker-2": "10.77.0.3",
    }
    assert {record["link"] for record in records(muster).values()} == {"channel"}
    found = muster("outputs", "far", "--work-dir", muster.runs, "--json").stdout
    assert sorted(json.loads(found)) == ["0.json", "1.json", "2.json"]


def test_a_subnet_decides_and_a_machine_outside_of_it_is_told(muster: Muster, three: list[Host]) -> None:
    script = muster.folder / "script.py"
    script.write_text("print('never')")
    main = node(muster, three[0], "outside", "MAIN", script, MUSTER_SUBNET="10.99.0.0/16")
    assert main.wait(60) != 0
    assert "no interface of this machine has an address inside 10.99.0.0/16" in main.communicate()[1]


def test_with_the_control_port_closed_the_run_works_and_says_so_once(muster: Muster, three: list[Host]) -> None:
    three[0].block(5999)
    nodes = started(
        muster, three, "import os, sys\nsys.exit(5 if os.environ['RANK'] == '2' else 0)", MUSTER_CONTROL_PORT="5999"
    )
    assert nodes[0].wait(90) == 5
    assert [process.wait(60) for process in nodes[1:]] == [5, 5]
    result = json.loads((muster.runs / "far" / "result.json").read_text())
    assert (result["end"], result["exit_code"], result["failure"]["node"]) == ("member-failed", 5, "worker-2")
    for name in ("worker-1", "worker-2"):
        (note,) = records(muster)[name]["notes"]
        assert "the control channel to main cannot be reached: 10.77.0.1:5999" in note


def test_a_host_that_is_cut_off_is_lost_and_the_run_ends(muster: Muster, three: list[Host]) -> None:
    nodes = started(muster, three, "import time\nprint('here', flush=True)\ntime.sleep(600)")
    eventually(lambda: len([1 for record in records(muster).values() if record["state"] == "running"]) == 3)
    subprocess.run(["ip", "-n", three[2].name, "link", "set", "eth0", "down"], check=True)
    assert nodes[0].wait(50) == 124
    assert "worker-2 was lost" in json.loads((muster.runs / "far" / "result.json").read_text())["detail"]
    for process in nodes[1:]:
        assert process.wait(90) != 0
