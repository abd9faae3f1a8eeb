"""Oracle's policy language as it is read: what is a statement, what is not, and what is said about it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.rehearsal.policy_conditions import Condition, NotPolicy, Tokens, read_condition, read_rule
from muster.rehearsal.policy_language import Location, Subject, read_statement
from muster.rehearsal.policy_table import FAMILIES, KINDS, VERBS, permissions

pytestmark = pytest.mark.unit


def test_a_statement_has_a_subject_permissions_a_place_and_a_condition() -> None:
    read = read_statement("Allow group Ann, Bob to read objects in compartment A:B where target.bucket.name = 'X'")
    assert read.subject == Subject("group", frozenset({"ann", "bob"}))
    assert read.permissions == {"OBJECT_INSPECT", "OBJECT_READ"}
    assert read.location == Location(path=("a", "b"))
    assert read.condition.holds({"target.bucket.name": "x"})


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("group id ocid1.group.oc1..A", Subject("group", ids=frozenset({"ocid1.group.oc1..a"}))),
        ("group 'Default'/'Team A'", Subject("group", frozenset({"default/team a"}))),
        ("group Default/Team", Subject("group", frozenset({"default/team"}))),
        ("dynamic-group Runs", Subject("dynamic-group", frozenset({"runs"}))),
        ("dynamic group Runs", Subject("dynamic-group", frozenset({"runs"}))),
        ("any-user", Subject("any-user")),
        ("any-group", Subject("any-group")),
        ("service datascience, blockstorage", Subject("service", frozenset({"datascience", "blockstorage"}))),
    ],
)
def test_subjects(text: str, subject: Subject) -> None:
    assert read_statement(f"ALLOW {text} TO INSPECT buckets IN TENANCY").subject == subject


def test_permissions_can_be_listed_instead_of_a_verb() -> None:
    read = read_statement("allow any-user to {SUBNET_READ, vnic_create} in compartment id ocid1.compartment.oc1..x")
    assert read.permissions == {"SUBNET_READ", "VNIC_CREATE"}
    assert read.location == Location(id="ocid1.compartment.oc1..x")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Endorse group A to read objects in any-tenancy", "Endorse statements are not rehearsed"),
        ("Admit group A of tenancy B to read objects in tenancy", "Admit statements are not rehearsed"),
        ("Define tenancy B as ocid1.tenancy.oc1..b", "Define statements are not rehearsed"),
        ("Deny group A to read objects in tenancy", "Deny statements are not rehearsed"),
        ("Permit group A to read objects in tenancy", "expected 'allow' instead of 'permit'"),
        ("Allow user A to read objects in tenancy", "expected a subject such as `group NAME` instead of 'user'"),
        ("Allow group A to own objects in tenancy", "there is no verb 'own'"),
        ("Allow group A to read unicorns in tenancy", "the resource type 'unicorns' is none of those"),
        ("Allow group A to read objects in region x", "expected 'compartment' instead of 'region'"),
        ("Allow group A to read objects", "expected 'in' instead of the end"),
        ("Allow group A to read objects in tenancy where", "expected a variable"),
        ("Allow group A to read objects in tenancy where target.bucket.name = training", "wants quotation marks"),
        (
            "Allow group A to read objects in tenancy where all {target.bucket.name='a'",
            "expected '}' instead of the end",
        ),
        ("Allow group A to read objects in tenancy; drop", "instead of 'tenancy;'"),
        ("Allow group A to read objects in tenancy where x = 'a' where y = 'b'", "nothing was expected at 'where'"),
        ("Allow group A to read objects in tenancy where x = 'a", "cannot read"),
        ("Allow group A to read objects in tenancy where request.utc-timestamp before '2030'", "'before' are not"),
        ("", "expected 'allow' instead of the end"),
    ],
)
def test_what_is_no_statement_is_refused_with_what_is_wrong(text: str, told: str) -> None:
    with pytest.raises(NotPolicy) as caught:
        read_statement(text)
    assert told in str(caught.value)


def condition(text: str) -> Condition:
    return read_condition(Tokens(text))


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("target.bucket.name = 'Training'", True),
        ("target.bucket.name != 'training'", False),
        ("target.bucket.name = /train*/", True),
        ("target.bucket.name = /*ing/", True),
        ("target.bucket.name = /*AIN*/", True),
        ("target.bucket.name = /rain*/", False),
        ("target.bucket.name = /t.aining/", False),
        ("target.bucket.name != /x*/", True),
        ("target.repo.name = 'a'", False),
        ("target.repo.name != 'a'", False),
        ("all {target.bucket.name = 'training', request.permission = 'OBJECT_READ'}", True),
        ("ALL {target.bucket.name = 'training', request.permission = 'OBJECT_DELETE'}", False),
        ("any {target.bucket.name = 'other', request.permission = 'OBJECT_READ'}", True),
        ("any {target.repo.name != 'other', request.permission = 'x'}", False),
        ("all {any {target.bucket.name = 'a', target.bucket.name = 'training'}, request.permission = /*_READ/}", True),
        ("request.groups.id = 'b'", True),
        ("request.groups.id = 'd'", False),
        ("request.principal.compartment.id = target.compartment.id", True),
        ("request.principal.compartment.id = target.bucket.name", False),
        ("request.principal.compartment.id = target.nothing", False),
        ('target.bucket.name="training"', True),
    ],
)
def test_conditions(text: str, holds: bool) -> None:
    values = {
        "target.bucket.name": "training",
        "request.permission": "OBJECT_READ",
        "request.groups.id": ["a", "b"],
        "request.principal.compartment.id": "ocid1.compartment.oc1..c",
        "target.compartment.id": "ocid1.compartment.oc1..c",
    }
    assert condition(text).holds(values) is holds


def test_a_rule_may_ask_for_a_tag_of_any_value() -> None:
    rule = read_rule("all {tag.department.operations.value, tag.department.stage.value = 'test'}")
    assert rule.holds({"tag.department.operations.value": "45", "tag.department.stage.value": "Test"})
    assert not rule.holds({"tag.department.stage.value": "test"})
    with pytest.raises(NotPolicy, match="nothing was expected behind the rule"):
        read_rule("instance.id = 'a' instance.id = 'b'")


def test_each_verb_holds_those_before_it_and_a_family_its_members() -> None:
    for kind in KINDS:
        given_by = [permissions(verb, kind) for verb in VERBS]
        assert all(less <= more for less, more in pairwise(given_by)), kind
    for family, members in FAMILIES.items():
        for verb in VERBS:
            assert permissions(verb, family) == frozenset().union(*(permissions(verb, each) for each in members))


@given(st.text(alphabet="Allow group to in{}=!'\"/,*.ab \n", max_size=60))
def test_no_text_makes_the_reader_fall_over(text: str) -> None:
    for read in (read_statement, read_rule):
        try:
            read(text)
        except NotPolicy:
            continue
