"""What is sent to Oracle's Data Science to make a cluster: one job, and a run of it for each node. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..errors import LaunchError
from ..spec.job import Job
from .base import RUN, NodePlan, Resource
from .oci_shapes import shape_of

JOB, CODE, SUBNET, UNTIL = "{job}", "{code}", "{subnet}", "{until}"
"""Stand in a plan for what is known only at launch: the job's OCID, the digest of code that is fetched first, the
subnet's CIDR, when all must be gone."""
TAG, TAG_NODE, TAG_JOB, TAG_UNTIL = "muster-run", "muster-node", "muster-job", "muster-until"
TAG_MINUTES = "muster-minutes"
"""How long a job run may take, as the service was told."""
ENVIRONMENT_LIMIT = 20_000
LONGEST = 43_200
"""Minutes that the service lets a run go on."""
MARGIN = 600.0
"""Seconds between the end that nodes keep by themselves and the service's: to save, to bring home, to say farewell."""


def minutes(ttl: float | None) -> int:
    """After which the service ends a run by itself."""
    return LONGEST if ttl is None else min(LONGEST, math.ceil((ttl + MARGIN) / 60))


def resources(job: Job, options: Mapping[str, Any], nodes: tuple[NodePlan, ...]) -> tuple[Resource, ...]:
    """All that a launch makes."""
    if options.get("multi_node"):
        return (_multi_node(job, options, nodes), Resource("job run", "all", _run(job, options, "all", RUN)))
    main = nodes[0]
    made = _job(job, options)
    made["jobConfigurationDetails"] = _configuration(job, _shared(nodes))
    made["jobInfrastructureConfigurationDetails"] = _infrastructure(job, _first_role(job, options), options)
    made["jobEnvironmentConfigurationDetails"] = _container(job, main.role, options, main.command)
    runs = (Resource("job run", node.name, run_payload(job, options, node, nodes)) for node in nodes)
    return (Resource("job", RUN, made), *runs)


def run_payload(job: Job, options: Mapping[str, Any], node: NodePlan, nodes: tuple[NodePlan, ...]) -> dict[str, Any]:
    """The run of one node: what differs from the job. Its whole environment, for an override may replace the job's."""
    made = _run(job, options, node.name, _display(options, node))
    made["jobConfigurationOverrideDetails"] = _configuration(job, node.environment)
    if _image(job, node.role, options) != _image(job, "main", options):
        made["jobEnvironmentConfigurationOverrideDetails"] = _container(job, node.role, options, node.command)
    if shape_of(job, node.role, options) != shape_of(job, _first_role(job, options), options):
        made["jobInfrastructureConfigurationOverrideDetails"] = _infrastructure(job, node.role, options)
    return made


def _first_role(job: Job, options: Mapping[str, Any]) -> str:
    """The role whose machine is the job's own. Of a fixed size if any is: a run can add a size, and take none away."""
    roles = ["main", *(["worker"] if job.workers.max else []), *(["ps"] if job.ps else [])]
    return next((role for role in roles if shape_of(job, role, options).ocpus is None), "main")


def rendered(value: Any, known: Mapping[str, str]) -> Any:
    """A payload with what is known now in place of what stood for it."""
    if isinstance(value, Mapping):
        return {key: rendered(item, known) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rendered(item, known) for item in value]
    if isinstance(value, str):
        for mark, text in known.items():
            value = value.replace(mark, text)
    return value


def check_size(payload: Mapping[str, Any]) -> None:
    """Whether the service will take a run's environment."""
    env = payload["jobConfigurationOverrideDetails"]["environmentVariables"]
    size = sum(len(name) + len(value) for name, value in env.items())
    if size > ENVIRONMENT_LIMIT:
        raise LaunchError(
            f"the environment of a node holds {size:,} characters, and Oracle takes {ENVIRONMENT_LIMIT:,}",
            "What of it is the script's belongs into the job's `env`, which travels in the work dir.",
        )


def _job(job: Job, options: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "projectId": options["project_id"],
        "compartmentId": options["compartment_id"],
        "displayName": options.get("display_name") or RUN,
        "description": f"Muster run {RUN} of {job.name}",
        "freeformTags": tags(job),
    }
    if options.get("defined_tags"):
        made["definedTags"] = options["defined_tags"]
    if options.get("log_group_id"):
        made["jobLogConfigurationDetails"] = _logs(options)
    if mounts := options.get("storage_mount"):
        made["jobStorageMountConfigurationDetailsList"] = [_camel(mount) for mount in mounts]
    return made


def tags(job: Job, node: str = "") -> dict[str, str]:
    """By which a sweep finds all that is a run's, and knows until when it may be there."""
    own = {TAG: RUN, TAG_JOB: job.name, TAG_UNTIL: UNTIL, TAG_MINUTES: str(minutes(job.ttl))}
    own |= {TAG_NODE: node} if node else {}
    return {**job.tags, **own}


