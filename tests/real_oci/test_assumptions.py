"""What Muster, or the rehearsal, takes Oracle's services to do, where their documentation leaves it open.

Each test says what hangs on it. One that fails on a real account tells what the rehearsal must be changed to.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable

import pytest

from muster.clouds.oci_services import Services
from muster.errors import CloudError
from tests.harness import eventually
from tests.real_oci.account import Account, Made, patient

pytestmark = pytest.mark.timeout(7200)


def refused(ask: Callable[[], object]) -> tuple[int | None, str]:
    with pytest.raises(CloudError) as refusal:
        ask()
    return refusal.value.status, refusal.value.code or ""


# --- object storage -----------------------------------------------------------------------------------------


def test_an_upload_that_was_committed_is_not_known_any_more(account: Account) -> None:
    """A commit whose reply was lost is asked again; whoever asks must know this answer from a real failure."""
    services, (namespace, bucket) = account.services(), account.bucket
    name = f"muster-test/{uuid.uuid4().hex}"

    def ask(operation: str, *values: object) -> object:
        return services.call("object_storage", operation, namespace, bucket, *values)

    upload = services.call("object_storage", "create_multipart_upload", namespace, bucket, {"object": name}).data
    part = services.call(
        "object_storage", "upload_part", namespace, bucket, name, upload["uploadId"], 1, b"part"
    ).headers["etag"]
    commit = (name, upload["uploadId"], {"partsToCommit": [{"partNum": 1, "etag": part}]})
    try:
        ask("commit_multipart_upload", *commit)
        status, _ = refused(lambda: ask("commit_multipart_upload", *commit))
        assert status == 404
    finally:
        ask("delete_object", name)


def test_a_condition_on_an_object_that_is_not_there_is_412(account: Account) -> None:
    """A 404 would read as a missing bucket, or a missing policy."""
    services, (namespace, bucket) = account.services(), account.bucket
    name = f"muster-test/{uuid.uuid4().hex}"
    put = ("object_storage", "put_object", namespace, bucket, name, b"new")
    status, _ = refused(lambda: services.call(*put, if_match="0123"))
    assert status == 412


# --- job runs -----------------------------------------------------------------------------------------------


def test_a_runs_environment_is_laid_over_the_jobs(made: Made) -> None:
    """Muster sends the whole environment with each run, so that either would do; ADS counts on this."""
    job = made.job('test "$FROM_JOB $FROM_RUN" = "1 2"', environmentVariables={"FROM_JOB": "1"})
    assert made.end_of(made.run(job, environmentVariables={"FROM_RUN": "2"})) == "SUCCEEDED"


def test_a_run_that_exceeds_its_maximum_runtime_is_canceled(made: Made) -> None:
    """Any final state would do for a sweep; what the user is told hangs on which it is."""
    job = made.job("sleep 3600", maximumRuntimeInMinutes=1)
    assert made.end_of(made.run(job)) == "CANCELED"


def test_a_retry_token_gives_the_same_job_and_no_other(made: Made) -> None:
    """Of one intent there is at most one job, whatever replies are lost."""
    payload = made.payload("true")
    first = made.keep(made.ask("create_job", payload, opc_retry_token=made.name))
    assert made.ask("create_job", payload, opc_retry_token=made.name)["id"] == first
    other = {**payload, "description": "another"}
    assert refused(lambda: made.ask("create_job", other, opc_retry_token=made.name))[0] == 409


def test_a_job_with_a_run_in_progress_is_not_deleted(made: Made) -> None:
    """So the empty job is deleted by the launcher or the sweep, and never by main, whose own run is in progress."""
    job = made.job("sleep 3600")
    run = made.run(job)
    made.wait(lambda: made.state(run) == "IN_PROGRESS")
    assert refused(lambda: made.ask("delete_job", job))[0] == 409


# --- permissions --------------------------------------------------------------------------------------------

PERMISSIONS: dict[str, Callable[[Services, Account], object]] = {
    "DATA_SCIENCE_JOB_INSPECT": lambda services, there: services.call(
        "data_science", "list_jobs", there.target.options["compartment_id"], limit=1
    ),
    "DATA_SCIENCE_JOB_RUN_INSPECT": lambda services, there: services.call(
        "data_science", "list_job_runs", there.target.options["compartment_id"], limit=1
    ),
    "DATA_SCIENCE_PROJECT_READ": lambda services, there: services.call(
        "data_science", "get_project", there.target.options["project_id"]
    ),
    "SUBNET_READ": lambda services, there: services.call("network", "get_subnet", there.target.options["subnet_id"]),
    "OBJECT_INSPECT": lambda services, there: services.call("object_storage", "list_objects", *there.bucket, limit=1),
}
"""Each with a call that changes nothing and asks for it alone."""


@pytest.mark.parametrize("permission", PERMISSIONS)
def test_a_permission_is_called_so_and_is_all_that_its_call_needs(account: Account, permission: str) -> None:
    """The policies that `muster policy` prints are measured by these names."""
    member, group = (os.environ.get(f"MUSTER_TEST_OCI_{name}") for name in ("MEMBER", "GROUP"))
    if not member or not group:
        pytest.skip("MUSTER_TEST_OCI_MEMBER and MUSTER_TEST_OCI_GROUP are not set: see tests/real_oci/__init__.py")
    admin, user = account.services(), account.services(member)
    compartment = account.target.options["compartment_id"]
    statement = (
        f"Allow group {group} to manage all-resources in compartment id {compartment} "
        f"where request.permission = '{permission}'"
    )
    assert refused(lambda: PERMISSIONS[permission](user, account))[0] == 404
    said = {"compartmentId": compartment, "name": f"muster-test-{uuid.uuid4().hex[:8]}", "statements": [statement]}
    token = uuid.uuid4().hex
    policy = admin.call("identity", "create_policy", {**said, "description": "a test"}, opc_retry_token=token).data
    try:
        patient(eventually)(lambda: _may(lambda: PERMISSIONS[permission](user, account)), 30.0)
    finally:
        admin.call("identity", "delete_policy", policy["id"])


def _may(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except CloudError:
        return False
    return True
