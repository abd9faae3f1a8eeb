"""Policies that come and go, the places they hold in, and the groups they speak of."""

from __future__ import annotations

import pytest

from muster.rehearsal.identity import Principal
from muster.rehearsal.permits import Wish
from muster.rehearsal.policy_conditions import NotPolicy
from muster.rehearsal.policy_evaluation import Policies
from muster.rehearsal.policy_places import Compartments
from muster.rehearsal.principals import COMPARTMENT, TENANCY

pytestmark = pytest.mark.unit

ANN = Principal("ocid1.user.oc1..ann", TENANCY, "user", {"groups": ["Team"]})
READ = Wish("BUCKET_READ", COMPARTMENT)


def test_without_a_statement_only_administrators_may() -> None:
    admin = Principal("ocid1.user.oc1..root", TENANCY, "user", {"groups": ["Administrators"]})
    policies = Policies()
    assert policies.permits(admin, READ)
    assert policies.permits(admin, Wish("POLICY_CREATE", TENANCY))
    assert not policies.permits(ANN, READ)
    assert not Policies(statements=()).permits(admin, READ)


def test_a_policy_is_replaced_and_detached() -> None:
    policies = Policies()
    made = policies.attach(TENANCY, ["Allow group team to read buckets in compartment training"])
    assert policies.permits(ANN, READ)
    policies.attach(TENANCY, ["Allow group team to read objects in compartment training"], made)
    assert not policies.permits(ANN, READ)
    policies.detach(made)
    assert not policies.permits(ANN, Wish("OBJECT_READ", COMPARTMENT))


def test_a_policy_reaches_no_further_than_where_it_is_attached() -> None:
    places = Compartments()
    places.add("ocid1.compartment.oc1..a", "A")
    places.add("ocid1.compartment.oc1..b", "B", "ocid1.compartment.oc1..a")
    policies = Policies(places)
    policies.attach("ocid1.compartment.oc1..a", ["Allow group Team to read buckets in compartment A"])
    policies.attach("ocid1.compartment.oc1..a", ["Allow group Team to read objects in compartment B"])
    assert policies.permits(ANN, Wish("BUCKET_READ", "ocid1.compartment.oc1..b"))
    assert policies.permits(ANN, Wish("OBJECT_READ", "ocid1.compartment.oc1..b"))
    assert not policies.permits(ANN, Wish("OBJECT_READ", "ocid1.compartment.oc1..a"))
    for text, told in {
        "Allow group Team to read buckets in tenancy": "of the tenancy itself",
        "Allow group Team to read buckets in compartment training": "there is no compartment 'training'",
        f"Allow group Team to read buckets in compartment id {COMPARTMENT}": "there is no compartment",
        "Allow group Team to read buckets in compartment A:B": "there is no compartment 'a:b'",
    }.items():
        with pytest.raises(NotPolicy, match=told):
            policies.attach("ocid1.compartment.oc1..a", [text])


def test_one_wrong_statement_and_none_of_a_policy_holds() -> None:
    policies = Policies()
    with pytest.raises(NotPolicy):
        policies.attach(TENANCY, ["Allow group Team to read buckets in tenancy", "Allow group Team to fly in tenancy"])
    assert not policies.permits(ANN, READ)


def test_groups_by_name_by_id_and_by_membership() -> None:
    policies = Policies()
    policies.add_group("Others", "ocid1.group.oc1..o")
    policies.attach(TENANCY, ["Allow group id ocid1.group.oc1..O to read buckets in tenancy"])
    policies.attach(TENANCY, ["Allow group 'Default'/'Others' to read objects in tenancy"])
    assert not policies.permits(ANN, READ)
    policies.add_member("ocid1.group.oc1..o", ANN.id)
    assert policies.permits(ANN, READ)
    assert policies.permits(ANN, Wish("OBJECT_READ", COMPARTMENT))
    policies.remove_group("others")
    assert not policies.permits(ANN, READ)


def test_the_question_of_object_storage() -> None:
    policies = Policies()
    text = "Allow group Team to manage objects in compartment training where all {target.bucket.name = 'in', "
    policies.attach(TENANCY, [f"{text}target.object.name = 'a'}}"])
    allowed = policies.for_objects(lambda bucket: COMPARTMENT if bucket == "in" else TENANCY)
    assert allowed(ANN, "OBJECT_CREATE", "in", "a")
    assert not allowed(ANN, "OBJECT_CREATE", "in", "b")
    assert not allowed(ANN, "OBJECT_INSPECT", "in", "")
    assert not allowed(ANN, "OBJECT_CREATE", "out", "a")
