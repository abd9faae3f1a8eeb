"""An Oracle account on loopback in which a run would do well, and all that can be taken away from it."""

from __future__ import annotations

import base64
import json
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from muster.access import doctor
from muster.access.findings import Finding
from muster.rehearsal import oracle, principals
from muster.rehearsal.artifact_service import Artifacts
from muster.rehearsal.data_science import DataScience
from muster.rehearsal.front import Server
from muster.rehearsal.identity import Identity, Principal, public_pem
from muster.rehearsal.identity_service import IdentityService
from muster.rehearsal.limits_service import Limits
from muster.rehearsal.log_service import LogService
from muster.rehearsal.network_service import Network
from muster.rehearsal.object_storage import ObjectStorage
from muster.rehearsal.oracle_cloud import Control, OracleCloud
from muster.rehearsal.permits import Wish
from muster.rehearsal.policy_evaluation import Policies
from muster.rehearsal.principals import COMPARTMENT, User
from muster.rehearsal.routing import Route
from muster.rehearsal.steering import Steering
from muster.spec.config import Target
from muster.spec.job import Job, Workers
from tests.clouds.oracle_world import forget_oracle

PROJECT = "ocid1.datascienceproject.oc1.iad.training"
IMAGE = "iad.ocir.io/rehearsal/team/train:1"


class Clock:
    ahead = 0.0

    def __call__(self) -> float:
        import time

        return time.time() + self.ahead


@dataclass
class Account:
    """The services, each as a test may change it, and the settings that lead to them."""

    folder: Path
    identity: Identity
    clock: Clock
    policies: Policies = field(default_factory=Policies)
    strict: bool = False
    """Whether the policies decide; else everybody may do all that is not denied."""
    denied: set[str] = field(default_factory=set)
    endpoint: str = ""

    def __post_init__(self) -> None:
        self.network = Network(self.permit, clock=self.clock)
        self.limits = Limits(self.permit)
        self.artifacts = Artifacts(self.permit)
        self.logs = LogService(self.permit, self.clock)
        self.storage = ObjectStorage(self.folder / "objects", allowed=self._objects)
        self.storage.make_bucket("training", {"compartmentId": COMPARTMENT})
        self.people = IdentityService(self.policies, self.permit)
        projects = {PROJECT: COMPARTMENT}
        runs = self.folder / "runs"
        self.science = DataScience(runs, self.permit, self.identity, self.clock, logs=self.logs, projects=projects)
        self.policies.compartments.add(COMPARTMENT, "training")
        self.build()

    def permit(self, principal: Principal, wish: Wish) -> bool:
        if wish.permission in self.denied or not self.policies.compartments.find(wish.compartment):
            return False
        return not self.strict or self.policies.permits(principal, wish)

    def _objects(self, principal: Principal, permission: str, bucket: str, _name: str) -> bool:
        about = {"target.bucket.name": bucket} if bucket else {}
        return self.permit(principal, Wish(permission, COMPARTMENT, about))

    def build(self) -> None:
        """A private subnet with both gateways and all TCP between its nodes; a log group; an image."""
        inside = {"compartmentId": COMPARTMENT}
        vcn = self.network.make("vcns", **inside, cidrBlocks=["10.0.0.0/16"], displayName="training")
        inside |= {"vcnId": vcn["id"]}
        whole = self.network.services()[0]
        self.nat = self.network.make("natGateways", **inside)
        services = [{"serviceId": whole["id"]}]
        self.service = self.network.make("serviceGateways", **inside, services=services)
        routes = [
            {"destination": "0.0.0.0/0", "destinationType": "CIDR_BLOCK", "networkEntityId": self.nat["id"]},
            {
                "destination": whole["cidrBlock"],
                "destinationType": "SERVICE_CIDR_BLOCK",
                "networkEntityId": self.service["id"],
            },
        ]
        self.routes = self.network.make("routeTables", **inside, routeRules=routes)
        self.rules = self.network.make(
            "securityLists",
            **inside,
            ingressSecurityRules=[{"protocol": "6", "source": "10.0.1.0/24"}],
            egressSecurityRules=[{"protocol": "all", "destination": "0.0.0.0/0"}],
        )
        self.subnet = self.network.make(
            "subnets",
            **inside,
            cidrBlock="10.0.1.0/24",
            displayName="nodes",
            prohibitPublicIpOnVnic=True,
            dnsLabel="nodes",
            routeTableId=self.routes["id"],
            securityListIds=[self.rules["id"]],
        )
        self.log_group = self.logs.make_group("training")
        self.log = self.logs.make_log(self.log_group, "runs")
        self.digest = self.artifacts.push("team/train", "1")

    def all_routes(self) -> list[Route]:
        services = (self.storage, self.science, self.people, self.logs, self.network, self.limits, self.artifacts)
        return [route for each in services for route in each.routes()]

    def target(self, **options: Any) -> Target:
        """The target that a user of this account has; an option that is None is left out."""
        whole = {
            "compartment_id": COMPARTMENT,
            "project_id": PROJECT,
            "subnet_id": self.subnet["id"],
            "log_group_id": self.log_group,
            "shape_name": "VM.Standard.E4.Flex",
            "shape_config_details": {"ocpus": 4, "memory_in_gbs": 64},
            "image": IMAGE,
        }
        work_dir = options.pop("work_dir", "oci://training@rehearsal/team")
        given = {name: value for name, value in {**whole, **options}.items() if value is not None}
        return Target("oci", "oci", work_dir, given)


