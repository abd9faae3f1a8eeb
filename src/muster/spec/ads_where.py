"""What of an Oracle ADS file belongs to where its nodes run, as a target of `muster.toml`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .ads_image import LAST_BUILT
from .ads_lists import Variable
from .ads_shape import part

_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Where:
    """A target of the kind `oci`: infrastructure, work dir and what only the cloud can use."""

    work_dir: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def unused(self, kind: str) -> str:
        """What a target of another kind makes of it, in one line."""
        return f"infrastructure and workDir ({self.work_dir}) are for Oracle's cloud: on {kind} they are not used"

    def toml(self, name: str = "oci") -> str:
        """The table that says the same in `muster.toml`."""
        values = {"kind": "oci", "work_dir": self.work_dir, **self.settings}
        return f"[targets.{_key(name)}]\n" + "".join(_lines(values))


def where_of(
    infrastructure: dict[str, Any], cluster: dict[str, Any], script: dict[str, Any], env: Mapping[str, Variable]
) -> Where:
    """What these parts of a file say of where its nodes run. Free-form tags are the job's own."""
    found: dict[str, Any] = {snake(name): value for name, value in infrastructure.items() if name != "freeformTags"}
    found["shape_config_details"] = {
        snake(name): value for name, value in part(infrastructure, "shapeConfigDetails").items()
    }
    found["image"] = LAST_BUILT if cluster.get("image") == LAST_BUILT else None
    found["job_run_names"] = {role: part(cluster, role).get("name") for role in ("main", "worker", "ps")}
    found["git_secret_id"] = script.get("gitSecretId")
    found["ca_cert_id"] = part(cluster, "certificate", "caCert").get("id")
    found["cert_id"] = part(cluster, "certificate", "cert").get("id")
    for name in ("WORKSPACE", "WORKSPACE_PREFIX"):
        found[name.lower()] = env[name].value if name in env else None
    return Where(cluster.get("workDir", ""), {name: value for name, value in found.items() if _said(value)})


def _said(value: Any) -> bool:
    return any(item is not None for item in value.values()) if isinstance(value, dict) else value is not None


def snake(name: str) -> str:
    """`memoryInGBs` as `muster.toml` spells it: `memory_in_gbs`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


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
