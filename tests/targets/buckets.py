"""Work dirs in buckets for tests of whole runs: real servers, and the environment that reaches them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from muster.rehearsal import oracle, s3
from muster.rehearsal.steering import Steering
from muster.workdir.opening import open_store
from muster.workdir.store import Store


@dataclass
class Bucket:
    """A bucket, how it is reached, and how its server is made to misbehave."""

    url: str
    env: Mapping[str, str]
    secrets: tuple[bytes, ...]
    """What must be found nowhere in it."""
    steering: Steering | None = None

    @property
    def store(self) -> Store:
        return open_store(self.url)


@contextmanager
def bucket(kind: str, folder: Path) -> Iterator[Bucket]:
    """A bucket of this kind, for as long as the block."""
    if kind == "folder":
        yield Bucket(str(folder / "runs"), {}, ())
    elif kind == "s3":
        with s3.started("training") as server:
            secret = server.environment["AWS_SECRET_ACCESS_KEY"].encode()
            yield Bucket("s3://training/team/runs", server.environment, (secret,), server.steering)
    else:
        with oracle.started("training") as cloud:
            user = cloud.make_user(folder)
            env = {"OCI_CONFIG_FILE": str(user.config_file), "OCI_OBJECTSTORAGE_SERVICE_ENDPOINT": cloud.endpoint}
            secrets = (b"PRIVATE KEY", user.key_id.rpartition("/")[2].encode())
            yield Bucket(f"oci://training@{cloud.namespace}/team/runs", env, secrets, cloud.steering)
