"""Oracle's Certificates service, as far as who uses a certificate sees it: bundles of authorities and certificates.

>>> service = CertificateService()
>>> ids = service.issue("dask")                                 # an authority, and a certificate that it issued
>>> OracleCloud(identity, service.routes(), service.controls())
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..clouds.oci_certificates import CertificateIds
from ..clouds.pems import Pems
from ..workdir.tls import made_here
from .buckets import moment
from .messages import Answer
from .oracle_cloud import Control
from .permits import Permit, Wish, check, everybody
from .principals import COMPARTMENT
from .routing import Call, Refusal, Route, json_answer

_PUBLIC, _PRIVATE = "CERTIFICATE_CONTENT_PUBLIC_ONLY", "CERTIFICATE_CONTENT_WITH_PRIVATE_KEY"
_STAGES = ["CURRENT", "LATEST"]


@dataclass(frozen=True)
class Kept:
    """One resource of the service, with the only version that it has."""

    id: str
    name: str
    compartment: str
    pems: Pems
    created: float
    seconds: float

    def bundle(self, kind: str, certificate: str) -> dict[str, Any]:
        return {
            f"{kind}Id": self.id,
            f"{kind}Name": self.name,
            "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, self.id).hex,
            "certificatePem": certificate,
            "certChainPem": self.pems.authority,
            "versionNumber": 1,
            "stages": _STAGES,
            "timeCreated": moment(self.created),
            "validity": {
                "timeOfValidityNotBefore": moment(self.created),
                "timeOfValidityNotAfter": moment(self.created + self.seconds),
            },
        }


class CertificateService:
    """What it keeps, and who may read it."""

    def __init__(self, permit: Permit = everybody) -> None:
        self._permit = permit
        self._kept: dict[str, Kept] = {}

    def issue(self, name: str, compartment: str = COMPARTMENT, seconds: float = 24 * 3600.0) -> CertificateIds:
        """A new authority, and a certificate for servers and clients that it has issued."""
        return self.keep(name, made_here(seconds), compartment, seconds)

    def keep(
        self, name: str, pems: Pems, compartment: str = COMPARTMENT, seconds: float = 24 * 3600.0
    ) -> CertificateIds:
        """Takes certificates in that were made elsewhere, as an import does."""
        ids = [f"ocid1.{kind}.oc1..{uuid.uuid4().hex}" for kind in ("certificateauthority", "certificate")]
        for ocid in ids:
            self._kept[ocid] = Kept(ocid, name, compartment, pems, time.time(), seconds)
        return CertificateIds(*ids)

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/20210224/certificateBundles/{id}", self._certificate),
            Route("GET", "/20210224/certificateAuthorityBundles/{id}", self._authority),
        ]

    def controls(self) -> dict[str, Control]:
        """`POST certificates {name, …}` issues one; the answer is its two ids."""
        return {"certificates": lambda said: asdict(self.issue(**said))}

    def _certificate(self, call: Call) -> Answer:
        kind = call.query.get("certificateBundleType", _PUBLIC)
        if kind not in (_PUBLIC, _PRIVATE):
            raise Refusal(400, "InvalidParameter", f"certificateBundleType is {_PUBLIC} or {_PRIVATE}")
        about = {"target.leaf-certificate.id": call.parts["id"], "target.leaf-certificate.bundle-type": kind}
        kept = self._found(call, "ocid1.certificate.", "CERTIFICATE_BUNDLE_READ", about)
        said = {"certificateBundleType": kind, **kept.bundle("certificate", kept.pems.certificate)}
        if kind == _PRIVATE:
            said["privateKeyPem"] = kept.pems.key
        return json_answer(said)

    def _authority(self, call: Call) -> Answer:
        about = {"target.certificate-authority.id": call.parts["id"]}
        kept = self._found(call, "ocid1.certificateauthority.", "CERTIFICATE_AUTHORITY_BUNDLE_READ", about)
        return json_answer(kept.bundle("certificateAuthority", kept.pems.authority))

    def _found(self, call: Call, kind: str, permission: str, about: Mapping[str, str]) -> Kept:
        kept = self._kept.get(call.parts["id"])
        stage, version = call.query.get("stage", "CURRENT"), call.query.get("versionNumber", "1")
        if kept is None or not kept.id.startswith(kind) or stage not in _STAGES or version != "1":
            raise Refusal(404, "NotAuthorizedOrNotFound", "Authorization failed or requested resource not found.")
        check(self._permit, call.principal, Wish(permission, kept.compartment, about))
        return kept
