"""What the page about nodes by hand says without being run there: its composition file and its tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import pytest
import yaml

from muster.node.settings import read_settings
from tests.docs.markdown import ROOT, blocks
from tests.harness import Muster

PAGE = ROOT / "docs" / "nodes-by-hand.md"
ELSEWHERE = {"MUSTER_HOME", "MUSTER_GPUS", "OCI__SYNC_DIR"}
"""Read by other parts than the one that reads a node's settings."""
OURS = {
    "MUSTER_LAUNCHED",
    "MUSTER_CODE",
    "MUSTER_LIFELINE",
    "MUSTER_SECRETS",
    "MUSTER_SECRET_REFERENCES",
    "MUSTER_CLOUD",
}
"""Between a launcher and its nodes alone."""


@pytest.mark.slow
def test_the_services_of_the_composition_file_become_one_cluster(muster: Muster) -> None:
    # Without a container engine the services are processes, so they need what a container gives: own ports.
    files = {block.file: block.text for block in blocks(PAGE) if block.file}
    (muster.folder / "train.py").write_text(files["train.py"])
    composed = yaml.safe_load(files["compose.yaml"])
    nodes = []
    for service in composed["services"].values():
        assert service["command"] == "muster node"
        env = {name: placed(str(value), muster) for name, value in service["environment"].items()}
        count = service.get("deploy", {}).get("replicas", 1)
        nodes += [muster.start("node", MUSTER_ADDRESS="127.0.0.1", MUSTER_FREE_PORTS="1", **env) for _ in range(count)]
    assert [node.wait(120) for node in nodes] == [0, 0, 0]
    told = muster("logs", "composed-1", "--work-dir", muster.folder / "runs").stdout
    assert "[main script] 2 workers" in told


def placed(value: str, muster: Muster) -> str:
    return re.sub(r"^/(runs|app)", lambda found: f"{muster.folder}{'/runs' if found[1] == 'runs' else ''}", value)


class Asked(Mapping[str, str]):
    """An environment that remembers what was asked of it."""

    def __init__(self, given: dict[str, str]) -> None:
        self._given = given
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        return self._given[name]

    def __contains__(self, name: object) -> bool:
        self.names.add(str(name))
        return name in self._given

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)


def asked() -> set[str]:
    """Every variable that a node looks for, by its bare name where it may have a prefix."""
    needed = {"WORK_DIR": "/a", "MODE": "MAIN", "CLUSTER_TYPE": "dask", "JOB_OCID": "a", "ENTRY_POINT": "/b/c.py"}
    env = Asked({**needed, "RUNTIME_TYPE": "git", "RUNTIME_URI": "https://host/name.git"})
    read_settings(env)
    # The OCI__ spelling is looked for only of what has all three.
    bare = {name.removeprefix("OCI__") for name in env.names if name.startswith("OCI__")}
    single = {name for name in env.names if name.removeprefix("MUSTER_").removeprefix("OCI__") not in bare}
    return bare | single


@pytest.mark.unit
def test_the_tables_have_every_variable_that_a_node_reads_and_no_other() -> None:
    rows = re.findall(r"^\| (`.+?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    told = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    in_capitals = {name.upper() for name in told if name.islower()}
    assert told | in_capitals == (asked() - OURS) | ELSEWHERE
