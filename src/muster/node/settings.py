"""What a node is told when it starts: by a launcher through a few `MUSTER_*` variables, or by its environment alone."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..clouds.oci_certificates import CertificateIds
from ..errors import NodeError, ProtocolError
from ..spec.job import Job
from ..workdir.home import nodes_folder
from ..workdir.records import PROTOCOL
from .machines import twin_of

TLS = "MUSTER_TLS"
AUTHORITY, CERTIFICATE = "MUSTER_CERTIFICATE_AUTHORITY_OCID", "MUSTER_CERTIFICATE_OCID"

PRIVATE = (
    "MUSTER_LAUNCHED",
    "MUSTER_PROTOCOL",
    "MUSTER_LIFELINE",
    "MUSTER_SECRETS",
    "MUSTER_FREE_PORTS",
    TLS,
    "MUSTER_CODE",
    "MUSTER_FOLDER",
    "MUSTER_NODE_RANK",
    "MUSTER_BOOT_PYTHON",
    "MUSTER_PROGRAM",
    "MUSTER_SCRIPT_PYTHON",
    "MUSTER_UNPACKED",
    "RANK",
    "MUSTER_RANK",
    "OCI__RANK",
)
"""Variables of the node program that its processes must not see; a node's own RANK would be taken for a rank's."""

_MAIN_GRACE = 60.0


@dataclass(frozen=True)
class Settings:
    """All that a node is told."""

    work_dir: str
    run: str
    role: str
    node: str | None
    """Given by whoever started the node; None where it has to find a name."""
    job: Job | None
    """None where a launcher has put it into the work dir."""
    folder: Path
    """The node's own folder, on this machine."""
    code: str | None = None
    """The digest of the code. It comes by this way and not only by the bucket that it protects."""
    code_dir: str = ""
    """Where the code is on this machine, if it need not be fetched."""
    free_ports: bool = False
    tls: bool = False
    """The cluster is to encrypt what its nodes say to each other, where its framework can and its job lets it."""
    certificates: CertificateIds | None = None
    """Under which ids Oracle's cloud keeps the certificates of the cluster."""
    address: str | None = None
    subnet: str | None = None
    control_port: int = 0
    channel: bool = True
    main_grace: float = _MAIN_GRACE
    twin: str = ""
    """The folder that the run has under its cloud's own id for it."""
    lifeline: int | None = None
    """A pipe whose end means that the launcher is gone."""
    mark: str = ""
    """What the processes of this start of the node carry; see `tree.py`."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


def read_settings(env: Mapping[str, str]) -> Settings:
    """The settings in this environment. Reads the secrets' pipe, if there is one, and closes it."""
    if env.get("MUSTER_LAUNCHED") == "1":
        if env.get("MUSTER_PROTOCOL") != str(PROTOCOL):
            raise ProtocolError(
                f"the launcher speaks protocol {env.get('MUSTER_PROTOCOL')}, this node speaks {PROTOCOL}",
                "Install the same version of musterpoint on both.",
            )
        work_dir, run, role, node, code_dir = _launched(env)
        job = None
    else:
        # A launched node does without the reader of environments and all that it knows of spelling.
        from ..spec.environment import read_environment

        place, job = read_environment(env)
        work_dir, run, role, node, code_dir = place.work_dir, place.run, place.mode, place.node, place.code_dir
    node = "main" if role == "main" else node
    return Settings(
        work_dir=work_dir,
        run=run,
        role=role,
        node=node,
        job=job,
        folder=Path(env.get("MUSTER_FOLDER") or nodes_folder() / run / (node or f"{os.getpid()}")),
        code=env.get("MUSTER_CODE") or None,
        code_dir=code_dir,
        free_ports=env.get("MUSTER_FREE_PORTS") == "1",
        tls=env.get(TLS) == "1",
        certificates=_certificates(env),
        address=env.get("MUSTER_ADDRESS") or None,
        subnet=env.get("MUSTER_SUBNET") or None,
        control_port=_number(env, "MUSTER_CONTROL_PORT", 0),
        channel=env.get("MUSTER_CONTROL", "channel") != "store",
        main_grace=float(_number(env, "MUSTER_MAIN_GRACE", int(_MAIN_GRACE))),
        lifeline=_number(env, "MUSTER_LIFELINE", 0) or None,
        twin=twin_of(run, env),
        secrets={**_referenced(env.get("MUSTER_SECRET_REFERENCES", "")), **_secrets(env.get("MUSTER_SECRETS"))},
    )


def _launched(env: Mapping[str, str]) -> tuple[str, str, str, str | None, str]:
    """Work dir, run, role, node and code folder."""
    absent = [name for name in ("MUSTER_WORK_DIR", "MUSTER_RUN_ID", "MUSTER_MODE") if not env.get(name)]
    if absent:
        raise NodeError(f"a launched node lacks {', '.join(absent)} in its environment")
    role, node = env["MUSTER_MODE"].lower(), env.get("MUSTER_NODE") or None
    return env["MUSTER_WORK_DIR"], env["MUSTER_RUN_ID"], role, node, env.get("MUSTER_CODE_DIR", "")


def _certificates(env: Mapping[str, str]) -> CertificateIds | None:
    authority, certificate = (env.get(name) or _as_ads_says(env, name) for name in (AUTHORITY, CERTIFICATE))
    if bool(authority) != bool(certificate):
        message = "one of CERTIFICATE_AUTHORITY_OCID and CERTIFICATE_OCID is set, and not the other"
        raise NodeError(message, "TLS takes both: set the other too, or neither.")
    return CertificateIds(authority, certificate) if certificate else None


def _as_ads_says(env: Mapping[str, str], name: str) -> str:
    """What a launcher's own environment says of a job run that it may be in is not true of the nodes that it starts."""
    if env.get("MUSTER_LAUNCHED") == "1":
        return ""
    return next(filter(None, (env.get(name.replace("MUSTER_", prefix)) for prefix in ("OCI__", ""))), "")


def _number(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name, "")
    try:
        return int(text) if text else default
    except ValueError:
        raise NodeError(f"{name}={text} is not a whole number") from None


def _referenced(references: str) -> dict[str, str]:
    """Secrets that lie in the cloud's own vault: `NAME=OCID NAME=OCID`."""
    if not references:
        return {}
    from ..clouds.oci_bare_calls import secret

    named = (one.partition("=") for one in references.split())
    return {name: secret(ocid).decode() for name, _, ocid in named}


def _secrets(descriptor: str | None) -> dict[str, str]:
    if not descriptor:
        return {}
    with os.fdopen(int(descriptor), "rb") as pipe:
        value: dict[str, str] = json.loads(pipe.read() or b"{}")
    return value
