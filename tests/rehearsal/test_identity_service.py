"""Oracle's identity service in a box, asked by Oracle's SDK; and a policy made there, which takes effect elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import oci
import pytest
from oci.exceptions import ServiceError

from muster.rehearsal import oracle
from muster.rehearsal.front import Server
from muster.rehearsal.identity import Identity, new_key
from muster.rehearsal.identity_service import IdentityService
from muster.rehearsal.object_storage import ObjectStorage
from muster.rehearsal.oracle_cloud import OracleCloud
from muster.rehearsal.policy_evaluation import Policies
from muster.rehearsal.policy_places import Compartments
from muster.rehearsal.principals import COMPARTMENT, TENANCY, make_user, resource_principal
from muster.rehearsal.steering import Steering


@dataclass
class Cloud:
    """Object storage and identity, with policies that are evaluated; and clients of two users."""

    endpoint: str
    folder: Path
    closing: ExitStack
    policies: Policies

    def client(self, kind: Any, name: str, *groups: str) -> Any:
        user = make_user(Steering(self.endpoint), self.folder / name, name, groups)
        made = kind(
            oci.config.from_file(str(user.config_file)),
            service_endpoint=self.endpoint,
            retry_strategy=oci.retry.NoneRetryStrategy(),
            circuit_breaker_strategy=oci.circuit_breaker.NoCircuitBreakerStrategy(),
        )
        self.closing.callback(made.base_client.session.close)
        return made


@pytest.fixture(scope="module")
def authority() -> Any:
    return new_key()


@pytest.fixture
def cloud(tmp_path: Path, authority: Any) -> Iterator[Cloud]:
    identity, policies = Identity(authority=authority), Policies(Compartments())
    storage = ObjectStorage(tmp_path, allowed=policies.for_objects(lambda bucket: COMPARTMENT))
    storage.make_bucket("training", {"compartmentId": COMPARTMENT})
    routes = [*storage.routes(), *IdentityService(policies, policies.permits).routes()]
    with ExitStack() as closing, Server(OracleCloud(identity, routes, oracle.controls(identity, storage))) as server:
        yield Cloud(server.endpoint, tmp_path, closing, policies)


@pytest.fixture
def admin(cloud: Cloud) -> Any:
    return cloud.client(oci.identity.IdentityClient, "root", "Administrators")


def refused(call: Any, *args: Any, **kwargs: Any) -> tuple[int, str]:
    with pytest.raises(ServiceError) as caught:
        call(*args, **kwargs)
    return caught.value.status, caught.value.code


def policy(*statements: str, name: str = "team", where: str = TENANCY) -> Any:
    details = oci.identity.models.CreatePolicyDetails
    return details(compartment_id=where, name=name, description="of a test", statements=list(statements))


def test_a_policy_takes_effect_at_once_and_until_it_is_deleted(cloud: Cloud, admin: Any) -> None:
    ann = cloud.client(oci.object_storage.ObjectStorageClient, "ann", "Team")
    put = ("rehearsal", "training", "a", b"1")
    assert refused(ann.put_object, *put) == (404, "BucketNotFound")
    statement = "Allow group Team to manage objects in compartment training where target.bucket.name = 'training'"
    made = admin.create_policy(policy(statement)).data
    assert ann.put_object(*put).status == 200
    assert admin.get_policy(made.id).data.statements == [statement]
    assert [each.name for each in admin.list_policies(TENANCY).data] == ["Tenant Admin Policy", "team"]
    fewer = oci.identity.models.UpdatePolicyDetails(statements=["Allow group Team to read objects in tenancy"])
    admin.update_policy(made.id, fewer)
    assert ann.get_object("rehearsal", "training", "a").data.content == b"1"
    assert refused(ann.delete_object, "rehearsal", "training", "a") == (404, "BucketNotFound")
    admin.delete_policy(made.id)
    assert refused(ann.get_object, "rehearsal", "training", "a") == (404, "BucketNotFound")
    assert refused(admin.get_policy, made.id) == (404, "NotAuthorizedOrNotFound")


def test_what_is_no_policy_is_refused_and_changes_nothing(cloud: Cloud, admin: Any) -> None:
    with pytest.raises(ServiceError) as caught:
        admin.create_policy(policy("Allow group Team to own objects in tenancy"))
    assert (caught.value.status, caught.value.code) == (400, "InvalidParameter")
    assert "there is no verb 'own'" in caught.value.message
    inner = policy("Allow group Team to read objects in tenancy", where=COMPARTMENT)
    assert refused(admin.create_policy, inner) == (400, "InvalidParameter")
    admin.create_policy(policy("Allow group Team to read objects in tenancy"))
    assert refused(admin.create_policy, policy("Allow group Team to read buckets in tenancy")) == (
        409,
        "PolicyAlreadyExists",
    )


def test_a_second_request_with_the_same_token_makes_no_second_policy(admin: Any) -> None:
    details = policy("Allow group Team to read objects in tenancy")
    ids = {admin.create_policy(details, opc_retry_token="once").data.id for _ in range(2)}
    assert len(ids) == 1


def test_a_dynamic_group_gathers_job_runs(cloud: Cloud, admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = f"all {{resource.type = 'datasciencejobrun', resource.compartment.id = '{COMPARTMENT}'}}"
    details = oci.identity.models.CreateDynamicGroupDetails(
        compartment_id=TENANCY, name="runs", description="all runs", matching_rule=rule
    )
    made = admin.create_dynamic_group(details).data
    assert admin.list_dynamic_groups(TENANCY, name="runs").data[0].matching_rule == rule
    admin.create_policy(policy("Allow dynamic-group runs to manage objects in compartment training"))
    for name, value in resource_principal(Steering(cloud.endpoint)).items():
        monkeypatch.setenv(name, value)
    signer = oci.auth.signers.get_resource_principals_signer()
    run = oci.object_storage.ObjectStorageClient({}, service_endpoint=cloud.endpoint, signer=signer)
    cloud.closing.callback(run.base_client.session.close)
    assert run.put_object("rehearsal", "training", "b", b"2").status == 200
    admin.delete_dynamic_group(made.id)
    assert refused(run.put_object, "rehearsal", "training", "b", b"3") == (404, "BucketNotFound")
    wrong = oci.identity.models.CreateDynamicGroupDetails(
        compartment_id=TENANCY, name="wrong", description="wrong", matching_rule="resource.type = datasciencejobrun"
    )
    assert refused(admin.create_dynamic_group, wrong) == (400, "InvalidParameter")


def test_groups_have_members(cloud: Cloud, admin: Any) -> None:
    models = oci.identity.models
    group = admin.create_group(models.CreateGroupDetails(compartment_id=TENANCY, name="Late", description="x")).data
    admin.create_policy(policy("Allow group Late to read objects in tenancy"))
    bob = cloud.client(oci.object_storage.ObjectStorageClient, "bob")
    assert refused(bob.list_objects, "rehearsal", "training") == (404, "BucketNotFound")
    joined = models.AddUserToGroupDetails(user_id="ocid1.user.oc1..bob", group_id=group.id)
    admin.add_user_to_group(joined)
    assert bob.list_objects("rehearsal", "training").status == 200
    found = admin.list_user_group_memberships(TENANCY, user_id="ocid1.user.oc1..bob").data
    assert [each.group_id for each in found] == [group.id]


def test_compartments_are_listed_page_by_page(admin: Any) -> None:
    models = oci.identity.models
    for number in range(4):
        details = models.CreateCompartmentDetails(compartment_id=COMPARTMENT, name=f"c{number}", description="x")
        admin.create_compartment(details)
    first = admin.list_compartments(COMPARTMENT, limit=3)
    assert [each.name for each in first.data] == ["c0", "c1", "c2"]
    second = admin.list_compartments(COMPARTMENT, limit=3, page=first.headers["opc-next-page"])
    assert [each.name for each in second.data] == ["c3"]
    assert "opc-next-page" not in second.headers
    assert len(admin.list_compartments(TENANCY, compartment_id_in_subtree=True).data) == 5
    assert admin.get_compartment(COMPARTMENT).data.name == "training"
    assert admin.list_compartments(TENANCY, name="training").data[0].id == COMPARTMENT
    again = models.CreateCompartmentDetails(compartment_id=COMPARTMENT, name="c0", description="x")
    assert refused(admin.create_compartment, again) == (409, "CompartmentAlreadyExists")


def test_the_tenancy_its_regions_and_its_availability_domains(cloud: Cloud, admin: Any) -> None:
    assert admin.get_tenancy(TENANCY).data.home_region_key == "IAD"
    assert [each.region_name for each in admin.list_region_subscriptions(TENANCY).data] == ["us-ashburn-1"]
    assert len(admin.list_availability_domains(TENANCY).data) == 3
    nobody = cloud.client(oci.identity.IdentityClient, "nobody")
    for call in (nobody.get_tenancy, nobody.list_region_subscriptions, nobody.list_compartments, nobody.list_policies):
        assert refused(call, TENANCY) == (404, "NotAuthorizedOrNotFound")
    assert refused(nobody.get_compartment, COMPARTMENT) == (404, "NotAuthorizedOrNotFound")
    assert refused(nobody.create_policy, policy("Allow any-user to manage all-resources in tenancy")) == (
        404,
        "NotAuthorizedOrNotFound",
    )
