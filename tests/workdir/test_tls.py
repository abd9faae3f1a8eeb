"""The certificates of a run: what they are good for, how long, and that there is one set of them."""

from __future__ import annotations

import ssl
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from muster.clouds.pems import Pems, joined
from muster.errors import NotFound, StoreError
from muster.workdir import certify
from muster.workdir.memory import MemoryStore
from muster.workdir.run import RunFolder
from muster.workdir.tls import certificates_of, keep_certificates, lay_out, lifetime, made_here

pytestmark = pytest.mark.unit


@pytest.fixture
def run() -> RunFolder:
    return RunFolder(MemoryStore("tls"), "run-1")


def context(pems: Pems, trusted: Pems, folder: Path, server: bool) -> ssl.SSLContext:
    """As strict as any Python is by itself, which is stricter than Dask."""
    _, certificate, key = lay_out(pems, folder)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.load_cert_chain(certificate, key)
    made.load_verify_locations(cadata=trusted.authority)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags |= ssl.VERIFY_X509_STRICT
    return made


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """A handshake without a network; raises what either side has to say against the other."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(back, there), server.wrap_bio(there, back, server_side=True)]
    left = list(sides)
    while left:
        for side in list(left):
            try:
                side.do_handshake()
                left.remove(side)
            except ssl.SSLWantReadError:
                continue


def test_nodes_of_a_run_know_each_other_both_ways(tmp_path: Path) -> None:
    pems = made_here(60)
    shake_hands(context(pems, pems, tmp_path / "a", False), context(pems, pems, tmp_path / "b", True))


def test_nodes_of_two_runs_do_not(tmp_path: Path) -> None:
    ours, theirs = made_here(60), made_here(60)
    for client, server in ((ours, theirs), (theirs, ours)):
        folder = tmp_path / client.key[40:50].replace("/", "-")
        with pytest.raises(ssl.SSLCertVerificationError, match="verify failed"):
            # The client trusts the server, so it is the server that turns it away.
            shake_hands(context(client, server, folder / "a", False), context(server, server, folder / "b", True))


def test_certificates_hold_from_before_the_run_until_after_its_end() -> None:
    now = datetime.now(timezone.utc)
    pems = made_here(lifetime(8 * 3600.0))
    for text in (pems.authority, pems.certificate):
        found = x509.load_pem_x509_certificate(text.encode())
        assert 3500 < (now - found.not_valid_before_utc).total_seconds() < 3700
        assert 32 * 3600 - 60 < (found.not_valid_after_utc - now).total_seconds() < 32 * 3600 + 60
        key = found.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        assert key.curve.name == "secp256r1"
    assert lifetime(None) > 300 * 24 * 3600


def test_nobody_can_add_to_the_nodes() -> None:
    """The key that all share is not the authority's, which nobody has, and its certificate may sign no other."""
    pems = made_here(60)
    authority, certificate = (
        x509.load_pem_x509_certificate(text.encode()) for text in (pems.authority, pems.certificate)
    )
    assert authority.public_key() != certificate.public_key()
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert pems.bundle().count("PRIVATE KEY-----") == 2
    assert authority.serial_number != certificate.serial_number


def test_a_run_has_one_set_whoever_comes_second(run: RunFolder) -> None:
    with pytest.raises(NotFound):
        certificates_of(run)
    first = keep_certificates(run, lambda: made_here(60))
    assert keep_certificates(run, lambda: made_here(60)) == first == certificates_of(run)


def test_damaged_ones_are_no_certificates_and_are_not_shown(run: RunFolder) -> None:
    whole = keep_certificates(run, lambda: made_here(60)).bundle()
    run.store.put(run.at("tls.pem"), whole[: len(whole) // 2].encode())
    with pytest.raises(StoreError, match="is damaged: expected a key") as caught:
        certificates_of(run)
    assert whole.splitlines()[1] not in str(caught.value)


def test_a_key_is_never_shown() -> None:
    pems = made_here(60)
    assert pems.key.splitlines()[1] not in repr(pems)


def test_files_are_for_their_owner_alone_also_where_others_were_before(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    folder.mkdir(mode=0o755)
    (folder / "key.pem").write_text("of an earlier start")
    (folder / "key.pem").chmod(0o644)
    pems = made_here(60)
    files = lay_out(pems, folder)
    assert [path.read_text() for path in files] == [pems.authority, pems.certificate, pems.key]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_any_python_with_cryptography_can_make_them() -> None:
    done = subprocess.run([sys.executable, certify.__file__, "60"], capture_output=True, text=True, check=True)
    pems = Pems.of_bundle(done.stdout)
    assert x509.load_pem_x509_certificate(pems.certificate.encode()).not_valid_after_utc.timestamp() > time.time()
    assert done.stderr == ""


def test_chains_are_joined_without_repeating() -> None:
    one, two = made_here(60).certificate, made_here(60).certificate
    assert joined(one, one + two, None, "", "no block") == one + two
    assert joined(one.replace("\n", "\r\n")) == one
