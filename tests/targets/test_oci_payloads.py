"""What is sent to Oracle to make a cluster, as values."""

from __future__ import annotations

from typing import Any

import pytest

from muster.errors import LaunchError
from muster.spec.job import Job, Resources, Role, Workers
from muster.targets.base import NodePlan
from muster.targets.oci_payloads import check_size, minutes, rendered, resources
from muster.targets.oci_shapes import shape_of

pytestmark = pytest.mark.unit

OPTIONS: dict[str, Any] = {
    "compartment_id": "ocid1.compartment.oc1..a",
    "project_id": "ocid1.datascienceproject.oc1..b",
    "subnet_id": "ocid1.subnet.oc1..c",
    "shape_name": "VM.Standard.E4.Flex",
    "shape_config_details": {"ocpus": 2, "memory_in_gbs": 32},
    "block_storage_size": 60,
}


def job(**fields: Any) -> Job:
    return Job(**{"name": "train", "framework": "dask", "image": "iad.ocir.io/ns/train:1", "ttl": 3600.0, **fields})


def node(name: str, **env: str) -> NodePlan:
    shared = {"MUSTER_RUN_ID": "{run}", "MUSTER_NODE": name, **env}
    return NodePlan(name, name.partition("-")[0], ("/bin/sh", "-c", "boot"), shared, "", {})


def test_one_job_for_the_cluster_and_one_run_for_each_node() -> None:
    made, *runs = resources(job(tags={"team": "vision"}), OPTIONS, (node("main"), node("worker-1")))
    assert made.kind == "job"
    assert made.payload == {
        "projectId": "ocid1.datascienceproject.oc1..b",
        "compartmentId": "ocid1.compartment.oc1..a",
        "displayName": "{run}",
        "description": "Muster run {run} of train",
        "freeformTags": {
            "team": "vision",
            "muster-run": "{run}",
            "muster-job": "train",
            "muster-until": "{until}",
            "muster-minutes": "70",
        },
        "jobConfigurationDetails": {
            "jobType": "DEFAULT",
            "environmentVariables": {"MUSTER_RUN_ID": "{run}"},
            "maximumRuntimeInMinutes": 70,
        },
        "jobInfrastructureConfigurationDetails": {
            "jobInfrastructureType": "STANDALONE",
            "shapeName": "VM.Standard.E4.Flex",
            "blockStorageSizeInGBs": 60,
            "jobShapeConfigDetails": {"ocpus": 2, "memoryInGBs": 32},
            "subnetId": "ocid1.subnet.oc1..c",
        },
        "jobEnvironmentConfigurationDetails": {
            "jobEnvironmentType": "OCIR_CONTAINER",
            "image": "iad.ocir.io/ns/train:1",
            "entrypoint": ["/bin/sh"],
            "cmd": ["-c", "boot"],
        },
    }
    assert [run.name for run in runs] == ["main", "worker-1"]
    assert runs[1].payload["jobId"] == "{job}"
    assert runs[1].payload["displayName"] == "{run}-worker-1"
    # The whole of it: the service may lay an override over the job's environment, or put it in its place.
    env = runs[1].payload["jobConfigurationOverrideDetails"]["environmentVariables"]
    assert env == {"MUSTER_RUN_ID": "{run}", "MUSTER_NODE": "worker-1"}
    assert runs[1].payload["freeformTags"]["muster-node"] == "worker-1"
    assert "jobEnvironmentConfigurationOverrideDetails" not in runs[1].payload
    assert "jobInfrastructureConfigurationOverrideDetails" not in runs[1].payload


def test_a_role_has_its_own_image_and_shape() -> None:
    options = {**OPTIONS, "roles": {"worker": {"shape_name": "VM.GPU.A10.1", "shape_config_details": None}}}
    digest = "sha256:" + "1" * 64
    own = job(roles={"worker": Role(image=f"iad.ocir.io/ns/gpu@{digest}")})
    made, main, worker = resources(own, options, (node("main"), node("worker-1")))
    assert "jobEnvironmentConfigurationOverrideDetails" not in main.payload
    container = worker.payload["jobEnvironmentConfigurationOverrideDetails"]
    assert (container["image"], container["imageDigest"]) == ("iad.ocir.io/ns/gpu", digest)
    # The fixed shape is the job's: what a run says may be laid over that, and could not take a size away.
    machine = made.payload["jobInfrastructureConfigurationDetails"]
    assert machine["shapeName"] == "VM.GPU.A10.1"
    assert "jobShapeConfigDetails" not in machine
    assert "jobInfrastructureConfigurationOverrideDetails" not in worker.payload
    machine = main.payload["jobInfrastructureConfigurationOverrideDetails"]
    assert machine["shapeName"] == "VM.Standard.E4.Flex"
    assert machine["jobShapeConfigDetails"] == {"ocpus": 2, "memoryInGBs": 32}


