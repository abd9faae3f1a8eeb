"""Oracle's cloud in a box, as far as it goes: object storage, with the SDK's signatures verified.

For a test, in a process of its own:

>>> with oracle.started("training") as server:                 # makes the bucket `training`
...     server.endpoint                                         # for `service_endpoint=`
...     user = server.make_user(tmp_path)                       # writes tmp_path/config and a key
...     config = oci.config.from_file(str(user.config_file))
...     client = oci.object_storage.ObjectStorageClient(config, service_endpoint=server.endpoint)
...     client.put_object(server.namespace, "training", "name", b"bytes", if_none_match="*")
...     server.resource_principal()                             # environment variables of version 2.2
...     server.deny("OBJECT_CREATE")                            # a policy that is missing: 404 BucketNotFound
...     server.steering.fail(times=2, status=429)

By hand: `python -m muster.rehearsal.oracle --port 0`. In this process, with a policy or further services of one's own:
`Server(OracleCloud(identity, [*ObjectStorage(folder, allowed=…).routes(), *others], controls(…)))`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import principals
from .front import Server
from .identity import Identity, Principal
from .instances import Instances
from .object_storage import ObjectStorage
from .oracle_cloud import Control, OracleCloud
from .principals import User
from .process import arguments, child, serve
from .steering import Steering


@dataclass(frozen=True)
class OracleServer:
    """A server that runs, as its user sees it."""

    endpoint: str
    pid: int
    namespace: str
    steering: Steering = field(compare=False)
    tenancy: str = principals.TENANCY
    compartment: str = principals.COMPARTMENT
    region: str = principals.REGION

    def make_bucket(self, name: str, **details: Any) -> None:
        """`details` as in `CreateBucketDetails`, in the names of the wire: `kmsKeyId=…`."""
        self.steering.ask("POST", "buckets", {"compartmentId": self.compartment, **details, "name": name})

    def make_user(self, folder: Path, name: str = "tester", groups: tuple[str, ...] = ()) -> User:
        """A user with an API key, and its `config` in the folder."""
        return principals.make_user(self.steering, folder, name, groups)

    def make_session(self, folder: Path, name: str = "tester", seconds: float = 3600) -> User:
        """A user with a security token (`security_token_file` in its `config`)."""
        return principals.make_session(self.steering, folder, name, seconds)

    def resource_principal(self, seconds: float = 3600, folder: Path | None = None, **more: str) -> dict[str, str]:
        """The variables of a resource principal; with a folder, its token lies in a file that can be renewed."""
        return principals.resource_principal(self.steering, seconds, folder, **more)

    def instance_principal(self) -> dict[str, str]:
        """The variables that make the SDK find the metadata of an instance here.

        Give the signer `federation_endpoint=f"{server.endpoint}/v1/x509"`: the SDK has no variable for that.
        """
        return {"OCI_METADATA_BASE_URL": f"{self.endpoint}/opc/v2"}

    def forget(self, key_id: str) -> None:
        """Refuses a key (`user.key_id`) or a token (`ST$…`) from now on."""
        self.steering.ask("POST", "forget", key_id)

    def deny(self, *permissions: str) -> None:
        """Nobody has these permissions any more (`OBJECT_READ` …); with none given, everybody has all."""
        self.steering.ask("PUT", "denied", list(permissions))

    def set_clock(self, ahead: float) -> None:
        """The cloud's clock goes so many seconds ahead of this machine's: dates become stale and tokens expire."""
        self.steering.ask("PUT", "clock", ahead)


@contextmanager
def started(*buckets: str, conflicts: bool = False, port: int = 0) -> Iterator[OracleServer]:
    """A server in a process of its own for the length of a `with`, with these buckets."""
    words = ["--port", str(port), *(["--conflicts"] if conflicts else [])]
    with child("muster.rehearsal.oracle", *words) as said:
        steering = Steering(said["endpoint"])
        server = OracleServer(said["endpoint"], said["pid"], said["namespace"], steering)
        for name in buckets:
            server.make_bucket(name)
        yield server


class _Clock:
    ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


class _Denied:
    """The simplest policy: permissions that nobody has."""

    def __init__(self) -> None:
        self.permissions: frozenset[str] = frozenset()

    def allows(self, principal: Principal, permission: str, bucket: str, name: str) -> bool:
        return permission not in self.permissions


def controls(identity: Identity, storage: ObjectStorage) -> dict[str, Control]:
    """What a test may ask of the cloud besides what every server does."""

    def register(said: Any) -> None:
        identity.register(said["key_id"], Principal(**said["principal"]), said["public_key"])

    def issue(said: Any) -> str:
        return identity.issue(Principal(**said["principal"]), said["public_key"], float(said["seconds"]))

    return {
        "users": register,
        "tokens": issue,
        "forget": identity.forget,
        "buckets": lambda said: storage.make_bucket(said["name"], said).etag,
    }


def cloud(folder: Path, namespace: str = "rehearsal", conflicts: bool = False) -> OracleCloud:
    """The cloud that `started` runs."""
    clock, denied = _Clock(), _Denied()
    identity = Identity(clock)
    storage = ObjectStorage(folder, namespace, denied.allows, conflicts)

    def deny(said: Any) -> None:
        denied.permissions = frozenset(said)

    def set_clock(said: Any) -> None:
        clock.ahead = float(said)

    routes = [*storage.routes(), *Instances(identity, principals.TENANCY, principals.REGION).routes()]
    return OracleCloud(identity, routes, {**controls(identity, storage), "denied": deny, "clock": set_clock})


def main() -> None:
    parser = arguments("muster.rehearsal.oracle")
    parser.add_argument("--namespace", default="rehearsal")
    parser.add_argument("--conflicts", action="store_true", help="answer 409 when two conditional writes collide")
    parser.add_argument("--explain", action="store_true", help="say on the standard error why a signature is refused")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="muster-oracle-") as folder:
        service = cloud(Path(folder), given.namespace, given.conflicts)
        service.explain = given.explain
        serve(Server(service, given.port), given, {"namespace": given.namespace})


if __name__ == "__main__":
    main()
