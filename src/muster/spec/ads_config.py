"""What `ads opctl configure` wrote down: how to sign in, and the infrastructure of files that name none.

ADS keeps it in `~/.ads_ops`: `config.ini` with a section OCI, and `ml_job_config.ini` with a section for each profile.
"""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import ConfigError, Problem
from .ads_where import INFRASTRUCTURE, Where
from .oci_target import WAYS

FOLDER = "~/.ads_ops"
SIGN_IN, JOBS = "config.ini", "ml_job_config.ini"
_DEFAULT = "DEFAULT"
_SETTINGS = ("compartment_id", "project_id", "subnet_id", "log_group_id", "log_id", "shape_name")
_DISK = "block_storage_size_in_gbs"
_SIZE = ("ocpus", "memory_in_gbs")


@dataclass(frozen=True)
class AdsHome:
    """The folder of ADS, as far as a cluster has a use for it."""

    folder: Path
    auth: str | None = None
    profile: str | None = None
    jobs: Mapping[str, Any] = field(default_factory=dict)

    def complete(self, where: Where) -> Where:
        """What a file says, with what it leaves open. As in ADS its infrastructure counts whole, or not at all."""
        own = {name: text for name, text in (("auth", self.auth), ("profile", self.profile)) if text}
        silent = not any(path.startswith(f"{INFRASTRUCTURE}.") for path in where.source.lines)
        more = {**own, **(self.jobs if silent else {})}
        added = {name: value for name, value in more.items() if name not in where.settings}
        elsewhere = {name: (str(self.folder / (SIGN_IN if name in own else JOBS)), name) for name in added}
        source = replace(where.source, elsewhere={**where.source.elsewhere, **elsewhere})
        return replace(where, settings={**where.settings, **added}, source=source)


def read_home(folder: Path | None = None, profile: str | None = None) -> AdsHome:
    """What is in the folder of ADS; nothing where there is none. `profile` comes before the one that it names."""
    folder = folder or Path(FOLDER).expanduser()
    oci = _section(_parsed(folder / SIGN_IN), "OCI")
    auth = oci.get("auth", "").strip().lower() or None
    if auth and auth not in WAYS:
        fix = f"Known are {', '.join(WAYS)}."
        raise ConfigError([Problem(f"no way to sign in is called {auth!r}", fix, "OCI.auth", str(folder / SIGN_IN))])
    named = profile or oci.get("oci_profile", "").strip() or None
    jobs = _parsed(folder / JOBS)
    principal = auth.upper() if auth in WAYS[2:] else None
    said = _section(jobs, principal or named or _DEFAULT) or _section(jobs, _DEFAULT)
    return AdsHome(folder, auth, None if principal else named, _infrastructure(said))


def _infrastructure(said: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {name: said[name].strip() for name in _SETTINGS if said.get(name, "").strip()}
    if disk := said.get(_DISK, "").strip():
        found["block_storage_size"] = _number(disk)
    size = {name: _number(said[name].strip()) for name in _SIZE if said.get(name, "").strip()}
    if size and str(found.get("shape_name", "")).endswith(".Flex"):
        found["shape_config_details"] = size
    return found


def _number(text: str) -> int | float | str:
    """A number where it is one; else the text, which the target's own check then complains about."""
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        return text


def _parsed(file: Path) -> configparser.ConfigParser:
    ini = configparser.ConfigParser(interpolation=None, allow_no_value=True)
    try:
        ini.read_string(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        pass
    except (OSError, ValueError, configparser.Error) as error:
        reason = str(error).splitlines()[0]
        fix = "`ads opctl configure` wrote it; mend it, or move it away."
        raise ConfigError([Problem(f"cannot be read: {reason}", fix, file=str(file))]) from error
    return ini


def _section(ini: configparser.ConfigParser, name: str) -> dict[str, str]:
    found = ini[name] if name == _DEFAULT or ini.has_section(name) else {}
    return {key: value for key, value in found.items() if value is not None}
