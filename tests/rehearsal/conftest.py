"""Servers that the tests of this folder share. Each test starts with none of the faults of another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.rehearsal import oracle, s3
from muster.rehearsal.principals import User


@pytest.fixture(scope="module")
def s3_process() -> Iterator[s3.S3Server]:
    with s3.started("training") as server:
        yield server


@pytest.fixture
def aws(s3_process: s3.S3Server) -> Iterator[s3.S3Server]:
    s3_process.steering.clear()
    s3_process.steering.reset_counts()
    yield s3_process
    s3_process.steering.clear()


@pytest.fixture(scope="module")
def oracle_process() -> Iterator[oracle.OracleServer]:
    with oracle.started("training") as server:
        yield server


@pytest.fixture(scope="module")
def user(oracle_process: oracle.OracleServer, tmp_path_factory: pytest.TempPathFactory) -> User:
    return oracle_process.make_user(tmp_path_factory.mktemp("oci"))


@pytest.fixture
def oci_server(oracle_process: oracle.OracleServer) -> Iterator[oracle.OracleServer]:
    oracle_process.steering.clear()
    oracle_process.steering.reset_counts()
    yield oracle_process
    oracle_process.steering.clear()
    oracle_process.deny()
    oracle_process.set_clock(0)


class Connect:
    """Clients of the SDK, which try nothing twice. All are closed in the end."""

    def __init__(self) -> None:
        self._close: list[Callable[[], None]] = []

    def __call__(self, server: oracle.OracleServer, config_file: Path | None = None, signer: Any = None) -> Any:
        import oci

        client = oci.object_storage.ObjectStorageClient(
            oci.config.from_file(str(config_file)) if config_file else {},
            service_endpoint=server.endpoint,
            retry_strategy=oci.retry.NoneRetryStrategy(),
            circuit_breaker_strategy=oci.circuit_breaker.NoCircuitBreakerStrategy(),
            **({"signer": signer} if signer else {}),
        )
        self._close.append(client.base_client.session.close)
        return client

    def close(self) -> None:
        for each in self._close:
            each()


@pytest.fixture(scope="module")
def connect() -> Iterator[Connect]:
    made = Connect()
    yield made
    made.close()


@pytest.fixture(scope="module")
def users_client(oracle_process: oracle.OracleServer, user: User, connect: Connect) -> Any:
    return connect(oracle_process, user.config_file)


@pytest.fixture
def objects(oci_server: oracle.OracleServer, users_client: Any) -> Any:
    """The client of a user who may do all."""
    return users_client


def s3_client(server: s3.S3Server, **config: Any) -> Any:
    """boto3's client, which tries nothing twice."""
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        region_name=s3.REGION,
        aws_access_key_id="rehearsal",
        aws_secret_access_key="rehearsal",
        config=Config(retries={"total_max_attempts": 1}, max_pool_connections=64, **config),
    )
