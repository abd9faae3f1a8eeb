"""A small Oracle cloud in the test's own process: data science, logs, a vault, and a user with a key."""

from __future__ import annotations

import os
import sys
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from muster.clouds import oci as clouds
from muster.clouds.oci_services import Services
from muster.errors import CloudError
from muster.rehearsal.data_science import DataScience
from muster.rehearsal.front import Server
from muster.rehearsal.identity import Identity, Principal, new_key
from muster.rehearsal.log_service import LogService
from muster.rehearsal.object_storage import ObjectStorage
from muster.rehearsal.oracle_cloud import OracleCloud
from muster.rehearsal.permits import Wish
from muster.rehearsal.principals import COMPARTMENT, make_user
from muster.rehearsal.steering import Steering
from muster.rehearsal.vault_service import VaultService

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

PROJECT = "ocid1.datascienceproject.oc1.iad.training"
SUBNET = "ocid1.subnet.oc1.iad.private"
SHAPE = "VM.Standard.E4.Flex"
IMAGE = "iad.ocir.io/namespace/team/train:1"
FINAL = ("SUCCEEDED", "FAILED", "CANCELED")


class Denied:
    """Everybody may do all but this."""

    def __init__(self) -> None:
        self.permissions: set[str] = set()
        self.kinds: set[str] = set()
        self.asked: list[tuple[Principal, Wish]] = []

    def __call__(self, principal: Principal, wish: Wish) -> bool:
        self.asked.append((principal, wish))
        return wish.permission not in self.permissions or (bool(self.kinds) and principal.kind not in self.kinds)

    def deny(self, *permissions: str, kinds: tuple[str, ...] = ()) -> None:
        self.permissions, self.kinds = set(permissions), set(kinds)
        self.asked.clear()


@cache
def authority() -> RSAPrivateKey:
    """One for all worlds: a key takes a while to make."""
    return new_key()


class Clock:
    """The services' clock. That of the signatures stays right."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


class World:
    """The cloud, with a user's services."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, **settings: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.clock = Clock()
        self.identity = Identity(authority=authority())
        self.denied = Denied()
        self.logs = LogService(self.denied, self.clock)
        self.vault = VaultService(self.denied, self.clock)
        self.storage = ObjectStorage(folder / "objects")
        given = {"projects": {PROJECT: COMPARTMENT}, "subnets": {SUBNET: COMPARTMENT}, "grace": 5.0, **settings}
        self.science = DataScience(folder / "science", self.denied, self.identity, self.clock, logs=self.logs, **given)
        self.server = Server(OracleCloud(self.identity, self._routes(), self._controls()))
        self.server.__enter__()
        self.steering = Steering(self.server.endpoint)
        self.user = make_user(self.steering, folder)
        for name in [name for name in os.environ if name.startswith(("OCI_", "MUSTER_OCI"))]:
            patch.delenv(name)
        patch.setenv("OCI_CONFIG_FILE", str(self.user.config_file))
        patch.setenv("MUSTER_OCI_ENDPOINT", self.server.endpoint)
        self.services = Services(clouds.session("api_key"), patience=0)

    def _routes(self) -> list[Any]:
        return [*self.science.routes(), *self.logs.routes(), *self.vault.routes(), *self.storage.routes()]

    def _controls(self) -> dict[str, Any]:
        def users(said: Any) -> None:
            self.identity.register(said["key_id"], Principal(**said["principal"]), said["public_key"])

        return {"users": users, **self.science.controls(), **self.logs.controls(), **self.vault.controls()}

    def close(self) -> None:
        self.science.close()
        self.server.stop()

    def __call__(self, operation: str, *values: Any, service: str = "data_science", **settings: Any) -> Any:
        """What an operation answers."""
        return self.services.call(service, operation, *values, **settings).data

    def refused(self, operation: str, *values: Any, service: str = "data_science", **settings: Any) -> tuple[int, str]:
        """How an operation is refused."""
        with pytest.raises(CloudError) as caught:
            self(operation, *values, service=service, **settings)
        return caught.value.status, caught.value.code

    def job(self, *argv: str, **details: Any) -> str:
        """A job that runs this."""
        return str(self("create_job", self.job_details(*argv, **details))["id"])

    def job_details(self, *argv: str, **details: Any) -> dict[str, Any]:
        container = {"jobEnvironmentType": "OCIR_CONTAINER", "image": IMAGE}
        return {
            "projectId": PROJECT,
            "compartmentId": COMPARTMENT,
            "displayName": "training",
            "jobConfigurationDetails": {"jobType": "DEFAULT"},
            "jobInfrastructureConfigurationDetails": infrastructure(),
            "jobEnvironmentConfigurationDetails": {**container, **({"cmd": list(argv)} if argv else {})},
            **details,
        }

    def python(self, script: str, **details: Any) -> str:
        """A job that runs a script of Python."""
        return self.job(sys.executable, "-c", script, **details)

    def run(self, job: str, **details: Any) -> str:
        return str(self("create_job_run", self.run_details(job, **details))["id"])

    def run_details(self, job: str, **details: Any) -> dict[str, Any]:
        return {"projectId": PROJECT, "compartmentId": COMPARTMENT, "jobId": job, **details}

    def state(self, run: str) -> str:
        return str(self("get_job_run", run)["lifecycleState"])

    def ended(self, run: str) -> dict[str, Any]:
        """The run, once it has ended, as a caller sees it."""
        self.science.wait(run)
        found: dict[str, Any] = self("get_job_run", run)
        return found


def infrastructure(**more: Any) -> dict[str, Any]:
    return {
        "jobInfrastructureType": "ME_STANDALONE",
        "shapeName": SHAPE,
        "blockStorageSizeInGBs": 50,
        "jobShapeConfigDetails": {"ocpus": 1, "memoryInGBs": 16},
        **more,
    }


def configuration(**more: Any) -> dict[str, Any]:
    return {"jobType": "DEFAULT", **more}


def descends(mark: str) -> set[int]:
    """The living processes whose environment has this `NAME=VALUE`."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if state not in "ZX" and f"{mark}\0".encode() in (entry / "environ").read_bytes() + b"\0":
                found.add(int(entry.name))
        except OSError:
            continue
    return found
