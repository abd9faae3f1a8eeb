"""The policies that are generated for a job: each is enough for all its calls, and no statement of it can be left out.

They are evaluated by the rehearsed cloud's evaluator, which `tests/rehearsal` holds against Oracle's own examples.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import cycle, product
from typing import Any

import pytest

from muster.access.policies import Policy, Statement, needs_of, policy
from muster.access.policy_calls import Call, calls
from muster.access.policy_needs import Needs
from muster.errors import MusterError
from muster.rehearsal.identity import Principal
from muster.rehearsal.permits import Wish
from muster.rehearsal.policy_evaluation import Policies
from muster.rehearsal.policy_places import Compartments
from muster.rehearsal.principals import TENANCY
from muster.spec.config import Target
from muster.spec.job import Input, Job, Role

pytestmark = pytest.mark.unit

HERE = "ocid1.compartment.oc1..here"
USER = Principal("ocid1.user.oc1..ann", TENANCY, "user", {"groups": ["muster-users"]})
CLAIMS = {"res_type": "datasciencejobrun", "res_id": "ocid1.datasciencejobrun.oc1..r", "res_compartment": HERE}
RUN = Principal(CLAIMS["res_id"], TENANCY, "resource", CLAIMS)
PRINCIPALS = {"launcher": USER, "run": RUN, "service": Principal("datascience", TENANCY, "service")}
GROUP = {"log_group_id": "ocid1.loggroup.oc1.iad.g"}
LOGGING: list[dict[str, Any]] = [{}, GROUP, {**GROUP, "log_id": "ocid1.log.oc1.iad.l"}]
SECRETS: list[dict[str, Any]] = [
    {},
    {
        "secrets": {"A": "ocid1.vaultsecret.oc1.iad.a", "B": "ocid1.vaultsecret.oc1.iad.b"},
        "ca_cert_id": "ocid1.certificateauthority.oc1.iad.c",
        "cert_id": "ocid1.certificate.oc1.iad.d",
        "defined_tags": {"team": {"name": "vision"}},
    },
]
IMAGES = ("docker.io/library/python:3.11", "iad.ocir.io/namespace/team/train:1", "@image")
BUCKETS: list[dict[str, Any]] = [
    {},
    {"inputs": {"data": Input("oci://data@namespace/set"), "same": Input("oci://work@namespace/x")}},
    {"code": "oci://code@namespace/train.tar.gz"},
]


def target(**options: Any) -> Target:
    return Target("oci", "oci", "oci://work@namespace/runs", {"compartment_id": HERE, **options})


def jobs(framework: str) -> Iterator[Needs]:
    """A job of this framework with and without all that makes a difference."""
    others = cycle(product(IMAGES, BUCKETS))
    for logging, secrets, subnet in product(LOGGING, SECRETS, ({}, {"subnet_id": "s"})):
        image, more = next(others)
        job = Job(name="a", framework=framework, image=image, secrets=tuple(secrets.get("secrets", ())), **more)
        yield needs_of(job, target(**logging, **secrets, **subnet))


def account(needs: Needs, made: Policy, statements: Iterable[Statement]) -> Policies:
    """An account that has the generated dynamic groups, and these statements alone."""
    places = Compartments()
    places.add(HERE, needs.compartment or "here")
    places.add("ocid1.compartment.oc1..elsewhere", "elsewhere")
    policies = Policies(places, statements=())
    for group in made.dynamic_groups:
        policies.add_dynamic_group(group.name, group.rule)
    policies.attach(TENANCY, [each.text for each in statements])
    return policies


def refused(policies: Policies, asked: Iterable[Call], who: dict[str, Principal] = PRINCIPALS) -> set[tuple[str, str]]:
    """Who is refused which permission of these calls."""
    return {
        (call.who, permission)
        for call in asked
        for permission in call.permissions
        if not policies.permits(who[call.who], Wish(permission, TENANCY if call.in_tenancy else HERE, dict(call.about)))
    }


@pytest.mark.parametrize("framework", ["dask", "pytorch", "horovod", "tensorflow"])
def test_a_policy_is_enough_and_no_statement_can_be_left_out(framework: str) -> None:
    seen = set()
    for needs in jobs(framework):
        made, asked = policy(needs), list(calls(needs))
        assert not refused(account(needs, made, made.statements), asked)
        # A statement only ever adds, so that what each alone gives says what is lost without it.
        lacking = {each: refused(account(needs, made, [each]), asked) for each in made.statements}
        for statement in made.statements:
            others = [lacks for each, lacks in lacking.items() if each != statement]
            lost = set.intersection(*others)
            assert lost, f"nothing is lost without: {statement.text}"
        seen.add(len(made.statements))
    assert len(seen) > 5


def test_without_a_statement_what_it_is_for_is_refused() -> None:
    job = Job(name="a", framework="dask", image=IMAGES[1], code="oci://code@n/x", inputs={"d": Input("oci://data@n/x")})
    job = replace(job, secrets=tuple(SECRETS[1]["secrets"]))
    needs = needs_of(job, target(subnet_id="s", storage_mount=["oci://mounted@n/x:dir"], **LOGGING[1], **SECRETS[1]))
    made, asked = policy(needs), list(calls(needs))
    assert len(made.statements) == 22
    for statement in made.statements:
        rest = [each for each in made.statements if each != statement]
        gone = refused(account(needs, made, rest), asked)
        assert gone, f"nothing is refused without: {statement.text}"
        assert {permission for _, permission in gone} <= set(statement.gives)
        assert all(who == statement.who for who, _ in gone)


def test_each_statement_gives_what_it_says() -> None:
    for needs in jobs("pytorch"):
        made = policy(needs)
        asked = {(call.who, permission) for call in calls(needs) for permission in call.permissions}
        for who, permission in asked:
            assert made.mending(who, permission), f"nothing is said to give {permission} to the {who}"
    assert policy(needs).mending("run", "DATA_SCIENCE_JOB_CREATE") == ""


def test_a_policy_gives_nothing_else() -> None:
    needs = needs_of(
        Job(name="a", framework="dask", image=IMAGES[1]), target(subnet_id="s", **LOGGING[2], **SECRETS[1])
    )
    made = policy(needs)
    policies = account(needs, made, made.statements)
    other = {"target.bucket.name": "other"}
    for principal, permission, about in [
        (USER, "OBJECT_READ", other),
        (USER, "BUCKET_DELETE", {"target.bucket.name": "work"}),
        (USER, "REPOSITORY_UPDATE", {"target.repo.name": "other"}),
        (USER, "SECRET_BUNDLE_READ", {"target.secret.id": "ocid1.vaultsecret.oc1.iad.a"}),
        (USER, "SUBNET_CREATE", {}),
        (USER, "SECURITY_LIST_UPDATE", {}),
        (USER, "LOG_GROUP_CREATE", {"target.loggroup.id": "ocid1.loggroup.oc1.iad.g"}),
        (USER, "POLICY_CREATE", {}),
        (RUN, "OBJECT_READ", other),
        (RUN, "DATA_SCIENCE_JOB_CREATE", {}),
        (RUN, "DATA_SCIENCE_JOB_RUN_CREATE", {}),
        (RUN, "REPOSITORY_UPDATE", {"target.repo.name": "team/train"}),
        (RUN, "SECRET_BUNDLE_READ", {"target.secret.id": "ocid1.vaultsecret.oc1.iad.z"}),
        (RUN, "VNIC_CREATE", {}),
        (PRINCIPALS["service"], "OBJECT_READ", {}),
        (Principal("ocid1.user.oc1..bob", TENANCY), "DATA_SCIENCE_JOB_READ", {}),
    ]:
        assert not policies.permits(principal, Wish(permission, HERE, about)), f"{permission} to {principal.id}"
    elsewhere = Wish("DATA_SCIENCE_JOB_READ", "ocid1.compartment.oc1..elsewhere")
    assert not policies.permits(USER, elsewhere)
    stranger = replace(RUN, claims={**CLAIMS, "res_compartment": "ocid1.compartment.oc1..elsewhere"})
    assert not policies.permits(stranger, Wish("DATA_SCIENCE_JOB_RUN_READ", HERE))


def test_a_proof_of_concept_is_wide_and_enough() -> None:
    for needs in jobs("tensorflow"):
        made = policy(needs, proof_of_concept=True)
        assert len(made.statements) <= 4
        assert not refused(account(needs, made, made.statements), calls(needs))


@pytest.mark.parametrize(
    ("auth", "principal"),
    [
        ("resource_principal", replace(RUN, claims={**CLAIMS, "res_type": "datasciencenotebooksession"})),
        ("instance_principal", Principal("ocid1.instance.oc1..i", TENANCY, "instance", {"res_compartment": HERE})),
    ],
)
def test_what_launches_may_be_a_resource(auth: str, principal: Principal) -> None:
    needs = needs_of(Job(name="a", framework="pytorch"), target(auth=auth), users="launchers")
    made = policy(needs)
    assert [group.name for group in made.dynamic_groups] == ["muster-runs", "launchers"]
    policies = account(needs, made, made.statements)
    assert not refused(policies, calls(needs), {**PRINCIPALS, "launcher": principal})
    assert refused(policies, calls(needs))


def test_a_compartment_by_name_a_group_of_a_domain_and_the_root() -> None:
    job = Job(name="a", framework="pytorch")
    named = needs_of(job, target(), users="Default/team", compartment="here")
    texts = [each.text for each in policy(named).statements]
    assert "Allow group 'Default'/'team' to manage data-science-jobs in compartment here" in texts
    assert not refused(
        account(named, policy(named), policy(named).statements),
        calls(named),
        {**PRINCIPALS, "launcher": replace(USER, claims={"groups": ["team"]})},
    )
    root = policy(needs_of(job, target(compartment_id="ocid1.tenancy.oc1..x")))
    assert all(" in tenancy" in each.text for each in root.statements)


def test_what_a_run_need_not_do_is_not_asked_for() -> None:
    needs = needs_of(Job(name="a", framework="pytorch"), target(), ends_others=False, deletes_jobs=False)
    made = policy(needs)
    texts = " ".join(each.text for each in made.statements)
    assert "use data-science-job-runs" not in texts
    policies = account(needs, made, made.statements)
    assert not refused(policies, calls(needs))
    assert not policies.permits(USER, Wish("DATA_SCIENCE_JOB_DELETE", HERE))


def test_needs_are_read_from_the_job_and_its_target() -> None:
    job = Job(
        name="a",
        framework="dask",
        secrets=("KEY",),
        image="ocir.us-ashburn-1.oci.oraclecloud.com/ns/main@sha256:00",
        roles={"worker": Role(image="iad.ocir.io/ns/a/worker"), "ps": Role(image="localhost:5000/x/y:1")},
        inputs={"data": Input("oci://data@ns/x?region=a"), "local": Input("/data"), "s3": Input("s3://data/x")},
    )
    options = {
        "storage_mount": ["oci://mounted@ns/p:dir", "10.0.0.2@/export:dir", {"bucket": "table", "namespace": "ns"}],
        "workspace": "sync@ns",
        "git_secret_id": "ocid1.vaultsecret.oc1.iad.git",
        "secrets": {"KEY": "ocid1.vaultsecret.oc1.iad.key", "OTHER": "ocid1.vaultsecret.oc1.iad.other"},
    }
    needs = needs_of(job, target(**options))
    assert (needs.bucket, needs.namespace) == ("work", "namespace")
    assert needs.read_buckets == ("data",)
    assert needs.written_buckets == ("mounted", "table")
    assert needs.repositories == ("main", "a/worker")
    assert needs.secrets == ("ocid1.vaultsecret.oc1.iad.key",)
    assert needs.git_secret == "ocid1.vaultsecret.oc1.iad.git"
    assert needs_of(replace(job, work_dir="oci://own@ns/x"), target()).bucket == "own"
    assert needs_of(replace(job, work_dir="s3://own/x"), target()).bucket == ""
    with pytest.raises(MusterError, match="target 'oci' has no compartment_id"):
        needs_of(job, Target("oci", "oci", "oci://work@namespace/runs"))


@pytest.mark.parametrize("evil", ["a'b", "a\nb", 'a"b', "a b", "a, b", "a} ", "${x}", "'} or any {'", "a\u2028b"])
@pytest.mark.parametrize(
    "field", ["compartment_id", "bucket", "users", "runs", "compartment", "secrets", "repositories", "tag_namespaces"]
)
def test_a_name_cannot_break_out_of_its_statement(field: str, evil: str) -> None:
    whole: dict[str, Any] = {"compartment_id": HERE, "bucket": "b"}
    value = (evil,) if field in ("secrets", "repositories", "tag_namespaces") else evil
    with pytest.raises(MusterError, match="cannot be the"):
        Needs(**{**whole, field: value})


@pytest.mark.parametrize("field", ["compartment_id", "users", "runs"])
def test_a_name_that_a_statement_needs_cannot_be_empty(field: str) -> None:
    whole: dict[str, Any] = {"compartment_id": HERE, field: ""}
    with pytest.raises(MusterError, match="'' cannot be the"):
        Needs(**whole)


def test_json_there_and_back() -> None:
    for needs in jobs("dask"):
        for wide in (False, True):
            made = policy(needs, wide)
            assert Policy.from_json(json.loads(json.dumps(made.to_json()))) == made
