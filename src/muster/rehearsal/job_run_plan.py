"""What a job run will do: the job's details under the run's overrides, as groups of nodes with their commands. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

NODE_GROUP, NODE_REPLICA, NODE_RANK, NODE_COUNT = "NODE_GROUP", "NODE_REPLICA", "NODE_RANK", "NODE_COUNT"
"""What a node of a MULTI_NODE run is told of itself. These names are assumed: the service's documentation promises
each node an FQDN and the metadata of its cluster, and names no variables for a node's place in it."""

Details = Mapping[str, Any]


@dataclass(frozen=True)
class NodeGroup:
    """Nodes that are alike. A plain run has one group, without a name, of one node."""

    name: str = ""
    replicas: int = 1
    minimum: int = 1
    infrastructure: Details = field(default_factory=dict)
    configuration: Details = field(default_factory=dict)
    container: Details = field(default_factory=dict)

    @property
    def image(self) -> str:
        return str(self.container.get("image", ""))

    @property
    def environment(self) -> dict[str, str]:
        return dict(self.configuration.get("environmentVariables") or {})

    def arguments(self) -> list[str]:
        return shlex.split(self.configuration.get("commandLineArguments", ""))

    def argv(self, images: Mapping[str, Sequence[str]]) -> list[str]:
        """The command; empty where neither the job nor the image has one."""
        own = [*self.container.get("entrypoint", ()), *self.container.get("cmd", ())]
        own = own or list(images.get(self.image, ()))
        return [*own, *self.arguments()] if own else []


@dataclass(frozen=True)
class Plan:
    groups: tuple[NodeGroup, ...]
    in_order: bool
    minutes: int | None
    subnet: str
    logs: Details

    @property
    def nodes(self) -> int:
        return sum(group.replicas for group in self.groups)

    def shapes(self) -> Iterator[tuple[str, int]]:
        """How many nodes of which shape."""
        return ((str(group.infrastructure.get("shapeName", "")), group.replicas) for group in self.groups)


def merged(under: Details | None, over: Details | None) -> dict[str, Any]:
    """Field by field; the environment variable by variable. What is EMPTY says nothing."""
    parts = [dict(part) for part in (under, over) if part and "EMPTY" not in part.values()]
    whole = {name: value for part in parts for name, value in part.items()}
    variables = [part["environmentVariables"] for part in parts if part.get("environmentVariables")]
    if variables:
        whole["environmentVariables"] = {name: value for table in variables for name, value in table.items()}
    return whole


def plan(job: Details, run: Details) -> Plan:
    """What this run of this job will do."""
    configuration = merged(job.get("jobConfigurationDetails"), run.get("jobConfigurationOverrideDetails"))
    container = merged(
        job.get("jobEnvironmentConfigurationDetails"), run.get("jobEnvironmentConfigurationOverrideDetails")
    )
    infrastructure = merged(
        job.get("jobInfrastructureConfigurationDetails"), run.get("jobInfrastructureConfigurationOverrideDetails")
    )
    nodes = merged(job.get("jobNodeConfigurationDetails"), run.get("jobNodeConfigurationOverrideDetails"))
    said = nodes.get("jobNodeGroupConfigurationDetailsList") or []
    groups = tuple(_group(each, infrastructure, configuration, container) for each in said)
    network = nodes.get("jobNetworkConfiguration") or {}
    return Plan(
        groups or (NodeGroup("", 1, 1, infrastructure, configuration, container),),
        nodes.get("startupOrder") == "IN_ORDER",
        nodes.get("maximumRuntimeInMinutes") or configuration.get("maximumRuntimeInMinutes"),
        str(network.get("subnetId") or infrastructure.get("subnetId") or ""),
        merged(job.get("jobLogConfigurationDetails"), run.get("jobLogConfigurationOverrideDetails")),
    )


def _group(said: Details, infrastructure: Details, configuration: Details, container: Details) -> NodeGroup:
    replicas = int(said.get("replicas", 1))
    return NodeGroup(
        str(said["name"]),
        replicas,
        int(said.get("minimumSuccessReplicas", replicas)),
        merged(infrastructure, said.get("jobInfrastructureConfigurationDetails")),
        merged(configuration, said.get("jobConfigurationDetails")),
        merged(container, said.get("jobEnvironmentConfigurationDetails")),
    )


def repository(image: str) -> str:
    """Of `iad.ocir.io/namespace/team/train:1` the repository that a policy names, `team/train`."""
    path = image.partition("@")[0].split("/")
    path[-1] = path[-1].partition(":")[0]
    return "/".join(path[2:] if len(path) > 2 else path[-1:])
