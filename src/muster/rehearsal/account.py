"""A tenancy of Oracle's cloud in a box: all its services, who may use them, and the things that a target names.

A target of `muster.toml` names things by their OCIDs: a compartment, a project, a subnet. The box has none of them
until it is told; then it has just those, so that a rehearsal runs the real plan with the real names.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import principals
from .artifact_service import Artifacts
from .certificate_service import CertificateService
from .data_science import DataScience
from .identity import Identity, Principal
from .identity_service import IdentityService
from .instances import Instances
from .limits_service import Limits
from .log_service import LogService
from .network_service import Network
from .object_storage import ObjectStorage
from .oracle_cloud import Control, OracleCloud
from .permits import Wish
from .policy_evaluation import Policies
from .vault_service import VaultService

OPEN = [{"protocol": "all", "source": "10.0.0.0/16", "isStateless": False}]
OUT = [{"protocol": "all", "destination": "0.0.0.0/0", "isStateless": False}]


class Clock:
    """The cloud's own time, which may go ahead of this machine's."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


class Account:
    """One tenancy. `environment` is what every image has in its environment, `minute` how long a minute lasts."""

    def __init__(
        self,
        folder: Path,
        namespace: str = "rehearsal",
        conflicts: bool = False,
        environment: Mapping[str, str] | None = None,
        minute: float = 60.0,
    ) -> None:
        for part in ("objects", "runs"):
            (folder / part).mkdir()
        self.clock = Clock()
        self.identity = Identity(self.clock)
        self.policies = Policies()
        self.strict = False
        """Whether policies are evaluated; otherwise everybody may do everything that was not denied."""
        self.denied: frozenset[str] = frozenset()
        self._asked: dict[str, tuple[Principal, Wish]] = {}
        self.namespace = namespace
        self.projects: dict[str, str] = {}
        self.storage = ObjectStorage(folder / "objects", namespace, self._may_use, conflicts)
        self.network = Network(self.permit, clock=self.clock)
        self.subnets = self.network.homes
        self.logs = LogService(self.permit)
        self.vault = VaultService(self.permit, self.clock)
        self.certificates = CertificateService(self.permit)
        self.limits = Limits(self.permit)
        self.artifacts = Artifacts(self.permit, namespace, clock=self.clock)
        self.people = IdentityService(self.policies, self.permit)
        self.science = DataScience(
            folder / "runs",
            self.permit,
            self.identity,
            self.clock,
            environment=environment,
            logs=self.logs,
            projects=self.projects,
            subnets=self.subnets,
            minute=minute,
        )

    def cloud(self) -> OracleCloud:
        services = (
            self.storage,
            self.science,
            self.network,
            self.logs,
            self.vault,
            self.certificates,
            self.limits,
            self.artifacts,
            self.people,
            Instances(self.identity, principals.TENANCY, principals.REGION),
        )
        return OracleCloud(self.identity, [route for one in services for route in one.routes()], self.controls())

    # --- who may what ------------------------------------------------------------------------------------

    def permit(self, principal: Principal, wish: Wish) -> bool:
        if wish.permission in self.denied:
            return False
        self._asked.setdefault(f"{principal.kind} {principal.id} {wish}", (principal, wish))
        return not self.strict or self.policies.permits(principal, wish)

    def _may_use(self, principal: Principal, permission: str, bucket: str, name: str) -> bool:
        home = self.storage.compartment_of(bucket) or principals.COMPARTMENT
        # Not the object's name, by which no policy of ours is narrowed: each would be remembered.
        about = {"target.bucket.name": bucket} if bucket else {}
        return self.permit(principal, Wish(permission, home, about))

    def judge(self, said: Mapping[str, Any]) -> list[str]:
        """What, of all that was asked of this cloud so far, another policy would have refused."""
        other = Policies(self.policies.compartments, statements=())
        _attach(other, said)
        asked = list(self._asked.values())
        return sorted({wish.permission for principal, wish in asked if not other.permits(principal, wish)})

    # --- what there is -----------------------------------------------------------------------------------

    def learn(self, said: Mapping[str, Any]) -> None:
        """Things that a target names, by their OCIDs: those that are there already stay as they are."""
        compartment = said.get("compartment_id") or principals.COMPARTMENT
        if self.policies.compartments.find(compartment) is None:
            self.policies.compartments.add(compartment, said.get("compartment_name") or "training")
        if project := said.get("project_id"):
            self.projects[project] = compartment
        if (subnet := said.get("subnet_id")) and subnet not in self.subnets:
            self._make_network(subnet, compartment)
        if group := said.get("log_group_id"):
            self.logs.make_group("training", compartment, group)
            if log := said.get("log_id"):
                self.logs.make_log(group, "training", log)
        for bucket in said.get("buckets") or ():
            self.storage.make_bucket(bucket, {"compartmentId": compartment, "name": bucket})
        for name, ocid in (said.get("secrets") or {}).items():
            self.vault.put(name, f"rehearsed {name}", compartment, ocid)
        for image in said.get("images") or ():
            self._make_image(image, compartment)

    def _make_network(self, subnet: str, compartment: str) -> None:
        """A private subnet with a way out, in which the nodes reach each other."""
        vcn = self.network.make("vcns", compartmentId=compartment, cidrBlocks=["10.0.0.0/16"])
        home = {"compartmentId": compartment, "vcnId": vcn["id"]}
        gateway = self.network.make("natGateways", **home)
        way_out = {"destination": "0.0.0.0/0", "destinationType": "CIDR_BLOCK", "networkEntityId": gateway["id"]}
        table = self.network.make("routeTables", **home, routeRules=[way_out])
        rules = self.network.make("securityLists", **home, ingressSecurityRules=OPEN, egressSecurityRules=OUT)
        self.network.make(
            "subnets",
            **home,
            id=subnet,
            cidrBlock="10.0.1.0/24",
            prohibitPublicIpOnVnic=True,
            routeTableId=table["id"],
            securityListIds=[rules["id"]],
        )

    def _make_image(self, image: str, compartment: str) -> None:
        place, _, tag = image.partition("@")[0].rpartition(":")
        registry, _, path = (place or tag).partition("/")
        namespace, _, name = path.partition("/")
        if name and namespace == self.namespace and registry:
            self.artifacts.push(name, tag if place else "latest", compartment)

    def grant(self, said: Mapping[str, Any]) -> None:
        """A policy as `muster policy --json` prints it. From now on nothing but what policies say is allowed."""
        _attach(self.policies, said)
        self.strict = True

    # --- how a test steers it ----------------------------------------------------------------------------

    def controls(self) -> dict[str, Control]:
        def register(said: Any) -> None:
            self.identity.register(said["key_id"], Principal(**said["principal"]), said["public_key"])

        def issue(said: Any) -> str:
            return self.identity.issue(Principal(**said["principal"]), said["public_key"], float(said["seconds"]))

        def deny(said: Any) -> None:
            self.denied = frozenset(said)

        def set_clock(said: Any) -> None:
            self.clock.ahead = float(said)

        def set_strict(said: Any) -> None:
            self.strict = bool(said)

        return {
            "users": register,
            "tokens": issue,
            "forget": self.identity.forget,
            "buckets": lambda said: self.storage.make_bucket(said["name"], said).etag,
            "denied": deny,
            "clock": set_clock,
            "strict": set_strict,
            "things": self.learn,
            "grants": self.grant,
            "judge": self.judge,
            **self.science.controls(),
            **self.logs.controls(),
            **self.vault.controls(),
            **self.certificates.controls(),
            **self.network.controls(),
            **self.limits.controls(),
            **self.artifacts.controls(),
        }


def _attach(policies: Policies, said: Mapping[str, Any]) -> None:
    """A policy as `muster policy --json` prints it."""
    for group in said.get("dynamic_groups") or ():
        policies.add_dynamic_group(group["name"], group["rule"])
    texts = [statement["text"] for statement in said["statements"]]
    policies.attach(policies.compartments.tenancy, texts, "granted")
