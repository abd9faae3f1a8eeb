"""Oracle's cloud: who we are to it, where it is, and what its object storage's refusals mean."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from ..errors import StoreError
from .oci_profile import is_meant, read_profile
from .refusals import Answer, Asked, Words

INSTALL = "pip install 'musterpoint[oci]'"
WAYS = ("api_key", "security_token", "resource_principal", "instance_principal")
"""The ways to be somebody."""


@dataclass(frozen=True)
class Session:
    """Who we are, in which way, and in which region (empty where nothing says)."""

    way: str
    signer: Any
    """An `Identity` of `oci_signing.py` or, where we do without the SDK, of `oci_bare_signing.py`."""
    region: str

    @property
    def config(self) -> dict[str, Any]:
        """What every client of the SDK wants beside the signer."""
        return {"region": self.region}


def session(
    way: str | None = None, profile: str | None = None, region: str | None = None, bare: bool | None = None
) -> Session:
    """A session by the way that is given, else by OCI_IAM_TYPE, else by what is there: a resource principal's
    environment, a config file, the metadata of an instance. `bare` is one for the clients that need no SDK."""
    chosen = check_way(way or os.environ.get("OCI_IAM_TYPE") or os.environ.get("OCI_CLI_AUTH") or _found_way(profile))
    signing = import_module(
        ".oci_bare_signing" if (is_bare() if bare is None else bare) else ".oci_signing", __package__
    )
    if chosen == "resource_principal":
        signer, own = signing.resource_principal(), os.environ.get("OCI_RESOURCE_PRINCIPAL_REGION", "")
    elif chosen == "instance_principal":
        signer, own = signing.instance_principal()
    else:
        signer = signing.security_token(profile) if chosen == "security_token" else signing.api_key(profile)
        own = read_profile(profile).values.get("region", "")
    said = region or os.environ.get("OCI_CLI_REGION") or own or os.environ.get("OCI_REGION") or ""
    return Session(chosen, signer, _in_full(said))


def check_way(way: str) -> str:
    """The way itself, if there is one of this name."""
    if way.lower() not in WAYS:
        raise StoreError(f"no way to sign in to Oracle's cloud is called {way!r}", f"Known are {', '.join(WAYS)}.")
    return way.lower()


def is_bare() -> bool:
    """Whether we do without the SDK: it is not installed, or MUSTER_OCI_CLIENT says so."""
    return os.environ.get("MUSTER_OCI_CLIENT") == "bare" or find_spec("oci") is None


def clients() -> Any:
    """The module that has the client of object storage, and what its calls may end with. Import it late."""
    return import_module(".oci_bare" if is_bare() else ".oci_client", __package__)


def check_installed() -> None:
    """For what only the SDK can do: all but a work dir in object storage."""
    if find_spec("oci") is None:
        raise StoreError("Oracle's cloud needs its SDK, the package oci, which is not installed", f"{INSTALL}.")


def check_endpoint(endpoint: str) -> str:
    """The address itself. Secrets go over it, so that it is encrypted wherever it leaves this machine."""
    place = urlsplit(endpoint)
    host = place.hostname or ""
    here = host == "localhost" or host == "::1" or host.startswith("127.")
    if place.scheme != "https" and not (place.scheme == "http" and here):
        raise StoreError(f"{endpoint} is no address of Oracle's cloud", "Write https://HOST; http is for loopback.")
    return endpoint


def endpoint() -> str | None:
    """Where object storage is, if not where the region has it."""
    return os.environ.get("OCI_OBJECTSTORAGE_SERVICE_ENDPOINT") or os.environ.get("MUSTER_OCI_ENDPOINT")


def _found_way(profile: str | None) -> str:
    if profile is None and os.environ.get("OCI_RESOURCE_PRINCIPAL_VERSION"):
        return "resource_principal"
    if is_meant(profile):
        return "security_token" if read_profile(profile).has_token else "api_key"
    return "instance_principal"


def _in_full(region: str) -> str:
    """Of `iad` and `us-ashburn-1` the latter."""
    if is_bare():
        from .oci_bare_regions import in_full

        return in_full(region)
    from oci.regions import REGIONS_SHORT_NAMES

    return str(REGIONS_SHORT_NAMES.get(region.lower(), region.lower()))


# --- what refusals mean ----------------------------------------------------------------------------------


def words(way: str) -> Words:
    """How object storage talks, and what mends it for one who is somebody in this way."""
    return Words(
        "Oracle",
        no_bucket=frozenset({"BucketNotFound", "NotAuthorizedOrNotFound", "NamespaceNotFound"}),
        credentials=frozenset({"NotAuthenticated", "SignatureVerificationFailed"}),
        missing_bucket=_policy(way),
        login=lambda _asked, _answer: _LOGIN[way],
        permission=_policy(way),
        hides=True,
    )


def _policy(way: str) -> Callable[[Asked, Answer], str]:
    subject = "group NAME" if way in ("api_key", "security_token") else "dynamic-group NAME"

    def fix(asked: Asked, answer: Answer) -> str:
        if "kms" in answer.text.lower():
            return "Add the policy `Allow service objectstorage-REGION to use keys in compartment NAME`."
        if answer.code == "NamespaceNotFound":
            return "`oci os ns get` tells the namespace; the work dir names it as oci://BUCKET@NAMESPACE/PREFIX."
        statement = f"Allow {subject} to manage objects in compartment NAME where target.bucket.name='{asked.bucket}'"
        return f"Correct its name or region in the work dir, or make it; or else add the policy `{statement}`."

    return fix


_CLOCK = "This machine's clock must be right too."
_LOGIN = {
    "api_key": f"Is the API key still one of the user's, and are user and tenancy of the profile right? {_CLOCK}",
    "security_token": f"The session has ended: `oci session authenticate`; `oci session refresh` in time. {_CLOCK}",
    "resource_principal": "Its token has ended: only one that is given as a path is renewed while this runs.",
    "instance_principal": f"Is the instance in a dynamic group of this tenancy? {_CLOCK}",
}
