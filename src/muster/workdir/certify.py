"""Makes certificates for one run: `python certify.py SECONDS` prints a key, its certificate and the authority's.

It knows nothing of Muster, because it may have to run in the script's Python: any from 3.8 with `cryptography`.
"""

from __future__ import annotations

import sys
from datetime import datetime, timedelta, timezone
from typing import Any

BEFORE = 3600.0
"""Seconds: the clock of another node may be behind the one of whoever makes them."""


def certified(seconds: float) -> tuple[str, str, str]:
    """The key and the certificate that all nodes share, and the authority's, valid for so long from now.

    The authority's own key is forgotten here, so that nobody can ever add to the nodes.
    """
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    authority, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    trusted = _signed("muster run", authority.public_key(), authority, authority.public_key(), seconds, True)
    issued = _signed("muster node", key.public_key(), authority, authority.public_key(), seconds, False)
    text = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    return text.decode(), *(one.public_bytes(form.Encoding.PEM).decode() for one in (issued, trusted))


def _signed(name: str, public: Any, signer: Any, signers: Any, seconds: float, authority: bool) -> Any:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    now = datetime.now(timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "muster run")]))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(seconds=BEFORE))
        .not_valid_after(now + timedelta(seconds=seconds))
        .add_extension(x509.BasicConstraints(authority, 0 if authority else None), critical=True)
        .add_extension(_usage(authority), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signers), critical=False)
    )
    if not authority:
        both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        names = x509.SubjectAlternativeName([x509.DNSName("muster-node")])
        made = made.add_extension(both, critical=False).add_extension(names, critical=False)
    return made.sign(signer, hashes.SHA256())


def _usage(authority: bool) -> Any:
    from cryptography import x509

    others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only")
    unused = dict.fromkeys((*others, "decipher_only"), False)
    return x509.KeyUsage(digital_signature=not authority, key_cert_sign=authority, crl_sign=authority, **unused)


if __name__ == "__main__":
    # The folder of this file comes first otherwise, and its modules would be taken for packages of the same names.
    del sys.path[0]
    sys.stdout.write("".join(certified(float(sys.argv[1]))))
