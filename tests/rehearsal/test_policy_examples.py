"""The evaluator against the examples and tables of Oracle's policy reference: what each allows, and what it does not.

The facts are the reference's (common policies, details for Object Storage, the core services, Logging, the registry,
Vault, Certificates, IAM, Data Science, advanced features); the names in the statements are ours.
"""

from __future__ import annotations

import pytest

from muster.rehearsal.identity import Principal
from muster.rehearsal.permits import Wish
from muster.rehearsal.policy_evaluation import Policies
from muster.rehearsal.policy_places import Compartments
from muster.rehearsal.principals import TENANCY

pytestmark = pytest.mark.unit

HERE, BELOW, ELSEWHERE = (f"ocid1.compartment.oc1..{name}" for name in ("here", "below", "elsewhere"))
RULES = {
    "Runs": f"all {{resource.type = 'datasciencejobrun', resource.compartment.id = '{HERE}'}}",
    "Notebooks": f"ALL {{resource.type='datasciencenotebooksession', resource.compartment.id='{HERE}'}}",
    "Machines": f"any {{instance.compartment.id = '{HERE}', instance.id = 'ocid1.instance.oc1..one'}}",
    "Most": f"all {{instance.compartment.id = '{HERE}', instance.id != 'ocid1.instance.oc1..one'}}",
    "Tagged": "tag.department.operations.value = '45'",
}


def resource(kind: str, compartment: str = HERE) -> Principal:
    claims = {"res_type": kind, "res_id": f"ocid1.{kind}.oc1..r", "res_compartment": compartment}
    return Principal(claims["res_id"], TENANCY, "resource", claims)


def instance(name: str, compartment: str = HERE, **tags: str) -> Principal:
    claims = {"res_compartment": compartment, "tags": {name.replace("__", "."): value for name, value in tags.items()}}
    return Principal(f"ocid1.instance.oc1..{name}", TENANCY, "instance", claims)


ANN = Principal("ocid1.user.oc1..ann", TENANCY, "user", {"groups": ["A-Team", "ocid1.group.oc1..a"]})
BOB = Principal("ocid1.user.oc1..bob", TENANCY, "user", {"groups": ["Auditors"]})
NOBODY = Principal("ocid1.user.oc1..nobody", TENANCY)
SERVICE = Principal("datascience", TENANCY, "service")


def ask(permission: str, compartment: str = HERE, **about: str) -> Wish:
    """`bucket_name="x"` stands for `target.bucket.name`, `r_operation` for `request.operation`."""
    named = {
        f"request.{name[2:]}" if name.startswith("r_") else f"target.{name.replace('__', '-').replace('_', '.')}": value
        for name, value in about.items()
    }
    return Wish(permission, compartment, named)