def examine(made: Job, target: Target, *values: Any, **settings: Any) -> list[Finding]:
    """What the doctor finds, however busy this machine is."""
    return doctor.examine(made, target, *values, **{"within": 120.0, **settings})


def job(**fields: Any) -> Job:
    return Job(**{"name": "train", "framework": "dask", "workers": Workers(3, 3), **fields})


@cache
def known() -> tuple[Identity, Clock, User, tuple[str, str]]:
    """Who issues tokens and a user with a key, made once, since keys take their time; with the user's two files."""
    clock = Clock()
    identity = Identity(clock)
    with TemporaryDirectory() as folder, Server(OracleCloud(identity, [], _controls(identity))) as server:
        groups = ("muster-users",)
        user = principals.make_user(Steering(server.endpoint), Path(folder), groups=groups)
        return identity, clock, user, (user.config_file.read_text(), user.key_file.read_text())


@cache
def _public() -> str:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key: Any = load_pem_private_key(known()[3][1].encode(), None)
    return public_pem(key)


def _controls(identity: Identity) -> Mapping[str, Control]:
    return oracle.controls(identity, ObjectStorage(Path()))


def files_of_user(folder: Path) -> User:
    """The user's files, in a folder of the test's own."""
    _, _, user, (config, key) = known()
    folder.mkdir(mode=0o700)
    here = replace(user, config_file=folder / "config", key_file=folder / user.key_file.name)
    for file, text in (
        (here.config_file, config.replace(str(user.key_file), str(here.key_file))),
        (here.key_file, key),
    ):
        file.write_text(text)
        file.chmod(0o600)
    return here


@contextmanager
def opened(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[tuple[Account, Server, User]]:
    """An account that can be reached, a user of it, and a machine that is as it should be."""
    identity, clock, user, _ = known()
    clock.ahead = 0.0
    identity.register(user.key_id, Principal(user.id, user.tenancy, "user", {"groups": ["muster-users"]}), _public())
    account = Account(folder, identity, clock)
    with Server(OracleCloud(identity, account.all_routes(), _controls(identity))) as server:
        account.endpoint = server.endpoint
        forget_oracle(patch, folder)
        here = files_of_user(folder / ".oci")
        patch.setenv("OCI_CONFIG_FILE", str(here.config_file))
        for name in ("MUSTER_OCI_ENDPOINT", "OCI_OBJECTSTORAGE_SERVICE_ENDPOINT"):
            patch.setenv(name, server.endpoint)
        patch.setenv("MUSTER_HOME", str(folder / "home"))
        patch.delenv("DOCKER_CONFIG", raising=False)
        log_in(folder, "iad.ocir.io")
        patch.setenv("PATH", str(tool(folder, {"ServerVersion": "27.0", "DockerRootDir": "/"})))
        yield account, server, here


def log_in(home: Path, *registries: str) -> None:
    """What `docker login` leaves."""
    word = base64.b64encode(b"rehearsal/ada:not-a-word-to-print").decode()
    place = home / ".docker" / "config.json"
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps({"auths": {registry: {"auth": word} for registry in registries}}))


def tool(folder: Path, told: dict[str, Any], name: str = "docker") -> Path:
    """A folder for PATH with a container tool that says this of itself."""
    place = folder / "bin"
    place.mkdir(exist_ok=True)
    program = place / name
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(told)}\nEND\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    (place / "cat").unlink(missing_ok=True)
    (place / "cat").symlink_to("/bin/cat")
    return place
