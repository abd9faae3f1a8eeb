"""Jobs and runs of the rehearsed Data Science service, by the real SDK: what it takes, answers, lists and refuses."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from muster.clouds import oci as clouds
from muster.clouds.oci_services import Services
from muster.rehearsal.principals import COMPARTMENT
from tests.harness import eventually
from tests.rehearsal.data_science_world import (
    IMAGE,
    PROJECT,
    SHAPE,
    SUBNET,
    World,
    configuration,
    infrastructure,
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        made = World(tmp_path_factory.mktemp("science"), patch)
        yield made
        made.close()


@pytest.fixture
def world(shared: World) -> Iterator[World]:
    yield shared
    shared.denied.deny()
    shared.science.clear()
    shared.steering.clear()
    shared.clock.ahead = 0.0
    for name in ("created", "accepted", "deleted"):
        shared.science.delay(name, 0.0)


def test_a_job_as_the_plain_client_makes_and_reads_it(world: World) -> None:
    import oci

    models = oci.data_science.models
    client = oci.data_science.DataScienceClient(
        oci.config.from_file(str(world.user.config_file)), service_endpoint=world.server.endpoint
    )
    made = client.create_job(
        models.CreateJobDetails(
            project_id=PROJECT,
            compartment_id=COMPARTMENT,
            display_name="training",
            job_configuration_details=models.DefaultJobConfigurationDetails(environment_variables={"MODE": "MAIN"}),
            job_infrastructure_configuration_details=models.StandaloneJobInfrastructureConfigurationDetails(
                shape_name=SHAPE,
                subnet_id=SUBNET,
                block_storage_size_in_gbs=100,
                job_shape_config_details=models.JobShapeConfigDetails(ocpus=2.0, memory_in_gbs=32.0),
            ),
            job_environment_configuration_details=models.OcirContainerJobEnvironmentConfigurationDetails(
                image=IMAGE, cmd=["true"]
            ),
            freeform_tags={"run": "r-1"},
        )
    ).data
    assert made.lifecycle_state == "CREATING"
    found = client.get_job(made.id).data
    assert (found.lifecycle_state, found.created_by, found.freeform_tags) == ("ACTIVE", world.user.id, {"run": "r-1"})
    assert found.job_infrastructure_configuration_details.job_shape_config_details.ocpus == 2.0
    assert found.job_environment_configuration_details.cmd == ["true"]
    details = models.CreateJobRunDetails(project_id=PROJECT, compartment_id=COMPARTMENT, job_id=made.id)
    run = client.create_job_run(details).data
    assert run.job_infrastructure_configuration_details.shape_name == SHAPE
    got = oci.wait_until(client, client.get_job_run(run.id), "lifecycle_state", "SUCCEEDED", max_interval_seconds=1)
    assert got.data.time_accepted <= got.data.time_started <= got.data.time_finished
    assert [each.id for each in client.list_job_runs(COMPARTMENT, job_id=made.id).data] == [run.id]
    client.delete_job(made.id, delete_related_job_runs=True)
    assert client.get_job(made.id).data.lifecycle_state == "DELETED"
    assert client.get_job_run(run.id).data.lifecycle_state == "DELETED"
    client.base_client.session.close()


def test_a_job_goes_through_its_states(world: World) -> None:
    world.science.delay("created", float("inf"))
    held = world.job("true")
    assert world("get_job", held)["lifecycleState"] == "CREATING"
    assert world.refused("create_job_run", world.run_details(held)) == (409, "IncorrectState")
    world.science.delay("created", 0)
    job = world.job("true")
    world.science.delay("deleted", 3600)
    world("delete_job", job)
    assert world("get_job", job)["lifecycleState"] == "DELETING"
    assert world.refused("delete_job", job) == (409, "IncorrectState")
    assert world.refused("create_job_run", world.run_details(job)) == (409, "IncorrectState")


def test_what_is_deleted_is_forgotten_in_time(world: World) -> None:
    world.science.delay("forgotten", 0)
    job = world.job("true")
    world("delete_job", job)
    assert world.refused("get_job", job) == (404, "NotAuthorizedOrNotFound")
    world.science.delay("forgotten", 3600)
    assert job not in [row["id"] for row in world("list_jobs", COMPARTMENT)]


def test_a_job_is_changed(world: World) -> None:
    job = world.job("true", freeformTags={"a": "1"})
    etag = world.services.call("data_science", "get_job", job).headers["etag"]
    world("update_job", job, {"displayName": "other", "freeformTags": {"b": "2"}}, if_match=etag)
    found = world("get_job", job)
    assert (found["displayName"], found["freeformTags"]) == ("other", {"b": "2"})
    assert world.refused("update_job", job, {"displayName": "late"}, if_match=etag) == (412, "NoEtagMatch")
    assert world.refused("update_job", job, {"projectId": PROJECT}) == (400, "InvalidParameter")


BAD: dict[str, dict[str, Any]] = {
    "a field that is not known": {"displayname": "x"},
    "no project": {"projectId": None},
    "no infrastructure": {"jobInfrastructureConfigurationDetails": None},
    "a nested field that is not known": {"jobConfigurationDetails": configuration(environment={})},
    "a type that is not known": {"jobConfigurationDetails": {"jobType": "SPECIAL"}},
    "no image": {"jobEnvironmentConfigurationDetails": {"jobEnvironmentType": "OCIR_CONTAINER"}},
    "a command that is a text": {
        "jobEnvironmentConfigurationDetails": {"jobEnvironmentType": "OCIR_CONTAINER", "image": IMAGE, "cmd": "true"}
    },
    "too much environment": {
        "jobConfigurationDetails": configuration(environmentVariables={"A": "x" * 10_000, "B": "y" * 9_999})
    },
    "a variable that is a number": {"jobConfigurationDetails": configuration(environmentVariables={"A": 1})},
    "too many arguments": {"jobConfigurationDetails": configuration(commandLineArguments="x" * 4_001)},
    "no time to run": {"jobConfigurationDetails": configuration(maximumRuntimeInMinutes=0)},
    "an unknown shape": {"jobInfrastructureConfigurationDetails": infrastructure(shapeName="VM.Giant")},
    "a small disk": {"jobInfrastructureConfigurationDetails": infrastructure(blockStorageSizeInGBs=49)},
    "a large disk": {"jobInfrastructureConfigurationDetails": infrastructure(blockStorageSizeInGBs=10_241)},
    "no disk": {"jobInfrastructureConfigurationDetails": infrastructure(blockStorageSizeInGBs=None)},
    "a subnet without one's own network": {"jobInfrastructureConfigurationDetails": infrastructure(subnetId=SUBNET)},
    "no subnet for one's own network": {
        "jobInfrastructureConfigurationDetails": infrastructure(jobInfrastructureType="STANDALONE")
    },
    "cores of a shape that has its own": {
        "jobInfrastructureConfigurationDetails": infrastructure(shapeName="VM.GPU3.1")
    },
    "more cores than there are": {
        "jobInfrastructureConfigurationDetails": infrastructure(jobShapeConfigDetails={"ocpus": 65})
    },
    "logs without a group": {"jobLogConfigurationDetails": {"enableLogging": True}},
    "logs without a log": {"jobLogConfigurationDetails": {"enableLogging": True, "logGroupId": "g"}},
    "a mount without a bucket": {
        "jobStorageMountConfigurationDetailsList": [{"storageType": "OBJECT_STORAGE", "namespace": "n"}]
    },
}


@pytest.mark.parametrize("case", BAD)
def test_a_job_that_the_service_does_not_take(world: World, case: str) -> None:
    before = len(world("list_jobs", COMPARTMENT))
    assert world.refused("create_job", world.job_details("true", **BAD[case])) == (400, "InvalidParameter")
    assert len(world("list_jobs", COMPARTMENT)) == before


def test_the_limits_are_met_exactly(world: World) -> None:
    full = configuration(environmentVariables={"A": "x" * 9_999, "B": "y" * 9_999}, commandLineArguments="z" * 4_000)
    job = world.job("true", jobConfigurationDetails=full)
    more = {"jobConfigurationOverrideDetails": configuration(environmentVariables={"C": ""})}
    assert world.refused("create_job_run", world.run_details(job, **more)) == (400, "InvalidParameter")
    same = {"jobConfigurationOverrideDetails": configuration(environmentVariables={"A": "short"})}
    assert world.ended(world.run(job, **same))["lifecycleState"] == "SUCCEEDED"


@pytest.mark.parametrize(
    "details",
    [
        {"projectId": "ocid1.datascienceproject.oc1.iad.none"},
        {
            "jobInfrastructureConfigurationDetails": infrastructure(
                jobInfrastructureType="STANDALONE", subnetId="ocid1.subnet.oc1.iad.none"
            )
        },
        {"jobLogConfigurationDetails": {"enableLogging": True, "logGroupId": "none", "logId": "none"}},
    ],
    ids=["project", "subnet", "log group"],
)
def test_what_a_job_names_must_be_there(world: World, details: dict[str, Any]) -> None:
    assert world.refused("create_job", world.job_details("true", **details)) == (404, "NotAuthorizedOrNotFound")


def test_what_is_not_there(world: World) -> None:
    nothing = (404, "NotAuthorizedOrNotFound")
    assert world.refused("get_job", "ocid1.datasciencejob.oc1..none") == nothing
    assert world.refused("get_job_run", "ocid1.datasciencejobrun.oc1..none") == nothing
    assert world.refused("create_job_run", world.run_details("ocid1.datasciencejob.oc1..none")) == nothing
    assert world.refused("get_project", "ocid1.datascienceproject.oc1..none") == nothing
    assert world("get_project", PROJECT)["compartmentId"] == COMPARTMENT


def test_shapes_that_are_offered(world: World) -> None:
    shapes = {shape["name"]: shape for shape in world.services.pages("data_science", "list_job_shapes", COMPARTMENT)}
    assert shapes[SHAPE] == {"name": SHAPE, "coreCount": 64, "memoryInGBs": 1024, "shapeSeries": "AMD_ROME"}
    few = world.services.pages("data_science", "list_job_shapes", COMPARTMENT, limit=3)
    assert {shape["name"] for shape in few} == set(shapes)


def test_artifacts(world: World) -> None:
    import io

    job = world.job(jobEnvironmentConfigurationDetails=None)
    assert world.refused("head_job_artifact", job)[0] == 404
    assert world.ended(world.run(job))["lifecycleState"] == "FAILED"
    script = b"import os, sys; sys.exit(0 if os.environ['JOB_ARTIFACT_FILE_NAME'] == 'train.py' else 1)"
    name = "attachment; filename=train.py"
    world("create_job_artifact", job, io.BytesIO(script), content_disposition=name)
    head = world.services.call("data_science", "head_job_artifact", job).headers
    assert head["content-length"] == str(len(script))
    assert "train.py" in head["content-disposition"]
    assert world("get_job_artifact_content", job).content == script
    assert world.refused("create_job_artifact", job, io.BytesIO(b"x"))[0] == 409
    assert world.ended(world.run(job))["lifecycleState"] == "SUCCEEDED"


def test_lists_page_by_page_and_by_what_is_asked(world: World) -> None:
    name = "listed"
    jobs = [world.job("true", displayName=name, freeformTags={"n": str(n)}) for n in range(5)]
    world("delete_job", jobs[0])
    asked = {"display_name": name, "limit": 2}
    reply = world.services.call("data_science", "list_jobs", COMPARTMENT, **asked)
    assert len(reply.data) == 2
    assert reply.next_page
    found = list(world.services.pages("data_science", "list_jobs", COMPARTMENT, **asked))
    assert [row["id"] for row in found] == jobs[::-1]
    assert [row["freeformTags"]["n"] for row in found] == ["4", "3", "2", "1", "0"]
    active = world("list_jobs", COMPARTMENT, display_name=name, lifecycle_state="ACTIVE", sort_order="ASC")
    assert [row["id"] for row in active] == jobs[1:]
    assert world("list_jobs", COMPARTMENT, display_name=name, project_id="another") == []
    assert world("list_jobs", "ocid1.compartment.oc1..another") == []
    assert world.refused("list_jobs", COMPARTMENT, limit=101) == (400, "InvalidParameter")
    assert world.refused("list_jobs", COMPARTMENT, page="bm9uZQ==") == (400, "InvalidParameter")


def test_lists_of_runs(world: World) -> None:
    world.science.delay("accepted", float("inf"))
    job, other = world.job("true"), world.job("true")
    runs = [world.run(job, displayName=f"node-{n}") for n in range(3)]
    world.run(other)
    found = world.services.pages("data_science", "list_job_runs", COMPARTMENT, job_id=job, limit=1)
    assert [row["id"] for row in found] == runs[::-1]
    named = world("list_job_runs", COMPARTMENT, job_id=job, display_name="node-1")
    assert [(row["id"], row["lifecycleState"]) for row in named] == [(runs[1], "ACCEPTED")]
    world.science.delay("accepted", 0)
    for run in runs:
        world.science.wait(run)
    assert world("list_job_runs", COMPARTMENT, job_id=job, lifecycle_state="ACCEPTED") == []
    assert len(world("list_job_runs", COMPARTMENT, job_id=job, lifecycle_state="SUCCEEDED")) == 3


# --- retries, quota, throttling, faults -------------------------------------------------------------------


def test_a_retry_token_makes_one_job_and_one_run(world: World) -> None:
    details = world.job_details("true")
    job = world("create_job", details, opc_retry_token="token-1")["id"]
    assert world("create_job", details, opc_retry_token="token-1")["id"] == job
    assert world("create_job", details, opc_retry_token="token-2")["id"] != job
    assert world("create_job", details)["id"] != job
    changed = {**details, "displayName": "another"}
    assert world.refused("create_job", changed, opc_retry_token="token-1") == (409, "InvalidatedRetryToken")
    asked = world.run_details(job)
    run = world("create_job_run", asked, opc_retry_token="token-1")["id"]
    world.science.wait(run)
    again = world("create_job_run", asked, opc_retry_token="token-1")
    assert (again["id"], again["lifecycleState"]) == (run, "SUCCEEDED")
    assert len(world("list_job_runs", COMPARTMENT, job_id=job)) == 1
    assert world.refused("create_job", details, opc_retry_token="x" * 65) == (400, "InvalidParameter")


def test_a_retry_token_ends_after_a_day(world: World) -> None:
    details = world.job_details("true")
    job = world("create_job", details, opc_retry_token="day")["id"]
    world.clock.ahead = 23.9 * 3600
    assert world("create_job", details, opc_retry_token="day")["id"] == job
    world.clock.ahead = 24 * 3600
    assert world("create_job", details, opc_retry_token="day")["id"] != job


def test_a_lost_reply_is_found_again_by_its_token(world: World) -> None:
    job = world.job("true")
    world.steering.lose(kind="create_run")
    patient = Services(clouds.session("api_key"), patience=30)
    details = world.run_details(job)
    run = patient.call("data_science", "create_job_run", details, opc_retry_token="lost").data["id"]
    assert [row["id"] for row in world("list_job_runs", COMPARTMENT, job_id=job)] == [run]


def test_many_ask_with_one_token(world: World) -> None:
    details = world.job_details("true")
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(world, "create_job", details, opc_retry_token="crowd") for _ in range(16)]
        assert len({each.result()["id"] for each in asked}) == 1


def test_a_quota_is_given_back(world: World) -> None:
    world.steering.ask("PUT", "quota", {SHAPE: 2})
    job = world.python("import time; time.sleep(600)")
    first, second = world.run(job), world.run(job)
    assert world.refused("create_job_run", world.run_details(job)) == (400, "LimitExceeded")
    world("cancel_job_run", first)
    world.ended(first)
    third = world.run(job)
    world.steering.ask("PUT", "quota", {})
    for run in (second, third):
        world("cancel_job_run", run)


def test_the_nth_run_is_refused(world: World) -> None:
    job = world.job("true")
    world.steering.ask("POST", "refuse_run", {"number": 3, "status": 404, "code": "NotAuthorizedOrNotFound"})
    world.run(job)
    world.run(job)
    assert world.refused("create_job_run", world.run_details(job)) == (404, "NotAuthorizedOrNotFound")
    world.run(job)
    assert len(world("list_job_runs", COMPARTMENT, job_id=job)) == 3


def test_throttling(world: World) -> None:
    job = world.job("true")
    world.science.throttle(0.5)
    assert world.refused("get_job", job) == (429, "TooManyRequests")
    world.science.throttle(5)
    assert Services(clouds.session("api_key"), patience=30).call("data_science", "get_job", job).data["id"] == job
    world.science.throttle(None)
    assert [world("get_job", job)["id"] for _ in range(20)] == [job] * 20


def test_faults_go_by_the_kind_of_request(world: World) -> None:
    job = world.job("true")
    world.steering.fail(kind="create_run", status=500)
    assert world("get_job", job)["id"] == job
    assert world.refused("create_job_run", world.run_details(job)) == (500, "InternalServerError")
    world.run(job)


# --- who may do what --------------------------------------------------------------------------------------


def operations(world: World) -> dict[str, tuple[Any, ...]]:
    """Each operation, with what it is called with."""
    job = world.job("true")
    run = world.run(job)
    world.science.wait(run)
    return {
        "DATA_SCIENCE_JOB_CREATE": ("create_job", world.job_details("true")),
        "DATA_SCIENCE_JOB_READ": ("get_job", job),
        "DATA_SCIENCE_JOB_INSPECT": ("list_jobs", COMPARTMENT),
        "DATA_SCIENCE_JOB_UPDATE": ("update_job", job, {}),
        "DATA_SCIENCE_JOB_DELETE": ("delete_job", job),
        "DATA_SCIENCE_JOB_RUN_CREATE": ("create_job_run", world.run_details(job)),
        "DATA_SCIENCE_JOB_RUN_READ": ("get_job_run", run),
        "DATA_SCIENCE_JOB_RUN_INSPECT": ("list_job_runs", COMPARTMENT),
        "DATA_SCIENCE_JOB_RUN_UPDATE": ("cancel_job_run", run),
        "DATA_SCIENCE_JOB_RUN_DELETE": ("delete_job_run", run),
        "DATA_SCIENCE_PROJECT_READ": ("get_project", PROJECT),
    }


def test_each_operation_asks_for_its_permission(world: World) -> None:
    for permission, (operation, *values) in operations(world).items():
        world.denied.deny(permission)
        assert world.refused(operation, *values) == (404, "NotAuthorizedOrNotFound"), operation
        assert {wish.compartment for _, wish in world.denied.asked} == {COMPARTMENT}


def test_deleting_the_runs_with_their_job_asks_for_that_too(world: World) -> None:
    job = world.job("true")
    world.science.wait(world.run(job))
    world.denied.deny("DATA_SCIENCE_JOB_RUN_DELETE")
    assert world.refused("delete_job", job, delete_related_job_runs=True)[0] == 404
    assert world("get_job", job)["lifecycleState"] == "ACTIVE"


def test_a_subnet_asks_for_the_network(world: World) -> None:
    inside = infrastructure(jobInfrastructureType="STANDALONE", subnetId=SUBNET)
    details = world.job_details("true", jobInfrastructureConfigurationDetails=inside)
    world.denied.deny("SUBNET_ATTACH", kinds=("user",))
    assert world.refused("create_job", details) == (404, "NotAuthorizedOrNotFound")
    world.denied.deny()
    job = world("create_job", details)["id"]
    world.denied.deny("VNIC_CREATE", kinds=("service",))
    assert world.refused("create_job_run", world.run_details(job)) == (404, "NotAuthorizedOrNotFound")
    world.denied.deny("VNIC_CREATE", kinds=("user",))
    world.run(job)


def test_an_image_is_pulled_by_the_run_itself(world: World) -> None:
    world.denied.deny("REPOSITORY_READ", kinds=("resource",))
    run = world.ended(world.run(world.job("true")))
    assert run["lifecycleState"] == "FAILED"
    assert IMAGE in run["lifecycleDetails"]
    about = [wish.about for _, wish in world.denied.asked if wish.permission == "REPOSITORY_READ"]
    assert about == [{"target.repo.name": "team/train"}]


def test_a_job_cannot_be_deleted_while_a_run_is_in_progress(world: World) -> None:
    job = world.python("import time; time.sleep(600)")
    run = world.run(job)
    world.science.wait(run, "IN_PROGRESS")
    assert world.refused("delete_job", job) == (409, "IncorrectState")
    assert world.refused("delete_job_run", run) == (409, "IncorrectState")
    world("delete_job", job, delete_related_job_runs=True)
    assert world("get_job", job)["lifecycleState"] == "DELETED"
    assert eventually(lambda: world.state(run) == "DELETED")


def test_a_run_is_renamed_and_deleted(world: World) -> None:
    job = world.job(sys.executable, "-c", "")
    run = world.run(job, displayName="first", definedTags={"space": {"key": "value"}})
    world.science.wait(run)
    found = world("update_job_run", run, {"displayName": "second", "freeformTags": {"a": "b"}})
    assert (found["displayName"], found["freeformTags"]) == ("second", {"a": "b"})
    assert found["definedTags"] == {"space": {"key": "value"}}
    world("delete_job_run", run)
    assert world.state(run) == "DELETED"
    assert world.refused("delete_job_run", run) == (409, "IncorrectState")
