"""The rehearsed registry's repositories and images, asked with the real SDK."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.rehearsal.artifact_service import Artifacts
from muster.rehearsal.front import Server
from muster.rehearsal.identity import Identity, Principal
from muster.rehearsal.object_storage import ObjectStorage
from muster.rehearsal.oracle import OracleServer, controls
from muster.rehearsal.oracle_cloud import OracleCloud
from muster.rehearsal.permits import Wish
from muster.rehearsal.principals import COMPARTMENT, TENANCY
from muster.rehearsal.steering import Steering

WISHES: list[Wish] = []
DENIED: set[str] = set()


def permit(_principal: Principal, wish: Wish) -> bool:
    WISHES.append(wish)
    return wish.permission not in DENIED


@pytest.fixture(scope="module")
def artifacts() -> Artifacts:
    return Artifacts(permit)


@pytest.fixture(scope="module")
def made(artifacts: Artifacts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    import oci

    folder, identity = tmp_path_factory.mktemp("artifacts"), Identity()
    steered = controls(identity, ObjectStorage(folder))
    with Server(OracleCloud(identity, artifacts.routes(), steered)) as server:
        user = OracleServer(server.endpoint, 0, "rehearsal", Steering(server.endpoint)).make_user(Path(folder))
        client = oci.artifacts.ArtifactsClient(
            oci.config.from_file(str(user.config_file)),
            service_endpoint=server.endpoint,
            retry_strategy=oci.retry.NoneRetryStrategy(),
        )
        yield client
        client.base_client.session.close()


@pytest.fixture
def client(made: Any) -> Iterator[Any]:
    WISHES.clear()
    DENIED.clear()
    yield made
    DENIED.clear()


def test_a_pushed_image_makes_its_repository_and_is_found(client: Any, artifacts: Artifacts) -> None:
    digest = artifacts.push("team/one", "1")
    (repository,) = client.list_container_repositories(COMPARTMENT, display_name="team/one").data.items
    assert (repository.namespace, repository.image_count) == ("rehearsal", 1)
    (image,) = client.list_container_images(COMPARTMENT, repository_name="team/one", version="1").data.items
    assert (image.digest, image.display_name, image.lifecycle_state) == (digest, "team/one:1", "AVAILABLE")
    assert client.get_container_repository(repository.id).data.display_name == "team/one"
    assert client.get_container_image(image.id).data.digest == digest


def test_a_tag_that_is_pushed_again_leaves_the_old_image(client: Any, artifacts: Artifacts) -> None:
    first, second = artifacts.push("team/two", "1"), artifacts.push("team/two", "1")
    found = client.list_container_images(COMPARTMENT, repository_name="team/two").data.items
    assert {image.digest: image.version for image in found} == {first: None, second: "1"}


def test_repositories_of_all_compartments_are_listed_from_the_root_by_pages(client: Any, artifacts: Artifacts) -> None:
    from oci.pagination import list_call_get_all_results

    artifacts.make_repository("team/root", TENANCY)
    before = client.list_container_repositories(COMPARTMENT).data.items
    assert "team/root" not in {each.display_name for each in before}
    listed = list_call_get_all_results(
        client.list_container_repositories, TENANCY, compartment_id_in_subtree=True, limit=1
    ).data
    assert {each.display_name for each in listed} >= {"team/root", *(each.display_name for each in before)}


def test_a_repository_is_made_once(client: Any) -> None:
    import oci

    details = oci.artifacts.models.CreateContainerRepositoryDetails(
        compartment_id=COMPARTMENT, display_name="team/made"
    )
    assert client.create_container_repository(details).data.display_name == "team/made"
    with pytest.raises(oci.exceptions.ServiceError) as refused:
        client.create_container_repository(details)
    assert refused.value.status == 409


def test_permissions_speak_of_the_repository_where_one_is_named(client: Any, artifacts: Artifacts) -> None:
    from oci.exceptions import ServiceError

    artifacts.push("team/three", "1")
    client.list_container_repositories(COMPARTMENT)
    (image,) = client.list_container_images(COMPARTMENT, repository_name="team/three").data.items
    client.get_container_image(image.id)
    named = {"target.repo.name": "team/three"}
    assert [
        Wish("REPOSITORY_INSPECT", COMPARTMENT),
        Wish("REPOSITORY_INSPECT", COMPARTMENT, named),
        Wish("REPOSITORY_READ", COMPARTMENT, named),
    ] == WISHES
    DENIED.add("REPOSITORY_INSPECT")
    with pytest.raises(ServiceError) as refused:
        client.list_container_repositories(COMPARTMENT)
    assert (refused.value.status, refused.value.code) == (404, "NotAuthorizedOrNotFound")
