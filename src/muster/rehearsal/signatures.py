"""The signature of a request to Oracle's services (draft-cavage), verified as the services do."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from .identity import Identity, Principal, Unknown
from .messages import Request

ALWAYS = {"date", "(request-target)", "host"}
WITH_BODY = ALWAYS | {"content-length", "content-type", "x-content-sha256"}
SKEW = 300
FIELD = re.compile(r'(\w+)="([^"]*)"')


class NotAuthenticated(Exception):
    """The request is not signed by anyone known here. The text says why, and is for the log alone."""


@dataclass(frozen=True)
class Signature:
    key_id: str
    headers: tuple[str, ...]
    value: bytes

    @classmethod
    def of(cls, request: Request) -> Signature:
        scheme, _, rest = request.headers.get("authorization", "").partition(" ")
        fields = dict(FIELD.findall(rest))
        if scheme.lower() != "signature" or fields.get("algorithm") != "rsa-sha256":
            raise NotAuthenticated("the request has no signature")
        try:
            value = base64.b64decode(fields["signature"], validate=True)
            return cls(fields["keyId"], tuple(fields["headers"].lower().split()), value)
        except (KeyError, binascii.Error) as reason:
            raise NotAuthenticated("the signature is not whole") from reason

    def message(self, request: Request) -> bytes:
        """What was signed, if nothing was changed on the way."""
        lines = []
        for name in self.headers:
            if name == "(request-target)":
                lines.append(f"{name}: {request.method.lower()} {request.target}")
            elif name in request.headers:
                lines.append(f"{name}: {request.headers[name]}")
            else:
                raise NotAuthenticated(f"the signed header {name} is not there")
        return "\n".join(lines).encode("latin-1")


def verify(request: Request, identity: Identity, body_is_signed: bool, host_is_signed: bool = True) -> Principal:
    """Who sent this request. A body is signed in every POST, PUT and PATCH but those that carry an object's bytes."""
    signature = Signature.of(request)
    with_body = body_is_signed and request.method in ("POST", "PUT", "PATCH")
    wanted = (WITH_BODY if with_body else ALWAYS) - (set() if host_is_signed else {"host"})
    if missing := wanted - set(signature.headers):
        raise NotAuthenticated(f"these are not signed: {', '.join(sorted(missing))}")
    _check_date(request.headers.get("date", ""), identity.clock())
    try:
        principal, key = identity.find(signature.key_id)
    except Unknown as reason:
        raise NotAuthenticated(str(reason)) from reason
    _check_value(key, signature, request)
    if "x-content-sha256" in signature.headers:
        _check_body(request)
    return principal


def _check_date(said: str, now: float) -> None:
    try:
        away = abs(parsedate_to_datetime(said).timestamp() - now)
    except (TypeError, ValueError) as reason:
        raise NotAuthenticated("the date cannot be read") from reason
    if away > SKEW:
        raise NotAuthenticated(f"the date is {away:.0f} s away from this clock")


def _check_value(key: object, signature: Signature, request: Request) -> None:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    try:
        assert isinstance(key, RSAPublicKey)  # noqa: S101 - for the type alone
        key.verify(signature.value, signature.message(request), padding.PKCS1v15(), hashes.SHA256())
    except InvalidSignature as reason:
        raise NotAuthenticated("the signature does not fit") from reason


def _check_body(request: Request) -> None:
    found = base64.b64encode(hashlib.sha256(request.content()).digest()).decode()
    if found != request.headers["x-content-sha256"]:
        raise NotAuthenticated("the body is not the one that was signed")
