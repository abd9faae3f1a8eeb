"""One node of a job run: its folder, its environment, its command, and the machine that runs it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .data_science_settings import Settings
from .job_run_plan import NODE_COUNT, NODE_GROUP, NODE_RANK, NODE_REPLICA, NodeGroup
from .run_hosts import Boot, Machine, Place

ENDPOINTS = ("MUSTER_OCI_ENDPOINT", "OCI_OBJECTSTORAGE_SERVICE_ENDPOINT", "OCI_ODSC_SERVICE_ENDPOINT")
"""What tells Muster, ADS and others that all services are at one address."""


@dataclass
class Node:
    """A node that is to run, runs, or has ended."""

    group: NodeGroup
    replica: int
    rank: int
    folder: Path
    place: Place | None = None
    machine: Machine | None = None
    code: int | None = None

    @property
    def ended(self) -> bool:
        return self.code is not None

    @property
    def address(self) -> str:
        return self.place.environment.get("MUSTER_ADDRESS", "") if self.place else ""


@dataclass(frozen=True)
class Told:
    """What the nodes of one run have in common."""

    settings: Settings
    row: Mapping[str, Any]
    job: Mapping[str, Any]
    project_compartment: str
    endpoint: str
    principal: Mapping[str, str]
    artifact: tuple[str, bytes] | None
    nodes: int


def boot(node: Node, told: Told, line: Callable[[str], None], ended: Callable[[int], None]) -> None:
    """Starts the node's machine. An `OSError` says why that cannot be."""
    settings = told.settings
    for name in ("home", "tmp"):
        (node.folder / name).mkdir(parents=True)
    node.place = settings.place(told.row)
    argv = [*node.place.prefix, *command(node, told)]
    mark = f"JOB_RUN_OCID={told.row['id']}"
    node.machine = Machine(Boot(argv, environment(node, told), node.folder / "home", mark), line, ended)


def command(node: Node, told: Told) -> list[str]:
    """The container's command; for a job without one, that of its artifact. Empty where there is neither."""
    argv = node.group.argv(told.settings.images)
    if argv or node.group.image or told.artifact is None:
        return argv
    name, content = told.artifact
    path = node.folder / "home" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return ["/bin/sh" if name.endswith(".sh") else sys.executable, str(path), *node.group.arguments()]


def environment(node: Node, told: Told) -> dict[str, str]:
    """All that the node's first process finds: nothing of the server's own but the search path."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "HOME": str(node.folder / "home"),
        "TMPDIR": str(node.folder / "tmp"),
        **told.settings.environment,
        **node.group.environment,
        **_from_service(told),
        **_in_cluster(node, told),
        **told.principal,
        **{name: told.endpoint for name in ENDPOINTS if told.endpoint},
        **(node.place.environment if node.place else {}),
    }


def _from_service(told: Told) -> dict[str, str]:
    said = {
        "TENANCY_OCID": told.settings.tenancy,
        "PROJECT_OCID": told.row["projectId"],
        "PROJECT_COMPARTMENT_OCID": told.project_compartment,
        "JOB_OCID": told.row["jobId"],
        "JOB_COMPARTMENT_OCID": told.job["compartmentId"],
        "JOB_RUN_OCID": told.row["id"],
        "JOB_RUN_COMPARTMENT_OCID": told.row["compartmentId"],
    }
    return {**said, **({"JOB_ARTIFACT_FILE_NAME": told.artifact[0]} if told.artifact else {})}


def _in_cluster(node: Node, told: Told) -> dict[str, str]:
    fqdn = {"FQDN": node.address} if node.address else {}
    if not node.group.name:
        return fqdn
    numbers = {NODE_REPLICA: node.replica, NODE_RANK: node.rank, NODE_COUNT: told.nodes}
    return {**fqdn, NODE_GROUP: node.group.name, **{name: str(number) for name, number in numbers.items()}}
