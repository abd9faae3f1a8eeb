"""The bodies that Data Science takes: which fields there are, of which kind, and which must be there.

A form is a table of fields. A `Choice` is a form that depends on the value of one of its fields, as the service's
polymorphic details do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .routing import Refusal


@dataclass(frozen=True)
class Form:
    """The fields of an object. A name that ends in `!` must be there."""

    fields: Mapping[str, Kind]

    def known(self) -> dict[str, Kind]:
        return {name.rstrip("!"): kind for name, kind in self.fields.items()}

    def needed(self) -> list[str]:
        return [name.rstrip("!") for name in self.fields if name.endswith("!")]


@dataclass(frozen=True)
class Choice:
    """A form for each value of the field `by`."""

    by: str
    forms: Mapping[str, Form]


@dataclass(frozen=True)
class Many:
    """A list of one kind."""

    kind: Kind


@dataclass(frozen=True)
class One:
    """A text among these."""

    values: tuple[str, ...]


@dataclass(frozen=True)
class Plain:
    """A value of one of Python's types."""

    name: str
    types: tuple[type, ...] = field(default=())


Kind = Form | Choice | Many | One | Plain

TEXT = Plain("a text", (str,))
WHOLE = Plain("a whole number", (int,))
NUMBER = Plain("a number", (int, float))
YES = Plain("true or false", (bool,))
TABLE = Plain("an object", (dict,))

_PROBE = Choice(
    "jobProbeCheckType",
    {
        "EXEC": Form(
            {
                "command!": Many(TEXT),
                "periodInSeconds": WHOLE,
                "failureThreshold": WHOLE,
                "initialDelayInSeconds": WHOLE,
            }
        )
    },
)
CONFIGURATION = Choice(
    "jobType",
    {
        "DEFAULT": Form(
            {
                "environmentVariables": TABLE,
                "commandLineArguments": TEXT,
                "maximumRuntimeInMinutes": WHOLE,
                "startupProbeDetails": _PROBE,
            }
        ),
        "EMPTY": Form({}),
    },
)
_SHAPE: dict[str, Kind] = {
    "shapeName!": TEXT,
    "blockStorageSizeInGBs!": WHOLE,
    "jobShapeConfigDetails": Form(
        {
            "ocpus": NUMBER,
            "memoryInGBs": NUMBER,
            "cpuBaseline": One(("BASELINE_1_8", "BASELINE_1_2", "BASELINE_1_1")),
        }
    ),
}
INFRASTRUCTURE = Choice(
    "jobInfrastructureType",
    {
        "STANDALONE": Form({**_SHAPE, "subnetId!": TEXT, "capacityReservationId": TEXT}),
        "ME_STANDALONE": Form({**_SHAPE, "capacityReservationId": TEXT}),
        "MULTI_NODE": Form({**_SHAPE, "capacityReservationIds": Many(TEXT)}),
        "EMPTY": Form({}),
    },
)
ENVIRONMENT = Choice(
    "jobEnvironmentType",
    {
        "OCIR_CONTAINER": Form(
            {
                "image!": TEXT,
                "cmd": Many(TEXT),
                "entrypoint": Many(TEXT),
                "imageDigest": TEXT,
                "imageSignatureId": TEXT,
            }
        )
    },
)
LOGS = Form({"enableLogging": YES, "enableAutoLogCreation": YES, "logGroupId": TEXT, "logId": TEXT})
_WHERE = {"destinationDirectoryName": TEXT, "destinationPath": TEXT}
MOUNT = Choice(
    "storageType",
    {
        "FILE_STORAGE": Form({**_WHERE, "mountTargetId!": TEXT, "exportId!": TEXT}),
        "OBJECT_STORAGE": Form({**_WHERE, "namespace!": TEXT, "bucket!": TEXT, "prefix": TEXT}),
    },
)
_GROUP = Form(
    {
        "name!": TEXT,
        "replicas": WHOLE,
        "minimumSuccessReplicas": WHOLE,
        "jobInfrastructureConfigurationDetails": INFRASTRUCTURE,
        "jobConfigurationDetails": CONFIGURATION,
        "jobEnvironmentConfigurationDetails": ENVIRONMENT,
    }
)
_NETWORK = Choice("jobNetworkType", {"CUSTOM_NETWORK": Form({"subnetId!": TEXT}), "DEFAULT_NETWORK": Form({})})
NODES = Choice(
    "jobNodeType",
    {
        "MULTI_NODE": Form(
            {
                "startupOrder": One(("IN_ORDER", "IN_PARALLEL")),
                "maximumRuntimeInMinutes": WHOLE,
                "jobNetworkConfiguration": _NETWORK,
                "jobNodeGroupConfigurationDetailsList": Many(_GROUP),
            }
        )
    },
)
_TAGS = {"freeformTags": TABLE, "definedTags": TABLE}
JOB = Form(
    {
        "projectId!": TEXT,
        "compartmentId!": TEXT,
        "displayName": TEXT,
        "description": TEXT,
        "jobConfigurationDetails": CONFIGURATION,
        "jobInfrastructureConfigurationDetails": INFRASTRUCTURE,
        "jobEnvironmentConfigurationDetails": ENVIRONMENT,
        "jobLogConfigurationDetails": LOGS,
        "jobStorageMountConfigurationDetailsList": Many(MOUNT),
        "jobNodeConfigurationDetails": NODES,
        **_TAGS,
    }
)
JOB_UPDATE = Form(
    {
        "displayName": TEXT,
        "description": TEXT,
        "jobInfrastructureConfigurationDetails": INFRASTRUCTURE,
        "jobStorageMountConfigurationDetailsList": Many(MOUNT),
        **_TAGS,
    }
)
RUN = Form(
    {
        "projectId!": TEXT,
        "compartmentId!": TEXT,
        "jobId!": TEXT,
        "displayName": TEXT,
        "jobConfigurationOverrideDetails": CONFIGURATION,
        "jobLogConfigurationOverrideDetails": LOGS,
        "jobEnvironmentConfigurationOverrideDetails": ENVIRONMENT,
        "jobInfrastructureConfigurationOverrideDetails": INFRASTRUCTURE,
        "jobNodeConfigurationOverrideDetails": NODES,
        "jobStorageMountConfigurationOverrideDetailsList": Many(MOUNT),
        **_TAGS,
    }
)
RUN_UPDATE = Form({"displayName": TEXT, **_TAGS})


