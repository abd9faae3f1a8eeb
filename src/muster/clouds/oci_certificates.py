"""Certificates that Oracle's Certificates service keeps, fetched by whoever may read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ..errors import CloudError
from .pems import Pems, joined

_WITH_KEY = "CERTIFICATE_CONTENT_WITH_PRIVATE_KEY"
_AUTHORITY = "Allow dynamic-group NAME to read certificate-authority-bundles in compartment NAME"
_ISSUED = (
    "Allow dynamic-group NAME to read leaf-certificate-bundles in compartment NAME"
    # Without it the service gives the public half alone.
    f" where target.leaf-certificate.bundle-type='{_WITH_KEY}'"
)


@dataclass(frozen=True)
class CertificateIds:
    """The OCIDs of an authority and of a certificate that it has issued."""

    authority: str
    certificate: str


def certificates(ids: CertificateIds) -> Pems:
    """What the service has under these ids. Two requests, as the principal that this machine is."""
    issued = _asked(_ISSUED, "certificateBundles", ids.certificate, {"certificateBundleType": _WITH_KEY})
    trusted = _asked(_AUTHORITY, "certificateAuthorityBundles", ids.authority)
    # Certificates between the two are sent along by who has the first, and trusted by who has the last.
    return Pems(
        authority=joined(trusted.get("certificatePem"), trusted.get("certChainPem")),
        certificate=joined(issued.get("certificatePem"), issued.get("certChainPem")),
        key=_key(issued, ids.certificate),
    )


def _asked(statement: str, kind: str, ocid: str, query: dict[str, Any] | None = None) -> Mapping[str, Any]:
    from .oci_bare_calls import Calls

    try:
        # Not by the SDK: few images of nodes have it, and two gets do not need it where they do.
        found: Mapping[str, Any] = Calls().get(
            "read a certificate", "certificates", f"/20210224/{kind}/{quote(ocid, safe='')}", query
        )
    except CloudError as error:
        if error.status in (401, 404):
            fix = f"Is {ocid} right? If so, add the policy `{statement}`."
            raise CloudError(
                error.message, fix, status=error.status, code=error.code, told=error.told, request=error.request
            ) from error
        raise
    return found


def _key(issued: Mapping[str, Any], ocid: str) -> str:
    key = joined(issued.get("privateKeyPem"))
    if not key:
        message = f"the Certificates service has no private key of {ocid}"
        raise CloudError(message, "Take one that the service itself issued, or that was imported with its key.")
    if "ENCRYPTED" in key:
        message = f"the private key of {ocid} is locked with a passphrase, which Dask has no way to be told"
        raise CloudError(message, "Import the certificate again with a key that has none.")
    return key
