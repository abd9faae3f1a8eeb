"""RSA signatures (RSASSA-PKCS1-v1_5 with SHA-256), with nothing but Python where `cryptography` is not installed.

>>> signing_key(pem, "", "the key file").sign(b"what is signed")
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import AccessDenied

_DIGEST_INFO = bytes.fromhex("3031300d060960864801650304020105000420")
"""What DER puts before a SHA-256 digest."""
_RSA = bytes.fromhex("06092a864886f70d010101")
"""The object identifier of RSA keys, in DER."""
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_INTEGER, _OCTETS, _SEQUENCE = 0x02, 0x04, 0x30
_FEWEST_BITS = 1024


class SigningKey(Protocol):
    """A private key, as much as is needed of one."""

    @property
    def public(self) -> bytes:
        """Its public half in DER, of which the fingerprint is taken."""

    def sign(self, message: bytes) -> bytes:
        """The signature of a message."""


def signing_key(pem: str, passphrase: str, place: str) -> SigningKey:
    """The key in a PEM text that stands in `place`: that of `cryptography` where it is there, faster and hardened."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        return load_key(pem, place)
    from .oci_profile import load_key as load

    return _Hardened(load(pem, passphrase, place))


class _Hardened:
    """A key of `cryptography`."""

    def __init__(self, key: Any) -> None:
        self._key = key

    @property
    def public(self) -> bytes:
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        found: bytes = self._key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return found

    def sign(self, message: bytes) -> bytes:
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
        from cryptography.hazmat.primitives.hashes import SHA256

        signature: bytes = self._key.sign(message, PKCS1v15(), SHA256())
        return signature


@dataclass(frozen=True, repr=False)
class PlainKey:
    """A key as its numbers: modulus, exponents, the two primes, and what is reckoned from these beforehand."""

    n: int
    e: int
    d: int
    p: int
    q: int
    dp: int
    dq: int
    qi: int

    @property
    def public(self) -> bytes:
        numbers = _element(_SEQUENCE, _integer(self.n) + _integer(self.e))
        return _element(_SEQUENCE, _element(_SEQUENCE, _RSA + b"\x05\x00") + _element(0x03, b"\0" + numbers))

    def sign(self, message: bytes) -> bytes:
        size = (self.n.bit_length() + 7) // 8
        told = _DIGEST_INFO + hashlib.sha256(message).digest()
        padded = int.from_bytes(b"\0\1" + b"\xff" * (size - len(told) - 3) + b"\0" + told, "big")
        return self._power(padded).to_bytes(size, "big")

    def _power(self, number: int) -> int:
        """`number` to the private exponent.

        Blinded, so that the time it takes says nothing about the key; and checked, because one wrong bit in one of the
        two halves would give the primes away to whoever sees the signature.
        """
        blind = secrets.randbelow(self.n - 2) + 2
        hidden = number * pow(blind, self.e, self.n) % self.n
        first, second = pow(hidden % self.p, self.dp, self.p), pow(hidden % self.q, self.dq, self.q)
        whole = second + self.q * (self.qi * (first - second) % self.p)
        found = whole * pow(blind, -1, self.n) % self.n
        if pow(found, self.e, self.n) != number:
            raise AccessDenied("a signature went wrong: the private key is damaged", "Give the key anew.")
        return found


def load_key(pem: str, place: str) -> PlainKey:
    """The key in a PEM text, with Python alone. The error says nothing of what the text is."""
    unread = AccessDenied(f"{place} holds no private key that can be read", "It must be in PEM form.")
    block = next((found for found in _BLOCK.finditer(pem) if found[1].endswith("PRIVATE KEY")), None)
    if block is None:
        raise unread
    if "ENCRYPTED" in block[0]:
        raise AccessDenied(
            f"{place} is encrypted, which needs the package cryptography, and that is not installed here",
            "Install it (`pip install cryptography`), or give the key without a passphrase.",
        )
    try:
        return _checked(_numbers(base64.b64decode("".join(block[2].split()), validate=True), place))
    except (ValueError, IndexError, binascii.Error):
        raise unread from None


def _numbers(der: bytes, place: str) -> PlainKey:
    """From PKCS#1, or from PKCS#8 which has that inside."""
    (_, whole), *_ = _elements(der)
    _, second, *others = _elements(whole)
    if second[0] == _SEQUENCE:
        if not second[1].startswith(_RSA):
            raise AccessDenied(f"{place} holds no RSA key", "Oracle takes RSA keys: `oci setup keys` makes one.")
        if others[0][0] != _OCTETS:
            raise ValueError("no key inside")
        return _numbers(others[0][1], place)
    found = [int.from_bytes(value, "big", signed=True) for kind, value in (second, *others) if kind == _INTEGER]
    return PlainKey(*found[:8]) if len(found) >= 8 else PlainKey(*[0] * 8)


def _checked(key: PlainKey) -> PlainKey:
    """The key itself, if its numbers belong together."""
    halves = (key.p, key.dp), (key.q, key.dq)
    whole = key.n.bit_length() >= _FEWEST_BITS and key.n == key.p * key.q and 2 < key.e < key.n and key.e % 2
    if not whole or min(key.p, key.q) < 3 or key.qi * key.q % key.p != 1:
        raise ValueError("not a key")
    if any(key.e * power % (prime - 1) != 1 or key.d % (prime - 1) != power for prime, power in halves):
        raise ValueError("not a key")
    return key


def _elements(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and content of each element of DER, one after the other."""
    at = 0
    while at < len(der):
        kind, size, at = der[at], der[at + 1], at + 2
        if size & 0x80:
            digits = size & 0x7F
            size, at = int.from_bytes(der[at : at + digits], "big"), at + digits
        if at + size > len(der):
            raise ValueError("it ends too early")
        yield kind, der[at : at + size]
        at += size


def _element(kind: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes([kind, size]) + content
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([kind, 0x80 | len(digits)]) + digits + content


def _integer(number: int) -> bytes:
    return _element(_INTEGER, number.to_bytes(number.bit_length() // 8 + 1, "big"))