Case = tuple[str, list[tuple[Principal, Wish]], list[tuple[Principal, Wish]]]
CASES: list[Case] = [
    # Verbs and families
    (
        "Allow group Auditors to inspect all-resources in tenancy",
        [(BOB, ask("VCN_READ", ELSEWHERE)), (BOB, ask("BUCKET_INSPECT")), (BOB, ask("POLICY_READ", TENANCY))],
        [(BOB, ask("BUCKET_READ")), (BOB, ask("NAT_GATEWAY_READ")), (ANN, ask("VCN_READ"))],
    ),
    (
        "Allow group A-Team to read buckets in compartment Here",
        [(ANN, ask("BUCKET_INSPECT")), (ANN, ask("BUCKET_READ")), (ANN, ask("BUCKET_READ", BELOW))],
        [(ANN, ask("BUCKET_UPDATE")), (ANN, ask("OBJECT_READ")), (ANN, ask("BUCKET_READ", ELSEWHERE))],
    ),
    (
        # Overwriting is `use`; creating is `manage`.
        "Allow group A-Team to use objects in compartment Here",
        [(ANN, ask("OBJECT_OVERWRITE")), (ANN, ask("OBJECT_READ"))],
        [(ANN, ask("OBJECT_CREATE")), (ANN, ask("OBJECT_DELETE"))],
    ),
    (
        "Allow group A-Team to manage object-family in compartment Here",
        [(ANN, ask("OBJECT_CREATE")), (ANN, ask("BUCKET_DELETE")), (ANN, ask("OBJECT_VERSION_DELETE"))],
        [(ANN, ask("LOG_GROUP_READ")), (BOB, ask("OBJECT_READ"))],
    ),
    (
        "Allow group A-Team to read object-family in compartment Here",
        [(ANN, ask("OBJECT_READ")), (ANN, ask("BUCKET_READ"))],
        # With `objectstorage-namespaces`, even reading takes `manage`.
        [(ANN, ask("OBJECTSTORAGE_NAMESPACE_READ")), (ANN, ask("OBJECT_OVERWRITE"))],
    ),
    (
        "Allow group A-Team to use virtual-network-family in compartment Here",
        [(ANN, ask("SUBNET_ATTACH")), (ANN, ask("VNIC_CREATE")), (ANN, ask("NETWORK_SECURITY_GROUP_UPDATE_MEMBERS"))],
        [(ANN, ask("SUBNET_CREATE")), (ANN, ask("SECURITY_LIST_UPDATE")), (ANN, ask("VCN_UPDATE"))],
    ),
    (
        # Networking's lists show everything: there is nothing more to read.
        "Allow group A-Team to inspect security-lists in compartment Here",
        [(ANN, ask("SECURITY_LIST_READ"))],
        [(ANN, ask("SECURITY_LIST_UPDATE")), (ANN, ask("SUBNET_READ"))],
    ),
    (
        "Allow group A-Team to inspect network-security-groups in compartment Here",
        [(ANN, ask("NETWORK_SECURITY_GROUP_INSPECT"))],
        [(ANN, ask("NETWORK_SECURITY_GROUP_READ")), (ANN, ask("NETWORK_SECURITY_GROUP_LIST_SECURITY_RULES"))],
    ),
    (
        "Allow group A-Team to read log-groups in compartment Here",
        [(ANN, ask("LOG_GROUP_INSPECT")), (ANN, ask("LOG_GROUP_READ"))],
        [(ANN, ask("LOG_GROUP_UPDATE")), (ANN, ask("LOG_CONTENT_READ"))],
    ),
    (
        "Allow dynamic-group Runs to use log-content in tenancy",
        [
            (resource("datasciencejobrun"), ask("LOG_CONTENT_PUSH")),
            (resource("datasciencejobrun"), ask("LOG_CONTENT_READ")),
        ],
        [(resource("datasciencejobrun", ELSEWHERE), ask("LOG_CONTENT_PUSH")), (ANN, ask("LOG_CONTENT_PUSH"))],
    ),
    (
        # `use` adds nothing to `read` here: pushing an image takes `manage`.
        "Allow group A-Team to use repos in tenancy",
        [(ANN, ask("REPOSITORY_READ"))],
        [(ANN, ask("REPOSITORY_UPDATE")), (ANN, ask("REPOSITORY_CREATE"))],
    ),
    (
        "Allow group A-Team to manage repos in tenancy where ALL {target.repo.name = /acme-*/}",
        [(ANN, ask("REPOSITORY_UPDATE", repo_name="acme-web")), (ANN, ask("REPOSITORY_DELETE", repo_name="ACME-db"))],
        [(ANN, ask("REPOSITORY_UPDATE", repo_name="other")), (ANN, ask("REPOSITORY_INSPECT"))],
    ),
    (
        "Allow group A-Team to use keys in compartment Here where target.key.id = 'ocid1.key.oc1..k'",
        [(ANN, ask("KEY_ENCRYPT", key_id="ocid1.key.oc1..k"))],
        [(ANN, ask("KEY_ENCRYPT", key_id="ocid1.key.oc1..z")), (ANN, ask("KEY_ROTATE", key_id="ocid1.key.oc1..k"))],
    ),
    (
        "Allow dynamic-group Runs to read secret-family in compartment Here where target.secret.name = 'token'",
        [(resource("datasciencejobrun"), ask("SECRET_BUNDLE_READ", secret_name="token"))],
        [
            (resource("datasciencejobrun"), ask("SECRET_BUNDLE_READ", secret_name="other")),
            (resource("datasciencejobrun"), ask("SECRET_UPDATE", secret_name="token")),
            (resource("datasciencejobrun"), ask("VAULT_READ", secret_name="token")),
        ],
    ),
    (
        "Allow group A-Team to read leaf-certificate-family in compartment Here "
        "where target.leaf-certificate.bundle-type = 'CERTIFICATE_CONTENT_WITH_PRIVATE_KEY'",
        [
            (
                ANN,
                Wish(
                    "CERTIFICATE_BUNDLE_READ",
                    HERE,
                    {"target.leaf-certificate.bundle-type": "CERTIFICATE_CONTENT_WITH_PRIVATE_KEY"},
                ),
            )
        ],
        [(ANN, ask("CERTIFICATE_BUNDLE_READ")), (ANN, ask("CERTIFICATE_AUTHORITY_BUNDLE_READ"))],
    ),
    (
        "Allow group A-Team to read metrics in tenancy where target.compartment.name != 'Elsewhere'",
        [(ANN, ask("METRIC_READ"))],
        [(ANN, ask("METRIC_READ", ELSEWHERE)), (ANN, ask("METRIC_WRITE"))],
    ),
    # Permissions and operations
    (
        "Allow group A-Team to manage objects in compartment Here "
        "where all {target.bucket.name = 'in', any {request.permission = 'OBJECT_CREATE', "
        "request.permission = 'OBJECT_INSPECT'}}",
        [(ANN, ask("OBJECT_CREATE", bucket_name="in")), (ANN, ask("OBJECT_INSPECT", bucket_name="In"))],
        [(ANN, ask("OBJECT_READ", bucket_name="in")), (ANN, ask("OBJECT_CREATE", bucket_name="out"))],
    ),
    (
        "Allow group A-Team to manage groups in tenancy where request.permission != 'GROUP_DELETE'",
        [(ANN, ask("GROUP_CREATE", TENANCY)), (ANN, ask("GROUP_UPDATE", TENANCY))],
        [(ANN, ask("GROUP_DELETE", TENANCY))],
    ),
    (
        "Allow group A-Team to {SUBNET_READ, SUBNET_ATTACH, VNIC_CREATE} in compartment Here",
        [(ANN, ask("SUBNET_ATTACH")), (ANN, ask("VNIC_CREATE"))],
        [(ANN, ask("SUBNET_DETACH")), (ANN, ask("VCN_READ"))],
    ),
    (
        "Allow group A-Team to manage objects in compartment Here where request.operation = 'ListObjects'",
        [(ANN, ask("OBJECT_INSPECT", r_operation="ListObjects"))],
        [(ANN, ask("OBJECT_INSPECT", r_operation="HeadObject")), (ANN, ask("OBJECT_INSPECT"))],
    ),
    (
        # A variable that the request has not makes the condition fail, `!=` included.
        "Allow group A-Team to use users in tenancy where target.group.name != 'Administrators'",
        [(ANN, ask("USER_UPDATE", TENANCY, group_name="Auditors"))],
        [(ANN, ask("USER_INSPECT", TENANCY)), (ANN, ask("USER_UPDATE", TENANCY, group_name="administrators"))],
    ),
    (
        "Allow group A-Team to manage groups in tenancy where target.group.name = /A-*/",
        [(ANN, ask("GROUP_UPDATE", TENANCY, group_name="a-users"))],
        [(ANN, ask("GROUP_UPDATE", TENANCY, group_name="B-Users")), (ANN, ask("GROUP_INSPECT", TENANCY))],
    ),
    # Subjects
    (
        "Allow any-user to inspect compartments in tenancy",
        [(NOBODY, ask("COMPARTMENT_INSPECT", TENANCY)), (resource("fnfunc"), ask("COMPARTMENT_INSPECT"))],
        [(NOBODY, ask("COMPARTMENT_UPDATE")), (SERVICE, ask("COMPARTMENT_INSPECT"))],
    ),
    (
        "Allow any-group to inspect tenancies in tenancy",
        [(ANN, ask("TENANCY_INSPECT", TENANCY))],
        [(NOBODY, ask("TENANCY_INSPECT", TENANCY)), (resource("fnfunc"), ask("TENANCY_INSPECT", TENANCY))],
    ),
    (
        "Allow group id ocid1.group.oc1..a to manage buckets in compartment Here",
        [(ANN, ask("BUCKET_CREATE"))],
        [(BOB, ask("BUCKET_CREATE"))],
    ),
    (
        "Allow group Auditors, A-Team to read buckets in compartment Here",
        [(ANN, ask("BUCKET_READ")), (BOB, ask("BUCKET_READ"))],
        [(NOBODY, ask("BUCKET_READ"))],
    ),
    (
        "Allow service datascience to use virtual-network-family in tenancy",
        [(SERVICE, ask("VNIC_CREATE")), (SERVICE, ask("SUBNET_ATTACH", ELSEWHERE))],
        [(SERVICE, ask("SUBNET_CREATE")), (ANN, ask("VNIC_CREATE"))],
    ),
    (
        "Allow any-user to use log-content in compartment Here where request.principal.type = 'datascienceschedule'",
        [(resource("datascienceschedule"), ask("LOG_CONTENT_PUSH"))],
        [(resource("datasciencejobrun"), ask("LOG_CONTENT_PUSH")), (ANN, ask("LOG_CONTENT_PUSH"))],
    ),
    (
        "Allow any-user to read repos in tenancy "
        "where all {request.principal.type = 'fnfunc', request.principal.compartment.id = target.compartment.id}",
        [(resource("fnfunc"), ask("REPOSITORY_READ"))],
        [(resource("fnfunc", ELSEWHERE), ask("REPOSITORY_READ"))],
    ),
    (
        "Allow dynamic-group Machines to read objects in compartment Here",
        [(instance("two"), ask("OBJECT_READ")), (instance("one", ELSEWHERE), ask("OBJECT_READ"))],
        [(instance("two", ELSEWHERE), ask("OBJECT_READ")), (resource("datasciencejobrun"), ask("OBJECT_READ"))],
    ),
    (
        "Allow dynamic-group Most to read objects in compartment Here",
        [(instance("two"), ask("OBJECT_READ"))],
        [(instance("one"), ask("OBJECT_READ"))],
    ),
    (
        "Allow dynamic-group Tagged to manage metrics in compartment Here",
        [(instance("two", department__operations="45"), ask("METRIC_WRITE"))],
        [(instance("two", department__operations="46"), ask("METRIC_WRITE")), (instance("two"), ask("METRIC_WRITE"))],
    ),
    # Data Science
    (
        "Allow group A-Team to manage data-science-family in compartment Here",
        [(ANN, ask("DATA_SCIENCE_JOB_CREATE")), (ANN, ask("DATA_SCIENCE_NOTEBOOK_SESSION_DELETE"))],
        [(ANN, ask("OBJECT_READ")), (ANN, ask("DATA_SCIENCE_JOB_CREATE", ELSEWHERE))],
    ),
    (
        # Cancelling is an update; starting another run is not.
        "Allow dynamic-group Runs to use data-science-job-runs in compartment Here",
        [(resource("datasciencejobrun"), ask("DATA_SCIENCE_JOB_RUN_UPDATE"))],
        [
            (resource("datasciencejobrun"), ask("DATA_SCIENCE_JOB_RUN_CREATE")),
            (resource("fnfunc"), ask("DATA_SCIENCE_JOB_RUN_READ")),
        ],
    ),
    (
        "Allow dynamic-group Notebooks to {DATA_SCIENCE_PROJECT_READ, DATA_SCIENCE_JOB_READ, "
        "DATA_SCIENCE_JOB_RUN_CREATE} in compartment Here",
        [(resource("datasciencenotebooksession"), ask("DATA_SCIENCE_JOB_RUN_CREATE"))],
        [
            (resource("datasciencenotebooksession"), ask("DATA_SCIENCE_JOB_CREATE")),
            (resource("datasciencejobrun"), ask("DATA_SCIENCE_JOB_READ")),
        ],
    ),
    # Places
    (
        "Allow group A-Team to manage policies in compartment Here:Below",
        [(ANN, ask("POLICY_CREATE", BELOW))],
        [(ANN, ask("POLICY_CREATE", HERE)), (ANN, ask("POLICY_CREATE", TENANCY))],
    ),
    (
        f"Allow group A-Team to read vaults in compartment id {HERE}",
        [(ANN, ask("VAULT_READ")), (ANN, ask("VAULT_READ", BELOW))],
        [(ANN, ask("VAULT_READ", ELSEWHERE)), (ANN, ask("VAULT_READ", "ocid1.compartment.oc1..unknown"))],
    ),
    (
        f"Allow group A-Team to read resource-availability in tenancy where target.compartment.id != '{ELSEWHERE}'",
        [(ANN, ask("RESOURCE_AVAILABILITY_READ"))],
        [(ANN, ask("RESOURCE_AVAILABILITY_READ", ELSEWHERE)), (ANN, ask("LIMITS_INSPECT"))],
    ),
]


@pytest.fixture(scope="module")
def places() -> Compartments:
    made = Compartments()
    made.add(HERE, "Here")
    made.add(BELOW, "Below", HERE)
    made.add(ELSEWHERE, "Elsewhere")
    return made


def test_there_are_enough_of_them() -> None:
    assert len({statement for statement, _, _ in CASES}) >= 25


@pytest.mark.parametrize(("statement", "allowed", "refused"), CASES, ids=[case[0][6:70] for case in CASES])
def test_a_statement_of_the_reference(
    places: Compartments,
    statement: str,
    allowed: list[tuple[Principal, Wish]],
    refused: list[tuple[Principal, Wish]],
) -> None:
    policies = Policies(places)
    for name, rule in RULES.items():
        policies.add_dynamic_group(name, rule)
    for principal, wish in allowed:
        assert not policies.permits(principal, wish), f"{wish} is allowed without it"
    policies.attach(TENANCY, [statement])
    for principal, wish in allowed:
        assert policies.permits(principal, wish), f"{wish} is refused to {principal.id}"
    for principal, wish in refused:
        assert not policies.permits(principal, wish), f"{wish} is allowed to {principal.id}"