def _run(job: Job, options: Mapping[str, Any], node: str, name: str) -> dict[str, Any]:
    return {
        "projectId": options["project_id"],
        "compartmentId": options["compartment_id"],
        "jobId": JOB,
        "displayName": name,
        "freeformTags": tags(job, node),
        **({"definedTags": options["defined_tags"]} if options.get("defined_tags") else {}),
    }


def _display(options: Mapping[str, Any], node: NodePlan) -> str:
    given = (options.get("job_run_names") or {}).get(node.role)
    return f"{given}-{node.name.rpartition('-')[2]}" if given and "-" in node.name else given or f"{RUN}-{node.name}"


def _shared(nodes: tuple[NodePlan, ...]) -> dict[str, str]:
    """What all nodes are told alike: the job's own environment."""
    first, *others = (node.environment for node in nodes)
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}


def _configuration(job: Job, environment: Mapping[str, str]) -> dict[str, Any]:
    return {
        "jobType": "DEFAULT",
        "environmentVariables": dict(environment),
        "maximumRuntimeInMinutes": minutes(job.ttl),
    }


def _infrastructure(job: Job, role: str, options: Mapping[str, Any]) -> dict[str, Any]:
    subnet = options.get("subnet_id")
    kind = options.get("job_infrastructure_type") or ("STANDALONE" if subnet else "ME_STANDALONE")
    shape = shape_of(job, role, options).wire()
    return {"jobInfrastructureType": kind, **shape, **({"subnetId": subnet} if subnet else {})}


def _image(job: Job, role: str, options: Mapping[str, Any]) -> str:
    image = job.role(role).image or job.image or options.get("image")
    if not image:
        raise LaunchError(
            f"image: {role} has none, and on Oracle's cloud each node is a container",
            "Write `image: REGION.ocir.io/NAMESPACE/REPOSITORY:TAG` into the job; `muster image build` makes one.",
        )
    return str(image)


def _container(job: Job, role: str, options: Mapping[str, Any], command: tuple[str, ...]) -> dict[str, Any]:
    image, _, digest = _image(job, role, options).partition("@")
    entrypoint, *arguments = command
    return {
        "jobEnvironmentType": "OCIR_CONTAINER",
        "image": image,
        **({"imageDigest": digest} if digest else {}),
        "entrypoint": [entrypoint],
        "cmd": arguments,
    }


def _logs(options: Mapping[str, Any]) -> dict[str, Any]:
    log = options.get("log_id")
    return {
        "enableLogging": True,
        "enableAutoLogCreation": not log,
        "logGroupId": options["log_group_id"],
        **({"logId": log} if log else {}),
    }


def _multi_node(job: Job, options: Mapping[str, Any], nodes: tuple[NodePlan, ...]) -> Resource:
    """The service's own kind of cluster: one run, in which each role is a group of replicas."""
    made = _job(job, options)
    infrastructure = {"jobInfrastructureType": "MULTI_NODE", **shape_of(job, "main", options).wire()}
    made["jobInfrastructureConfigurationDetails"] = infrastructure
    roles = list(dict.fromkeys(node.role for node in nodes))
    subnet = options.get("subnet_id")
    network = {"jobNetworkType": "CUSTOM_NETWORK", "subnetId": subnet} if subnet else {}
    made["jobNodeConfigurationDetails"] = {
        "jobNodeType": "MULTI_NODE",
        "startupOrder": "IN_PARALLEL",
        "maximumRuntimeInMinutes": minutes(job.ttl),
        "jobNetworkConfiguration": network or {"jobNetworkType": "DEFAULT_NETWORK"},
        "jobNodeGroupConfigurationDetailsList": [_group(job, options, role, nodes) for role in roles],
    }
    return Resource("job", RUN, made)


def _group(job: Job, options: Mapping[str, Any], role: str, nodes: tuple[NodePlan, ...]) -> dict[str, Any]:
    own = [node for node in nodes if node.role == role]
    # Replicas share their environment, so each finds a name for itself.
    environment = {name: value for name, value in own[0].environment.items() if name != "MUSTER_NODE"}
    shape = {"jobInfrastructureType": "MULTI_NODE", **shape_of(job, role, options).wire()}
    return {
        "name": role,
        "replicas": len(own),
        "minimumSuccessReplicas": len(own),
        "jobInfrastructureConfigurationDetails": shape,
        "jobConfigurationDetails": {"jobType": "DEFAULT", "environmentVariables": environment},
        "jobEnvironmentConfigurationDetails": _container(job, role, options, own[0].command),
    }


def _camel(value: Any) -> Any:
    """A table of `muster.toml` in the names of the wire."""
    if not isinstance(value, Mapping):
        return value
    return {_wire_name(name): _camel(item) for name, item in value.items()}


def _wire_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
