"""Who may ask: the users' API keys, and the tokens that the cloud itself issues.

A token is a JWT signed with the cloud's own key, as Oracle's are: it carries the public key that its bearer signs
with, so nothing about it has to be remembered. What a caller is to a policy stands in `Principal.claims`.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey


@dataclass(frozen=True)
class Principal:
    """A caller: a user, a resource (a job run, say) or an instance."""

    id: str
    tenancy: str
    kind: str = "user"
    claims: Mapping[str, Any] = field(default_factory=dict)
    """For a resource `res_type`, `res_id`, `res_compartment`; for a user `groups`."""


class Unknown(Exception):
    """Nobody has this key, or no longer."""


class Identity:
    """The keys and the tokens of one cloud, which signs with `authority`. `clock` gives seconds since the epoch."""

    def __init__(self, clock: Callable[[], float] = time.time, authority: RSAPrivateKey | None = None) -> None:
        self.clock = clock
        self._authority = authority or new_key()
        self._keys: dict[str, tuple[Principal, RSAPublicKey]] = {}
        self._tokens: dict[str, tuple[Principal, RSAPublicKey, float]] = {}
        self._lock = threading.Lock()

    def register(self, key_id: str, principal: Principal, public_pem: str) -> None:
        """Makes a key known: `tenancy/user/fingerprint`."""
        self._keys[key_id] = (principal, load_public(public_pem))

    def forget(self, key_id: str) -> None:
        """From now on this key is refused. A token can be forgotten too."""
        with self._lock:
            self._keys.pop(key_id, None)
            self._tokens[key_id] = (Principal("", ""), self._authority.public_key(), 0.0)

    def issue(self, principal: Principal, public_pem: str, seconds: float) -> str:
        """A token for who holds the private half of this key."""
        now = self.clock()
        numbers = load_public(public_pem).public_numbers()
        claims = {
            "sub": principal.id,
            "iss": "rehearsal",
            "iat": int(now),
            "exp": int(now + seconds),
            "tenant": principal.tenancy,
            "ptype": principal.kind,
            "jwk": json.dumps({"kty": "RSA", "n": _number(numbers.n), "e": _number(numbers.e)}),
            **principal.claims,
        }
        if principal.kind != "user":
            claims["res_tenant"] = principal.tenancy
        return self._signed(claims)

    def find(self, key_id: str) -> tuple[Principal, RSAPublicKey]:
        """Whose key this is. Raises Unknown for a stranger's, and for a token that is forged or has expired."""
        if key_id.startswith("ST$"):
            principal, key, end = self._token(key_id.removeprefix("ST$"))
            if self.clock() >= end:
                raise Unknown("the token has expired")
            return principal, key
        if key_id not in self._keys:
            raise Unknown("no such key")
        return self._keys[key_id]

    def _token(self, token: str) -> tuple[Principal, RSAPublicKey, float]:
        with self._lock:
            if f"ST${token}" in self._tokens:
                return self._tokens[f"ST${token}"]
            found = self._read(token)
            self._tokens[f"ST${token}"] = found
            return found

    def _signed(self, claims: Mapping[str, Any]) -> str:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import padding

        head = _text(json.dumps({"alg": "RS256", "typ": "JWT", "kid": "rehearsal"}).encode())
        said = f"{head}.{_text(json.dumps(claims).encode())}"
        return f"{said}.{_text(self._authority.sign(said.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def _read(self, token: str) -> tuple[Principal, RSAPublicKey, float]:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import padding, rsa

        said, _, signature = token.rpartition(".")
        try:
            self._authority.public_key().verify(_bytes(signature), said.encode(), padding.PKCS1v15(), hashes.SHA256())
            claims = json.loads(_bytes(said.partition(".")[2]))
        except (InvalidSignature, ValueError) as reason:
            raise Unknown("the token is not one of this cloud") from reason
        key = json.loads(claims["jwk"])
        public = rsa.RSAPublicNumbers(_whole(key["e"]), _whole(key["n"])).public_key()
        return Principal(claims["sub"], claims["tenant"], claims["ptype"], claims), public, float(claims["exp"])


def new_key() -> RSAPrivateKey:
    from cryptography.hazmat.primitives.asymmetric import rsa

    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def private_pem(key: RSAPrivateKey) -> str:
    from cryptography.hazmat.primitives import serialization as form

    return key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()).decode()


def public_pem(key: RSAPrivateKey) -> str:
    from cryptography.hazmat.primitives import serialization as form

    return key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo).decode()


def load_public(pem: str) -> RSAPublicKey:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    key = load_pem_public_key(pem.encode())
    if not isinstance(key, RSAPublicKey):
        raise Unknown("only RSA keys are known here")
    return key


def _number(value: int) -> str:
    return _text(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _whole(text: str) -> int:
    return int.from_bytes(_bytes(text), "big")


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
