"""The rehearsed limits and repositories, asked with the real SDK."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.rehearsal.artifact_service import Artifacts
from muster.rehearsal.front import Server
from muster.rehearsal.identity import Identity, Principal
from muster.rehearsal.limits_service import LIMITS, Limits
from muster.rehearsal.object_storage import ObjectStorage
from muster.rehearsal.oracle import OracleServer, controls
from muster.rehearsal.oracle_cloud import OracleCloud
from muster.rehearsal.permits import Wish
from muster.rehearsal.principals import COMPARTMENT, TENANCY
from muster.rehearsal.routing import Refusal
from muster.rehearsal.steering import Steering

DENIED: set[str] = set()
E4 = "ds-standard-e4-core-regional-count"


def permit(_principal: Principal, wish: Wish) -> bool:
    return wish.permission not in DENIED


@pytest.fixture(scope="module")
def limits() -> Limits:
    return Limits(permit)


@pytest.fixture(scope="module")
def client(limits: Limits, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    import oci

    folder, identity = tmp_path_factory.mktemp("limits"), Identity()
    steered = controls(identity, ObjectStorage(folder))
    routes = [*limits.routes(), *Artifacts(permit).routes()]
    with Server(OracleCloud(identity, routes, steered)) as server:
        user = OracleServer(server.endpoint, 0, "rehearsal", Steering(server.endpoint)).make_user(Path(folder))
        made = oci.limits.LimitsClient(
            oci.config.from_file(str(user.config_file)),
            service_endpoint=server.endpoint,
            retry_strategy=oci.retry.NoneRetryStrategy(),
        )
        yield made
        made.base_client.session.close()


@pytest.fixture(autouse=True)
def allowed() -> Iterator[None]:
    DENIED.clear()
    yield
    DENIED.clear()


def test_what_is_used_is_not_available(client: Any, limits: Limits) -> None:
    def seen() -> tuple[int, int]:
        found = client.get_resource_availability("data-science", E4, COMPARTMENT).data
        return found.used, found.available

    assert seen() == (0, 64)
    limits.take(E4, 60)
    assert seen() == (60, 4)
    with pytest.raises(Refusal, match=E4) as refused:
        limits.take(E4, 5)
    assert (refused.value.status, refused.value.code) == (400, "LimitExceeded")
    limits.take(E4, -60)
    assert seen() == (0, 64)
    limits.set_limits({E4: 8})
    assert seen() == (0, 8)
    limits.set_limits({E4: 64})


def test_limits_are_listed(client: Any) -> None:
    listed = {row.name: row.value for row in client.list_limit_values(TENANCY, "data-science").data}
    assert listed == dict(LIMITS)
    assert [row.value for row in client.list_limit_values(TENANCY, "data-science", name=E4).data] == [64]
    defined = client.list_limit_definitions(TENANCY, service_name="data-science").data
    assert {row.name for row in defined} == set(LIMITS)
    assert all(row.is_resource_availability_supported for row in defined)
    assert client.list_limit_definitions(TENANCY, service_name="compute").data == []


@pytest.mark.parametrize(
    ("permission", "operation", "values"),
    [
        ("RESOURCE_AVAILABILITY_READ", "get_resource_availability", ("data-science", E4, COMPARTMENT)),
        ("LIMITS_INSPECT", "list_limit_values", (TENANCY, "data-science")),
        ("LIMITS_INSPECT", "list_limit_definitions", (TENANCY,)),
    ],
)
def test_who_may_not_look_is_refused(client: Any, permission: str, operation: str, values: tuple[str, ...]) -> None:
    from oci.exceptions import ServiceError

    getattr(client, operation)(*values)
    DENIED.add(permission)
    with pytest.raises(ServiceError) as refused:
        getattr(client, operation)(*values)
    assert refused.value.status == 404


def test_no_such_limit(client: Any) -> None:
    from oci.exceptions import ServiceError

    with pytest.raises(ServiceError) as refused:
        client.get_resource_availability("data-science", "ds-nothing-count", COMPARTMENT)
    assert refused.value.status == 404
