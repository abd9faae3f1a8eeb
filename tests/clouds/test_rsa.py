"""Signatures by Python alone are those of `cryptography`, for every key that can be read; what cannot be is told."""

from __future__ import annotations

import base64
import subprocess
import sys
from functools import cache
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.clouds.rsa import PlainKey, SigningKey, load_key, signing_key
from muster.errors import AccessDenied

FORMS = ("PKCS8", "TraditionalOpenSSL")


@cache
def key(bits: int = 2048, exponent: int = 65537) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(exponent, bits)


def pem_of(private: Any, form: str = "PKCS8", passphrase: bytes = b"") -> str:
    sealed = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    shape = getattr(serialization.PrivateFormat, form)
    return str(private.private_bytes(serialization.Encoding.PEM, shape, sealed).decode())


def check(private: rsa.RSAPrivateKey, signature: bytes, message: bytes) -> None:
    private.public_key().verify(signature, message, padding.PKCS1v15(), hashes.SHA256())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bits", [1024, 1031, 2048])
def test_keys_of_every_size_and_form(bits: int, form: str) -> None:
    plain = load_key(pem_of(key(bits), form), "here")
    check(key(bits), plain.sign(b"a message"), b"a message")
    public = (
        key(bits).public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    assert plain.public == public


def test_a_small_exponent() -> None:
    check(key(1024, 3), load_key(pem_of(key(1024, 3)), "here").sign(b"x"), b"x")


def test_many_keys() -> None:
    for _ in range(6):
        private = rsa.generate_private_key(65537, 1024)  # noqa: S505 - it guards nothing
        check(private, load_key(pem_of(private), "here").sign(b"x"), b"x")


@settings(deadline=None, max_examples=40)
@given(st.binary(max_size=300))
def test_any_message_has_the_one_signature_that_there_is(message: bytes) -> None:
    plain, hardened = both()
    assert plain.sign(message) == hardened.sign(message)
    with pytest.raises(InvalidSignature):
        check(key(1024), plain.sign(message), message + b"!")


@cache
def both() -> tuple[PlainKey, SigningKey]:
    text = pem_of(key(1024))
    hardened = signing_key(text, "", "here")
    assert not isinstance(hardened, PlainKey)
    return load_key(text, "here"), hardened


def test_what_stands_around_it_is_no_matter() -> None:
    text = f"Bag Attributes\n{pem_of(key())}OCI_API_KEY\n".replace("\n", "\r\n")
    check(key(), load_key(text, "here").sign(b"x"), b"x")


def test_with_a_passphrase_where_cryptography_is_there() -> None:
    check(key(), signing_key(pem_of(key(), passphrase=b"sesame"), "sesame", "here").sign(b"x"), b"x")


@pytest.mark.parametrize("form", FORMS)
def test_an_encrypted_one_is_told_to_be_so(form: str) -> None:
    with pytest.raises(AccessDenied, match="the key file is encrypted, which needs the package cryptography"):
        load_key(pem_of(key(), form, b"sesame"), "the key file")


def test_a_key_of_another_kind() -> None:
    with pytest.raises(AccessDenied, match="the key file holds no RSA key"):
        load_key(pem_of(ec.generate_private_key(ec.SECP256R1())), "the key file")


@pytest.mark.parametrize("text", ["", "nonsense", "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----"])
def test_no_key_at_all(text: str) -> None:
    with pytest.raises(AccessDenied, match="the key file holds no private key that can be read"):
        load_key(text, "the key file")


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(FORMS), st.data())
def test_a_damaged_one_is_refused_or_harmless(form: str, data: st.DataObject) -> None:
    """Whatever is wrong with it, nothing but a true signature is given away, and nothing of it is told."""
    der = bytearray(base64.b64decode("".join(pem_of(key(1024), form).splitlines()[1:-1])))
    at = data.draw(st.integers(0, len(der) - 1))
    how = data.draw(st.sampled_from(["cut", "change", "double"]))
    if how == "cut":
        del der[at:]
    elif how == "change":
        der[at] ^= data.draw(st.integers(1, 255))
    else:
        der[at:at] = der[at : at + 40]
    kind = "RSA PRIVATE KEY" if form == "TraditionalOpenSSL" else "PRIVATE KEY"
    text = base64.encodebytes(bytes(der)).decode()
    try:
        found = load_key(f"-----BEGIN {kind}-----\n{text}-----END {kind}-----\n", "the key file")
    except AccessDenied as error:
        told = str(error)
    else:
        told, value = "", found.sign(b"x")
        check(key(1024), value, b"x")
    assert not [line for line in text.splitlines() if line in told]


def test_a_slip_of_the_machine_gives_no_signature_away() -> None:
    """With one half wrong, whoever sees the result could reckon the primes out of it."""
    good = load_key(pem_of(key(1024)), "here")
    bad = PlainKey(good.n, good.e, good.d, good.p, good.q, good.dp ^ 2, good.dq, good.qi)
    with pytest.raises(AccessDenied, match="a signature went wrong"):
        bad.sign(b"x")


def test_nothing_of_a_key_is_shown() -> None:
    assert str(load_key(pem_of(key(1024)), "here").p) not in repr(load_key(pem_of(key(1024)), "here"))


def test_where_cryptography_is_missing_python_does_it(tmp_path: Any) -> None:
    (tmp_path / "key.pem").write_text(pem_of(key()))
    code = """
import sys
sys.modules["cryptography"] = None
from pathlib import Path
from muster.clouds.rsa import signing_key
made = signing_key(Path(sys.argv[1]).read_text(), "", "here")
print(type(made).__name__, made.sign(b"x").hex())
"""
    words = [sys.executable, "-c", code, str(tmp_path / "key.pem")]
    kind, signature = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    assert kind == "PlainKey"
    check(key(), bytes.fromhex(signature), b"x")
