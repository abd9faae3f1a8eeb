"""Certificates of Oracle's service, fetched by a job run from a rehearsed one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from muster.clouds.oci_certificates import CertificateIds, certificates
from muster.errors import CloudError
from muster.rehearsal import oracle, principals
from muster.rehearsal.certificate_service import CertificateService
from muster.rehearsal.front import Server
from muster.rehearsal.identity import Identity, Principal
from muster.rehearsal.object_storage import ObjectStorage
from muster.rehearsal.oracle_cloud import OracleCloud
from muster.rehearsal.permits import Wish
from muster.rehearsal.steering import Steering
from muster.workdir.tls import made_here
from tests.clouds.oracle_world import forget_oracle


@dataclass
class World:
    """A cloud that knows certificates, and what was asked of its policies."""

    service: CertificateService
    steering: Steering
    wishes: list[tuple[Principal, Wish]]
    allowed: Callable[[Wish], bool] = lambda _wish: True

    def permit(self, principal: Principal, wish: Wish) -> bool:
        self.wishes.append((principal, wish))
        return self.allowed(wish)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("cloud")
    made = World(None, None, [])  # type: ignore[arg-type]
    identity, made.service = Identity(), CertificateService(made.permit)
    controls = {**oracle.controls(identity, ObjectStorage(folder)), **made.service.controls()}
    with (
        Server(OracleCloud(identity, made.service.routes(), controls)) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        made.steering = Steering(server.endpoint)
        forget_oracle(patch, folder)
        for name, value in principals.resource_principal(made.steering).items():
            patch.setenv(name, value)
        patch.setenv("MUSTER_OCI_ENDPOINT", server.endpoint)
        yield made


@pytest.fixture
def world(cloud: World) -> World:
    """It forgets what was asked before, and allows all."""
    cloud.wishes.clear()
    cloud.allowed = lambda _wish: True
    return cloud


def test_a_job_run_fetches_what_its_cluster_needs(world: World) -> None:
    pems = made_here(60)
    assert certificates(world.service.keep("dask", pems)) == replace(
        pems, certificate=pems.certificate + pems.authority
    )
    (who, issued), (_, authority) = world.wishes
    assert who.claims["res_type"] == "datasciencejobrun"
    assert (issued.permission, authority.permission) == (
        "CERTIFICATE_BUNDLE_READ",
        "CERTIFICATE_AUTHORITY_BUNDLE_READ",
    )
    assert issued.about["target.leaf-certificate.bundle-type"] == "CERTIFICATE_CONTENT_WITH_PRIVATE_KEY"
    assert issued.compartment == principals.COMPARTMENT


def test_a_test_has_some_issued_over_the_wire(world: World) -> None:
    ids = CertificateIds(**world.steering.ask("POST", "certificates", {"name": "dask"}))
    assert certificates(ids).key.startswith("-----BEGIN PRIVATE KEY-----")


@pytest.mark.parametrize(
    ("permission", "statement"),
    [
        (
            "CERTIFICATE_BUNDLE_READ",
            "read leaf-certificate-bundles in compartment NAME"
            " where target.leaf-certificate.bundle-type='CERTIFICATE_CONTENT_WITH_PRIVATE_KEY'`",
        ),
        ("CERTIFICATE_AUTHORITY_BUNDLE_READ", "read certificate-authority-bundles in compartment NAME`"),
    ],
)
def test_who_may_not_is_told_the_statement_that_mends_it(world: World, permission: str, statement: str) -> None:
    world.allowed = lambda wish: wish.permission != permission
    with pytest.raises(CloudError) as caught:
        certificates(world.service.issue("dask"))
    assert (caught.value.status, caught.value.code) == (404, "NotAuthorizedOrNotFound")
    assert caught.value.fix.endswith(f"Allow dynamic-group NAME to {statement}.")


def test_ids_of_nothing_or_in_the_wrong_place_are_refused(world: World) -> None:
    ids = world.service.issue("dask")
    for wrong in (
        CertificateIds(ids.certificate, ids.authority),
        CertificateIds(ids.authority, "ocid1.certificate.no"),
    ):
        with pytest.raises(CloudError) as caught:
            certificates(wrong)
        assert caught.value.status == 404
        assert wrong.certificate in caught.value.fix


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("", "has no private key"),
        (
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIF\n-----END ENCRYPTED PRIVATE KEY-----\n",
            "locked with a passphrase",
        ),
    ],
)
def test_a_key_that_cannot_be_used_is_told_without_its_text(world: World, key: str, told: str) -> None:
    with pytest.raises(CloudError, match=told) as caught:
        certificates(world.service.keep("dask", replace(made_here(60), key=key)))
    assert "MIIF" not in str(caught.value)


def test_the_public_half_alone_has_no_key(world: World) -> None:
    """What everybody gets who does not ask for more, as with the real service; here the SDK's own client asks."""
    from muster.clouds.oci import session
    from muster.clouds.oci_services import Services

    ids = world.service.issue("dask")
    found = Services(session()).call("certificates", "get_certificate_bundle", ids.certificate).data
    assert found["certificateBundleType"] == "CERTIFICATE_CONTENT_PUBLIC_ONLY"
    assert "PRIVATE" not in str(found)
