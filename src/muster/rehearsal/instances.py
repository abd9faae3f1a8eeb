"""The metadata of an instance, and the exchange of its certificate for a token: what instance principals need."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING

from .identity import Identity, Principal, new_key, private_pem, public_pem
from .messages import Answer
from .principals import COMPARTMENT
from .routing import Call, Refusal, Route, json_answer

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.x509 import Certificate

INSTANCE = "ocid1.instance.oc1..rehearsal"


class Instances:
    """One instance, with a certificate of its own. Its tokens last `seconds`."""

    def __init__(self, identity: Identity, tenancy: str, region: str, seconds: float = 1200) -> None:
        self._identity = identity
        claims = {"opc-instance": INSTANCE, "res_compartment": COMPARTMENT}
        self._principal = Principal(INSTANCE, tenancy, "instance", claims)
        self._region = region
        self._seconds = seconds

    def routes(self) -> list[Route]:
        said: dict[str, Callable[[], str]] = {
            "instance/region": lambda: self._region,
            "instance/regionInfo": self._region_info,
            "identity/cert.pem": lambda: self._pem,
            "identity/key.pem": lambda: private_pem(self._key),
            "identity/intermediate.pem": lambda: self._pem,
        }
        return [
            *(Route("GET", f"/opc/v2/{path}", partial(_metadata, text), signed=False) for path, text in said.items()),
            Route("POST", "/v1/x509", self.exchange, host_is_signed=False),
        ]

    def exchange(self, call: Call) -> Answer:
        """A token for the session key that the instance names. The request is signed with its certificate's key."""
        if call.principal != self._principal:
            raise Refusal(401, "NotAuthenticated", "only an instance can do this")
        body = call.said()["publicKey"]
        pem = f"-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n"
        return json_answer({"token": self._identity.issue(self._principal, pem, self._seconds)})

    def _region_info(self) -> str:
        realm = {"realmKey": "oc1", "realmDomainComponent": "oraclecloud.com"}
        return json.dumps({**realm, "regionKey": "IAD", "regionIdentifier": self._region})

    @cached_property
    def _key(self) -> RSAPrivateKey:
        return new_key()

    @cached_property
    def _pem(self) -> str:
        """The certificate, which is its own issuer; the key is known to the cloud from then on."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.serialization import Encoding

        certificate = _certificate(self._key, self._principal.tenancy)
        fingerprint = certificate.fingerprint(hashes.SHA1()).hex(":").upper()  # noqa: S303 - as the SDK has it
        key_id = f"{self._principal.tenancy}/fed-x509/{fingerprint}"
        self._identity.register(key_id, self._principal, public_pem(self._key))
        return certificate.public_bytes(Encoding.PEM).decode()


def _metadata(text: Callable[[], str], call: Call) -> Answer:
    if call.header("authorization") != "Bearer Oracle":
        raise Refusal(404, "NotAuthorizedOrNotFound", "the metadata wants its header")
    return Answer(200, text().encode(), {"content-type": "text/plain"})


def _certificate(key: RSAPrivateKey, tenancy: str) -> Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    names = [(NameOID.COMMON_NAME, INSTANCE), (NameOID.ORGANIZATIONAL_UNIT_NAME, f"opc-tenant:{tenancy}")]
    name = x509.Name([x509.NameAttribute(kind, value) for kind, value in names])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number())
    made = made.not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(days=1))
    return made.sign(key, hashes.SHA256())
