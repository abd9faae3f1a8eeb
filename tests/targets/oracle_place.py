"""An Oracle account in a box, ready for the command: a config file, a target in `muster.toml`, all that it names."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muster.rehearsal import oracle
from muster.rehearsal.oracle import OracleServer
from tests.harness import MARK, PLUGINS, Muster
from tests.targets.target_contract import WAITS, job

OCIDS = {
    "compartment_id": "ocid1.compartment.oc1..rehearsal",
    "project_id": "ocid1.datascienceproject.oc1.iad.rehearsal",
    "subnet_id": "ocid1.subnet.oc1.iad.rehearsal",
    "log_group_id": "ocid1.loggroup.oc1.iad.rehearsal",
}
IMAGE = "iad.ocir.io/rehearsal/train:1"
FINAL = ("SUCCEEDED", "FAILED", "CANCELED", "DELETED")


@dataclass
class There:
    """The target `oci`, as one user of it sees it."""

    muster: Muster
    server: OracleServer
    on: str = "oci"
    remote: bool = True
    fields: dict[str, Any] = field(default_factory=lambda: {"image": IMAGE})

    def left(self) -> list[str]:
        runs = [run for run in self.server.job_runs() if run["lifecycleState"] not in FINAL]
        return [*(f"{run['displayName']} {run['lifecycleState']}" for run in runs), *self.jobs()]

    def jobs(self) -> list[str]:
        """The jobs that are there now."""
        gone = ("DELETED", "DELETING")
        found = self.server.steering.ask("GET", "jobs")
        return [one["displayName"] for one in found if one["lifecycleState"] not in gone]

    def refused(self, number: int) -> str:
        self.server.refuse_run(number)
        return self.muster("run", job(self, WAITS, workers=3), "--on", self.on, check=120).stderr

    def kill(self, run: str, node: str) -> None:
        self.server.kill_run(f"{run}-{node}")


def target_toml(server: OracleServer, **more: Any) -> str:
    lines = {
        "kind": "oci",
        "work_dir": f"oci://training@{server.namespace}/team/runs",
        "shape_name": "VM.Standard.E4.Flex",
        **OCIDS,
        **more,
    }
    return "[targets.oci]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in lines.items())


@contextmanager
def account(folder: Path, mark: str = "", minute: float = 60.0) -> Iterator[OracleServer]:
    """A cloud that has all of `OCIDS`. Its images have the frameworks of the tests, and the test's mark."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.defpath))
    environment = {"PATH": path, "PYTHONPATH": str(PLUGINS), **({MARK: mark} if mark else {})}
    with oracle.started("training", environment=environment, minute=minute) as server:
        server.learn(**OCIDS, images=[IMAGE])
        yield server


def reach(muster: Muster, server: OracleServer, folder: Path, groups: tuple[str, ...] = ()) -> There:
    """Makes the command a user of this cloud."""
    user = server.make_user(folder / "oracle", groups=groups)
    muster.env.update(server.environment(user))
    config = folder / "config" / "muster"
    config.mkdir(parents=True, exist_ok=True)
    (config / "muster.toml").write_text(target_toml(server), encoding="utf-8")
    muster.env["XDG_CONFIG_HOME"] = str(config.parent)
    return There(muster, server)