def checked(said: Any, kind: Kind, where: str = "") -> Any:
    """The value without its nulls, if it is of this kind; else 400."""
    if isinstance(kind, Many):
        _insist(isinstance(said, list), where, "a list")
        return [checked(each, kind.kind, f"{where}[{number}]") for number, each in enumerate(said)]
    if isinstance(kind, One):
        _insist(said in kind.values, where, f"one of {', '.join(kind.values)}")
        return said
    if isinstance(kind, Plain):
        _insist(isinstance(said, kind.types) and (isinstance(said, bool) <= (kind is YES)), where, kind.name)
        return said
    _insist(isinstance(said, dict), where, "an object")
    whole = {name: value for name, value in said.items() if value is not None}
    return _object(whole, *_form(whole, kind, where), where)


def _form(said: Mapping[str, Any], kind: Form | Choice, where: str) -> tuple[Form, dict[str, Any]]:
    """The form that this object has to fit, and what is known of it by then."""
    if isinstance(kind, Form):
        return kind, {}
    chosen = said.get(kind.by)
    _insist(chosen in kind.forms, _below(where, kind.by), f"one of {', '.join(kind.forms)}")
    return kind.forms[str(chosen)], {kind.by: chosen}


def _object(said: Mapping[str, Any], form: Form, chosen: dict[str, Any], where: str) -> dict[str, Any]:
    known = form.known()
    for name in said:
        if name not in known and name not in chosen:
            raise Refusal(400, "InvalidParameter", f"{_below(where, name)} is not a field that is known here")
    for name in form.needed():
        if said.get(name) in (None, ""):
            raise Refusal(400, "InvalidParameter", f"{_below(where, name)} is missing")
    fields = {name: checked(said[name], known[name], _below(where, name)) for name in said if name not in chosen}
    return {**chosen, **fields}


def _insist(holds: bool, where: str, expected: str) -> None:
    if not holds:
        raise Refusal(400, "InvalidParameter", f"{where or 'the body'} must be {expected}")


def _below(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
