"""Who a job run is to the cloud: a resource principal, whose token lies in a file and is renewed while it lives."""

from __future__ import annotations

import threading
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from .identity import Identity, Principal, new_key, private_pem, public_pem

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

RESOURCE = "datasciencejobrun"


def principal(run: str, compartment: str, tenancy: str) -> Principal:
    """A job run, as policies see it."""
    claims = {"res_type": RESOURCE, "res_id": run, "res_compartment": compartment}
    return Principal(run, tenancy, "resource", claims)


class RunPrincipals:
    """The principals of all runs that live. Their tokens last `seconds`, and are renewed at half of that."""

    def __init__(self, identity: Identity, region: str, seconds: float) -> None:
        self._identity = identity
        self._region = region
        self._seconds = seconds
        self._living: dict[Path, Principal] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._renewing: threading.Thread | None = None

    def grant(self, who: Principal, folder: Path) -> dict[str, str]:
        """The variables of a principal, whose files lie in this folder from now on."""
        with self._lock:
            self._living[folder] = who
            if self._renewing is None:
                self._renewing = threading.Thread(target=self._renew, daemon=True)
                self._renewing.start()
        self._write(folder, who)
        return {
            "OCI_RESOURCE_PRINCIPAL_VERSION": "2.2",
            "OCI_RESOURCE_PRINCIPAL_RPST": str(folder / "rpst"),
            "OCI_RESOURCE_PRINCIPAL_PRIVATE_PEM": str(_kept(folder / "rp.pem", private_pem(self._key))),
            "OCI_RESOURCE_PRINCIPAL_REGION": self._region,
        }

    def end(self, folder: Path) -> None:
        """No more tokens for this one."""
        with self._lock:
            self._living.pop(folder, None)

    def close(self) -> None:
        self._closed.set()

    @cached_property
    def _key(self) -> RSAPrivateKey:
        # One for all: a key takes a tenth of a second to make, and what tells runs apart is the token.
        return new_key()

    def _renew(self) -> None:
        while not self._closed.wait(self._seconds / 2):
            with self._lock:
                for folder, who in self._living.items():
                    self._write(folder, who)

    def _write(self, folder: Path, who: Principal) -> None:
        _kept(folder / "rpst", self._identity.issue(who, public_pem(self._key), self._seconds))


def _kept(path: Path, text: str) -> Path:
    """A file for its owner alone, whole at once: the SDK may be reading it."""
    part = path.with_name(path.name + ".part")
    part.touch(mode=0o600)
    part.write_text(text, encoding="utf-8")
    return part.replace(path)