def test_logs_tags_mounts_and_names_are_the_targets() -> None:
    options = {
        **OPTIONS,
        "log_group_id": "ocid1.loggroup.oc1..d",
        "defined_tags": {"cost": {"centre": "7"}},
        "display_name": "nightly",
        "job_run_names": {"main": "boss", "worker": "hand"},
        "storage_mount": [{"storage_type": "OBJECT_STORAGE", "destination_directory_name": "data", "bucket": "b"}],
    }
    made, main, worker = resources(job(), options, (node("main"), node("worker-1")))
    logs = made.payload["jobLogConfigurationDetails"]
    assert logs == {"enableLogging": True, "enableAutoLogCreation": True, "logGroupId": "ocid1.loggroup.oc1..d"}
    assert made.payload["definedTags"] == main.payload["definedTags"] == {"cost": {"centre": "7"}}
    assert made.payload["displayName"] == "nightly"
    assert (main.payload["displayName"], worker.payload["displayName"]) == ("boss", "hand-1")
    mounts = made.payload["jobStorageMountConfigurationDetailsList"]
    assert mounts == [{"storageType": "OBJECT_STORAGE", "destinationDirectoryName": "data", "bucket": "b"}]
    made, *_ = resources(job(), {**options, "log_id": "ocid1.log.oc1..e"}, (node("main"),))
    assert made.payload["jobLogConfigurationDetails"]["logId"] == "ocid1.log.oc1..e"
    assert made.payload["jobLogConfigurationDetails"]["enableAutoLogCreation"] is False


def test_the_services_own_kind_of_cluster_is_one_run_with_a_group_for_each_role() -> None:
    nodes = (node("main", MUSTER_MODE="MAIN"), *(node(f"worker-{n}", MUSTER_MODE="WORKER") for n in (1, 2)))
    made, *runs = resources(job(), {**OPTIONS, "multi_node": True}, nodes)
    assert len(runs) == 1
    details = made.payload["jobNodeConfigurationDetails"]
    assert details["jobNodeType"] == "MULTI_NODE"
    assert details["jobNetworkConfiguration"] == {"jobNetworkType": "CUSTOM_NETWORK", "subnetId": OPTIONS["subnet_id"]}
    main, worker = details["jobNodeGroupConfigurationDetailsList"]
    assert (main["name"], main["replicas"], worker["name"], worker["replicas"]) == ("main", 1, "worker", 2)
    env = worker["jobConfigurationDetails"]["environmentVariables"]
    assert env == {"MUSTER_RUN_ID": "{run}", "MUSTER_MODE": "WORKER"}
    assert made.payload["jobInfrastructureConfigurationDetails"]["jobInfrastructureType"] == "MULTI_NODE"


def test_what_is_known_at_launch_takes_the_place_of_its_marks() -> None:
    value = {"a": ["{run}-x", 3], "{run}": "{job}"}
    assert rendered(value, {"{run}": "r1", "{job}": "ocid1"}) == {"a": ["r1-x", 3], "{run}": "ocid1"}


@pytest.mark.parametrize(("ttl", "told"), [(None, 43_200), (60.0, 11), (3600.0, 70), (10**9, 43_200)])
def test_the_service_ends_a_run_a_little_after_its_ttl(ttl: float | None, told: int) -> None:
    assert minutes(ttl) == told


def test_an_environment_that_the_service_would_not_take_is_refused_before() -> None:
    _, run = resources(job(), OPTIONS, (node("main", LONG="x" * 20_000),))
    with pytest.raises(LaunchError, match="and Oracle takes 20,000"):
        check_size(run.payload)


def test_a_node_without_an_image_is_refused() -> None:
    with pytest.raises(LaunchError, match="image: main has none"):
        resources(job(image=None), OPTIONS, (node("main"),))


@pytest.mark.parametrize(
    ("wanted", "name", "ocpus", "memory", "disk"),
    [
        (Resources(), "VM.Standard.E4.Flex", 1, 16, 50),
        (Resources(cpus=9, memory=40 * 10**9, disk=200 * 10**9), "VM.Standard.E4.Flex", 5, 40, 200),
        (Resources(gpus=1), "VM.GPU.A10.1", None, None, 50),
        (Resources(gpus=3, gpu="V100"), "VM.GPU3.4", None, None, 50),
        (Resources(gpus=8, gpu="A100"), "BM.GPU4.8", None, None, 50),
    ],
)
def test_without_a_named_shape_one_is_chosen_that_has_what_the_job_asks_for(
    wanted: Resources, name: str, ocpus: int | None, memory: int | None, disk: int
) -> None:
    shape = shape_of(job(resources=wanted), "worker", {})
    assert (shape.name, shape.ocpus, shape.memory, shape.disk) == (name, ocpus, memory, disk)


def test_what_no_shape_has_is_refused() -> None:
    with pytest.raises(LaunchError, match="no shape of Oracle's is known here with 16 A100"):
        shape_of(job(resources=Resources(gpus=16, gpu="A100"), workers=Workers(1, 1)), "worker", {})
    with pytest.raises(LaunchError, match="has a fixed size"):
        shape_of(job(), "worker", {"shape_name": "VM.GPU3.1", "shape_config_details": {"ocpus": 4}})
