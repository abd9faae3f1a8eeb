"""Callers for a rehearsed Oracle cloud: keys made here, with the files and variables that the SDK reads.

Only the public half of a key ever goes to the server.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .identity import new_key, private_pem, public_pem
from .steering import Steering

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

TENANCY = "ocid1.tenancy.oc1..rehearsal"
COMPARTMENT = "ocid1.compartment.oc1..rehearsal"
REGION = "us-ashburn-1"


@dataclass(frozen=True)
class User:
    """A user with a profile in a config file."""

    id: str
    config_file: Path
    key_file: Path
    fingerprint: str
    profile: str = "DEFAULT"
    tenancy: str = TENANCY

    @property
    def key_id(self) -> str:
        return f"{self.tenancy}/{self.id}/{self.fingerprint}"


def make_user(steering: Steering, folder: Path, name: str = "tester", groups: tuple[str, ...] = ()) -> User:
    """A user with an API key; writes `config` and the key into the folder."""
    user = f"ocid1.user.oc1..{name}"
    key = new_key()
    key_file = _private_file(folder / f"{name}.pem", private_pem(key))
    made = User(user, folder / "config", key_file, fingerprint(key))
    said = {"id": user, "tenancy": TENANCY, "kind": "user", "claims": {"groups": list(groups)}}
    steering.ask("POST", "users", {"key_id": made.key_id, "principal": said, "public_key": public_pem(key)})
    _write_profile(made, {"user": user})
    return made


def make_session(steering: Steering, folder: Path, name: str = "tester", seconds: float = 3600) -> User:
    """A user with a security token, as `oci session authenticate` leaves it: `config`, the token and its key."""
    user = f"ocid1.user.oc1..{name}"
    key = new_key()
    key_file = _private_file(folder / f"{name}-session.pem", private_pem(key))
    made = User(user, folder / "config", key_file, fingerprint(key))
    token = issue(steering, key, {"id": user, "tenancy": TENANCY, "kind": "user", "claims": {}}, seconds)
    token_file = _private_file(folder / "token", token)
    _write_profile(made, {"security_token_file": str(token_file)})
    return made


def resource_principal(
    steering: Steering,
    seconds: float = 3600,
    folder: Path | None = None,
    resource: str = "ocid1.datasciencejobrun.oc1..rehearsal",
    resource_type: str = "datasciencejobrun",
    compartment: str = COMPARTMENT,
) -> dict[str, str]:
    """The environment of a resource principal, version 2.2.

    With a folder, token and key lie in files there, which the SDK reads again after a 401: calling this again with
    the same folder renews them.
    """
    key = new_key()
    claims = {"res_id": resource, "res_type": resource_type, "res_compartment": compartment}
    said = {"id": resource, "tenancy": TENANCY, "kind": "resource", "claims": claims}
    token, pem = issue(steering, key, said, seconds), private_pem(key)
    if folder is not None:
        token = str(_private_file(folder / "rpst", token))
        pem = str(_private_file(folder / "rp.pem", pem))
    return {
        "OCI_RESOURCE_PRINCIPAL_VERSION": "2.2",
        "OCI_RESOURCE_PRINCIPAL_RPST": token,
        "OCI_RESOURCE_PRINCIPAL_PRIVATE_PEM": pem,
        "OCI_RESOURCE_PRINCIPAL_REGION": REGION,
    }


def issue(steering: Steering, key: RSAPrivateKey, principal: dict[str, Any], seconds: float) -> str:
    """A token from the cloud for this key."""
    said = {"principal": principal, "public_key": public_pem(key), "seconds": seconds}
    return str(steering.ask("POST", "tokens", said))


def fingerprint(key: RSAPrivateKey) -> str:
    from cryptography.hazmat.primitives import serialization as form

    public = key.public_key().public_bytes(form.Encoding.DER, form.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.md5(public, usedforsecurity=False).digest().hex(":")


def _private_file(path: Path, text: str) -> Path:
    """A file for its owner alone, whole at once: the SDK may be reading it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.touch(mode=0o600)
    part.write_text(text, encoding="utf-8")
    return part.replace(path)


def _write_profile(user: User, more: dict[str, str]) -> None:
    lines = {
        "fingerprint": user.fingerprint,
        "tenancy": user.tenancy,
        "region": REGION,
        "key_file": str(user.key_file),
        **more,
    }
    text = "".join(f"{name}={value}\n" for name, value in lines.items())
    _private_file(user.config_file, f"[{user.profile}]\n{text}")
