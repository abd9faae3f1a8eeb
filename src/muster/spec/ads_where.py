"""What of an Oracle ADS file belongs to where its nodes run, as a target of `muster.toml`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import JobError, Problem
from .ads_image import LAST_BUILT
from .ads_lists import Variable
from .ads_shape import part
from .config import Target
from .nodes import from_python
from .oci_target import KIND as OCI
from .oci_target import MANAGED, STANDALONE, read_oci
from .problems import Problems

_BARE = re.compile(r"[A-Za-z0-9_-]+")


INFRASTRUCTURE = "spec.infrastructure.spec"
CLUSTER = "spec.cluster.spec"
_ORIGINS = {
    "work_dir": f"{CLUSTER}.workDir",
    "image": f"{CLUSTER}.image",
    "job_run_names.main": f"{CLUSTER}.main.name",
    "job_run_names.worker": f"{CLUSTER}.worker.name",
    "job_run_names.ps": f"{CLUSTER}.ps.name",
    "git_secret_id": "spec.runtime.spec.gitSecretId",
    "ca_cert_id": f"{CLUSTER}.certificate.caCert.id",
    "cert_id": f"{CLUSTER}.certificate.cert.id",
}
"""Where settings stand that are not in `infrastructure`."""
_NEEDED = {"project_id": "ocid1.datascienceproject.oc1.…"}
"""What no job can be made without, beside what every target has."""


@dataclass(frozen=True)
class Source:
    """The file that says where nodes run, the lines of its fields, and what was said in other files."""

    file: str = ""
    lines: Mapping[str, int] = field(default_factory=dict)
    elsewhere: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """By setting: the other file, and what the setting is called there."""

    def told(self, problem: Problem) -> Problem:
        """A mistake of a target, told where its user wrote it."""
        name = re.split(r"[.\[]", problem.field, maxsplit=1)[0]
        if name in self.elsewhere:
            file, place = self.elsewhere[name]
            return replace(problem, file=file, field=place, line=0)
        path = origin(problem.field)
        return replace(problem, file=self.file, field=path, line=Problems(lines=dict(self.lines)).line(path))


@dataclass(frozen=True)
class Where:
    """A target of the kind `oci`: infrastructure, work dir and what only the cloud can use."""

    work_dir: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    source: Source = field(default=Source(), compare=False, repr=False)

    def without(self, setting: str) -> Where:
        return replace(self, settings={name: value for name, value in self.settings.items() if name != setting})

    def unused(self, kind: str) -> str:
        """What a target of another kind makes of it, in one line."""
        return f"infrastructure and workDir ({self.work_dir}) are for Oracle's cloud: on {kind} they are not used"

    def toml(self, name: str = "oci") -> str:
        """The table that says the same in `muster.toml`."""
        values = {"kind": "oci", "work_dir": self.work_dir, **self.settings}
        return f"[targets.{_key(name)}]\n" + "".join(_lines(values))

    def target(self, name: str = "oci") -> Target:
        """The same as a target. Raises a `JobError` that lists every mistake where the ADS file has it."""
        problems = Problems()
        values = {"work_dir": self.work_dir, **self.settings}
        read = read_oci(from_python(values, problems), "", problems, _example, camel)
        for setting in (setting for setting in _NEEDED if setting not in values):
            problems.add(setting, "missing", f"Add it, such as `{_example(setting, _NEEDED[setting])}`.")
        if read is None or problems.found():
            raise JobError(sorted(map(self.source.told, problems.found()), key=lambda problem: problem.line))
        return Target(name, OCI, *read)


def where_of(
    infrastructure: dict[str, Any],
    cluster: dict[str, Any],
    script: dict[str, Any],
    env: Mapping[str, Variable],
    problems: Problems,
) -> Where:
    """What these parts of a file say of where its nodes run. Free-form tags are the job's own."""
    found: dict[str, Any] = {snake(name): value for name, value in infrastructure.items() if name != "freeformTags"}
    found["shape_config_details"] = {
        snake(name): value for name, value in part(infrastructure, "shapeConfigDetails").items()
    }
    if found.get("subnet_id") and found.get("job_infrastructure_type") == MANAGED:
        found["job_infrastructure_type"] = STANDALONE  # as in ADS: who names a subnet wants to be in it
    found["image"] = LAST_BUILT if cluster.get("image") == LAST_BUILT else None
    found["job_run_names"] = {role: part(cluster, role).get("name") for role in ("main", "worker", "ps")}
    found["git_secret_id"] = script.get("gitSecretId")
    found["ca_cert_id"] = part(cluster, "certificate", "caCert").get("id")
    found["cert_id"] = part(cluster, "certificate", "cert").get("id")
    for name in ("WORKSPACE", "WORKSPACE_PREFIX"):
        found[name.lower()] = env[name].value if name in env else None
    source = Source(problems.file, problems.lines)
    return Where(cluster.get("workDir", ""), _said(found), source)


def _said(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without what was left open."""
    tables = {name: _said(value) if isinstance(value, dict) else value for name, value in values.items()}
    return {name: value for name, value in tables.items() if value is not None and value != {}}


def snake(name: str) -> str:
    """`memoryInGBs` as `muster.toml` spells it: `memory_in_gbs`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def camel(name: str) -> str:
    """`memory_in_gbs` as ADS spells it: `memoryInGBs`."""
    first, *rest = name.split("_")
    return "".join([first, *("GBs" if word == "gbs" else word.capitalize() for word in rest)])


def origin(path: str) -> str:
    """The field of an ADS file that a setting of a target comes from."""
    if path in _ORIGINS:
        return _ORIGINS[path]
    name, rest = re.match(r"([^.\[]*)(.*)", path, re.DOTALL).groups("")  # type: ignore[union-attr]
    if name == "shape_config_details" and rest:
        rest = f".{camel(rest[1:])}"
    if name in ("workspace", "workspace_prefix"):
        return f"{CLUSTER}.config.env"
    return f"{INFRASTRUCTURE}.{camel(name)}{rest}" if name else INFRASTRUCTURE


def _example(name: str, value: str) -> str:
    return f"{origin(name).rpartition('.')[2]}: {value}"


def _lines(values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        yield f"{_key(name)} = {_value(value)}\n"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(str(name))} = {_value(item)}" for name, item in value.items() if item is not None)
        return f"{{{inner}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item) for item in value if item is not None)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else _text(str(value))


def _text(text: str) -> str:
    # JSON's escapes are TOML's too, but for one character that JSON leaves alone.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
