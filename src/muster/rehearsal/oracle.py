"""Oracle's cloud in a box: the services that Muster uses, with the SDK's signatures verified (`account.py`).

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

By hand: `python -m muster.rehearsal.oracle --port 0`. In this process, with services of one's own choice:
`Server(OracleCloud(identity, [*ObjectStorage(folder, allowed=…).routes(), *others], controls(…)))`.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import principals
from .account import Account
from .front import Server
from .identity import Identity, Principal
from .object_storage import ObjectStorage
from .oracle_cloud import Control
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

    def environment(self, user: User) -> dict[str, str]:
        """The variables by which the SDK, and all that is made with it, finds this cloud as this user."""
        return {
            "OCI_CONFIG_FILE": str(user.config_file),
            "MUSTER_OCI_ENDPOINT": self.endpoint,
            "OCI_OBJECTSTORAGE_SERVICE_ENDPOINT": self.endpoint,
            "OCI_ODSC_SERVICE_ENDPOINT": self.endpoint,
        }

    def learn(self, **things: Any) -> None:
        """Things that a target names by their OCIDs: `compartment_id=…`, `subnet_id=…`, `buckets=[…]` …"""
        self.steering.ask("POST", "things", things)

    def grant(self, policy: Mapping[str, Any]) -> None:
        """A policy as `muster policy --json` prints it; from now on nothing else is allowed."""
        self.steering.ask("POST", "grants", policy)

    def judge(self, policy: Mapping[str, Any]) -> list[str]:
        """The permissions that another policy would have refused, of all that was asked for so far."""
        refused: list[str] = self.steering.ask("POST", "judge", policy)
        return refused

    def job_runs(self) -> list[dict[str, Any]]:
        """All job runs so far, in the order they were made."""
        found: list[dict[str, Any]] = self.steering.ask("GET", "job_runs")
        return found

    def refuse_run(self, number: int, **refusal: Any) -> None:
        """The so-manieth job run from now on (the next is 1) is refused."""
        self.steering.ask("POST", "refuse_run", {"number": number, **refusal})

    def kill_run(self, run: str) -> None:
        """SIGKILL to all of a job run: a machine that is lost."""
        self.steering.ask("POST", "kill_run", {"run": run})

    def delay(self, name: str, seconds: float, run: str | None = None) -> None:
        """How long a step of job runs takes from now on; see `data_science_settings.DELAYS`."""
        self.steering.ask("PUT", "delays", {"name": name, "seconds": seconds, "run": run})

    def set_clock(self, ahead: float) -> None:
        """The cloud's clock goes so many seconds ahead of this machine's: dates become stale and tokens expire."""
        self.steering.ask("PUT", "clock", ahead)


@contextmanager
def started(
    *buckets: str,
    conflicts: bool = False,
    port: int = 0,
    namespace: str = "rehearsal",
    environment: Mapping[str, str] | None = None,
    minute: float = 60.0,
) -> Iterator[OracleServer]:
    """A server in a process of its own for the length of a `with`, with these buckets.

    `environment` is what every image has in its environment; `minute` is how long one of maximum runtime lasts.
    """
    words = ["--port", str(port), "--namespace", namespace, "--minute", str(minute)]
    words += ["--environment", json.dumps(dict(environment or {})), *(["--conflicts"] if conflicts else [])]
    with child("muster.rehearsal.oracle", *words) as said:
        steering = Steering(said["endpoint"])
        server = OracleServer(said["endpoint"], said["pid"], said["namespace"], steering)
        for name in buckets:
            server.make_bucket(name)
        yield server


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


def main() -> None:
    parser = arguments("muster.rehearsal.oracle")
    parser.add_argument("--namespace", default="rehearsal")
    parser.add_argument("--conflicts", action="store_true", help="answer 409 when two conditional writes collide")
    parser.add_argument("--explain", action="store_true", help="say on the standard error why a signature is refused")
    parser.add_argument("--minute", type=float, default=60.0, help="how many seconds a minute of maximum runtime lasts")
    parser.add_argument("--environment", default="{}", help="JSON: what every image has in its environment")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="muster-oracle-") as folder:
        account = Account(
            Path(folder), given.namespace, given.conflicts, json.loads(given.environment), minute=given.minute
        )
        service = account.cloud()
        service.explain = given.explain
        server = Server(service, given.port)
        account.science.settings.endpoint = server.endpoint
        with account.science:
            serve(server, given, {"namespace": given.namespace})


if __name__ == "__main__":
    main()
