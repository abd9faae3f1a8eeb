"""A target in Oracle's cloud: its settings, each declared once, and what must hold between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .fields import Field, Section, TextMap
from .job import ROLES
from .kinds import Boolean, Choice, Integer, Rule, Text
from .nodes import Node, joined
from .oci_kinds import Amount, DefinedTags, FarWorkDir, ListOf, Ocid
from .oci_mounts import MOST, StorageMount, check_named
from .problems import Problems
from .table import ENV_NAME

KIND = "oci"
WAYS = ("api_key", "security_token", "resource_principal", "instance_principal")
STANDALONE, MANAGED, MULTI_NODE = "STANDALONE", "ME_STANDALONE", "MULTI_NODE"

TABLE = """\
[targets.{name}]
kind = "oci"
work_dir = "oci://BUCKET@NAMESPACE/runs"
compartment_id = "ocid1.compartment.oc1..…"
project_id = "ocid1.datascienceproject.oc1.…"
subnet_id = "ocid1.subnet.oc1.…"
log_group_id = "ocid1.loggroup.oc1.…"
shape_name = "VM.Standard.E4.Flex"
shape_config_details = {{ocpus = 4, memory_in_gbs = 64}}
block_storage_size = 50"""
"""What somebody who has none starts from."""

Spelled = Callable[[str], str]
"""How a file calls a setting: `muster.toml` as it is, an ADS file in its own way."""

_SHAPE_NAME = Rule(r"(?:VM|BM)\.[A-Za-z0-9][A-Za-z0-9._-]*", "the name of a shape, such as VM.Standard.E4.Flex")
_REGION = Rule(r"[a-z]{2,}(?:-[a-z0-9]+)*", "a region, such as us-ashburn-1", str.lower)
_IMAGE = Rule(
    r"@image|[^\s@<>{}]+(?:@sha256:[0-9a-f]{64})?", "@image, or an image such as region.ocir.io/namespace/name:1"
)

_SHAPE = (
    Field("shape_name", Text(rule=_SHAPE_NAME), "The machine that a node is."),
    Field(
        "shape_config_details",
        Section((Field("ocpus", Amount()), Field("memory_in_gbs", Amount())), owner="in shape_config_details"),
        "How large a machine of a flexible shape is.",
    ),
    Field("block_storage_size", Integer(50, 10240), "The disk of a node, in GB."),
)
_NAMES = Section(tuple(Field(role, Text()) for role in ROLES), owner="in job_run_names")
_ROLES = Section(tuple(Field(role, Section(_SHAPE, owner=f"in roles.{role}")) for role in ROLES), owner="in roles")


def section(example: Callable[[str, str], str]) -> Section:
    """All settings. `example` says in the words of a file how one that must be there is written."""
    place = FarWorkDir()
    return Section(
        (
            Field("kind", Choice((KIND,))),
            Field("work_dir", place, "Where the nodes meet.", example("work_dir", "oci://bucket@namespace/folder")),
            Field(
                "compartment_id",
                Ocid(("compartment", "tenancy")),
                "Where all that a run creates is put.",
                example("compartment_id", "ocid1.compartment.oc1..…"),
            ),
            *_PLACES,
            *_SHAPE,
            *_JOB,
            *_WHO,
            *_FROM_ADS,
        ),
        owner="in a target of the kind oci",
    )


_PLACES = (
    Field("project_id", Ocid(("datascienceproject",)), "The Data Science project that jobs belong to."),
    Field("subnet_id", Ocid(("subnet",)), "The subnet of the nodes."),
    Field("log_group_id", Ocid(("loggroup",)), "Where the service puts the lines of the nodes."),
    Field("log_id", Ocid(("log",)), "One log for all runs; without it each run has its own."),
    Field("security_group_ids", ListOf(Ocid(("networksecuritygroup",))), "Looked at by the doctor too."),
)
_JOB = (
    Field("job_infrastructure_type", Choice((STANDALONE, MANAGED, MULTI_NODE)), "In your subnet, or in the service's."),
    Field("job_type", Choice(("DEFAULT",)), "There is one."),
    Field("multi_node", Boolean(), "true: one run of the service's own kind for several nodes."),
    Field(
        "display_name",
        Text(rule=Rule(r"[^\n]{1,255}", "a name of at most 255 characters")),
        "Of the job, in the console.",
    ),
    Field("job_run_names", _NAMES, "Of the job runs, by role."),
    Field("storage_mount", ListOf(StorageMount(), MOST), "Storage that is mounted on every node."),
    Field("defined_tags", DefinedTags(), "Tags by namespace; a job's own tags have none."),
    Field("image", Text(rule=_IMAGE), "Where a job names none; @image is the one built last."),
    Field("roles", _ROLES, "What machine a role has of its own."),
    Field(
        "secrets",
        TextMap(names=ENV_NAME, values=Ocid(("vaultsecret",))),
        "The vault's secret for a name in the job's secrets.",
    ),
)
_WHO = (
    Field("auth", Choice(WAYS), "How you sign in."),
    Field("profile", Text(), "A profile of ~/.oci/config."),
    Field("region", Text(rule=_REGION), "Instead of the profile's."),
)
_FROM_ADS = (
    Field("git_secret_id", Ocid(("vaultsecret",)), "The key by which code is fetched with git."),
    Field("ca_cert_id", Ocid(("certificateauthority",)), "Who signs the certificate of Dask's nodes."),
    Field("cert_id", Ocid(("certificate",)), "The certificate of Dask's nodes."),
    Field("workspace", Text(), "The bucket that ADS syncs artifacts to."),
    Field("workspace_prefix", Text(), "The folder in it."),
)


def toml_example(name: str, value: str) -> str:
    return f'{name} = "{value}"'


def read_oci(
    node: Node,
    path: str,
    problems: Problems,
    example: Callable[[str, str], str] = toml_example,
    spelled: Spelled = str,
) -> tuple[str, dict[str, Any]] | None:
    """Work dir and options of a target; None once its mistakes are noted."""
    values = section(example).read(node, path, problems)
    if not isinstance(values, dict):
        return None
    _check_network(values, path, problems, spelled)
    _check_shape(values, path, problems, spelled)
    _check_roles(values, path, problems, spelled)
    check_named(values.get("storage_mount", ()), joined(path, "storage_mount"), problems)
    if not problems.clean(path) or (not path and problems.found()):
        return None
    values.pop("kind", None)
    return values.pop("work_dir"), _whole(values)


def _whole(values: dict[str, Any]) -> dict[str, Any]:
    """Two settings say that a run is one of the service's own several nodes: each says so of the other."""
    if values.get("multi_node") or values.get("job_infrastructure_type") == MULTI_NODE:
        return {**values, "multi_node": True, "job_infrastructure_type": MULTI_NODE}
    return values


def _check_network(values: Mapping[str, Any], path: str, problems: Problems, spelled: Spelled) -> None:
    kind, subnet = values.get("job_infrastructure_type"), spelled("subnet_id")
    place, at = joined(path, "job_infrastructure_type"), joined(path, "subnet_id")
    if not problems.clean(place, at, joined(path, "multi_node")):
        return
    if kind == STANDALONE and "subnet_id" not in values:
        problems.add(
            place, f"{STANDALONE} is in your own subnet, and none is named", f"Add `{subnet}`, or write {MANAGED}."
        )
    if kind == MANAGED and "subnet_id" in values:
        fix = f"Write {STANDALONE}, or take `{subnet}` out."
        problems.add(place, f"{MANAGED} is in the service's own network, and `{subnet}` names one of yours", fix)
    if values.get("multi_node") is not None and kind and values["multi_node"] != (kind == MULTI_NODE):
        problems.add(
            joined(path, "multi_node"), f"says one thing, and job_infrastructure_type = {kind} another", "Keep one."
        )


def _check_shape(values: Mapping[str, Any], path: str, problems: Problems, spelled: Spelled) -> None:
    shape, details = values.get("shape_name"), values.get("shape_config_details")
    place, size = joined(path, "shape_name"), joined(path, "shape_config_details")
    if shape is None or not problems.clean(place, size):
        return
    if details and not shape.endswith(".Flex"):
        fix = f"Take it out, or name a shape in `{spelled('shape_name')}` that ends with .Flex."
        problems.add(size, f"{shape} has its own size: only flexible shapes are given one", fix)


def _check_roles(values: Mapping[str, Any], path: str, problems: Problems, spelled: Spelled) -> None:
    """A role's own shape has its own size; a role without one may say how large it is in the shape of all."""
    for role, own in values.get("roles", {}).items():
        if {"shape_name", "shape_config_details"} & own.keys():
            shape = {name: values[name] for name in ("shape_name",) if name in values}
            _check_shape({**shape, **own}, joined(path, f"roles.{role}"), problems, spelled)
