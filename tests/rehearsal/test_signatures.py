"""Signatures: who is let in, and what is not. The requests are signed by the real SDK."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest

from muster.rehearsal.identity import Identity, Principal, Unknown, new_key, private_pem, public_pem
from muster.rehearsal.messages import Request, read_request
from muster.rehearsal.principals import fingerprint
from muster.rehearsal.signatures import NotAuthenticated, verify

pytestmark = pytest.mark.unit

KEY, OTHER, AUTHORITY = new_key(), new_key(), new_key()
ANN = Principal("ocid1.user.oc1..ann", "ocid1.tenancy.oc1..t")
KEY_ID = f"{ANN.tenancy}/{ANN.id}/{fingerprint(KEY)}"


@pytest.fixture
def identity() -> Identity:
    known = Identity(authority=AUTHORITY)
    known.register(KEY_ID, ANN, public_pem(KEY))
    return known


def signer(key: Any = KEY) -> Any:
    import oci

    return oci.signer.Signer(ANN.tenancy, ANN.id, fingerprint(KEY), None, private_key_content=private_pem(key))


def signed(by: Any, method: str = "GET", path: str = "/n/x?a=1", body: bytes = b"", **options: Any) -> Request:
    """The request as it comes off the wire."""
    from oci._vendor import requests

    headers = options.pop("headers", {})
    made = requests.Request(method, f"http://127.0.0.1:1{path}", headers=headers, data=body or None).prepare()
    by(made, **options)
    lines = [f"{method} {made.path_url} HTTP/1.1", *(f"{name}: {value}" for name, value in made.headers.items())]
    lines += [] if "host" in (name.lower() for name in made.headers) else ["host: 127.0.0.1:1"]
    request = read_request(io.BytesIO("\r\n".join(lines).encode() + b"\r\n\r\n" + body))
    assert request is not None
    return request


def refused(request: Request, identity: Identity, **options: Any) -> str:
    with pytest.raises(NotAuthenticated) as caught:
        verify(request, identity, **{"body_is_signed": True, **options})
    return str(caught.value)


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_a_signed_request_is_its_signers(identity: Identity, method: str) -> None:
    assert verify(signed(signer(), method), identity, body_is_signed=True) == ANN


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_body_is_signed_too(identity: Identity, method: str) -> None:
    assert verify(signed(signer(), method, body=b'{"a": 1}'), identity, body_is_signed=True) == ANN


def test_an_objects_bytes_are_not(identity: Identity) -> None:
    request = signed(signer(), "PUT", body=b"bytes", enforce_content_headers=False)
    assert verify(request, identity, body_is_signed=False) == ANN
    request = signed(signer(), "PUT", body=b"bytes", enforce_content_headers=False)
    assert "these are not signed: content-length, content-type, x-content-sha256" in refused(request, identity)


def test_another_key_does_not_fit(identity: Identity) -> None:
    assert "does not fit" in refused(signed(signer(OTHER)), identity)


def other_target(request: Request) -> None:
    request.target = request.target.replace("a=1", "a=2")


def other_method(request: Request) -> None:
    request.method = "DELETE"


def other_host(request: Request) -> None:
    request.headers = {**request.headers, "host": "elsewhere"}


@pytest.mark.parametrize("change", [other_target, other_method, other_host])
def test_what_was_changed_on_the_way_is_refused(identity: Identity, change: Callable[[Request], None]) -> None:
    request = signed(signer())
    change(request)
    assert "does not fit" in refused(request, identity)


def test_a_body_that_was_changed_on_the_way_is_refused(identity: Identity) -> None:
    request = signed(signer(), "POST", body=b'{"a": 1}')
    request._content = b'{"a": 2}'
    assert "not the one that was signed" in refused(request, identity)


@pytest.mark.parametrize("away", [-400, 400])
def test_a_date_too_far_away_is_refused(identity: Identity, away: int) -> None:
    headers = {"date": formatdate(time.time() + away, usegmt=True)}
    assert "away from this clock" in refused(signed(signer(), headers=headers), identity)
    near = {"date": formatdate(time.time() + away * 0.7, usegmt=True)}
    assert verify(signed(signer(), headers=near), identity, body_is_signed=True) == ANN


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer x",
        'Signature algorithm="rsa-sha256",keyId="a"',
        'Signature algorithm="rsa-sha256",keyId="a",headers="date",signature="%"',
    ],
)
def test_what_is_no_signature_is_refused(identity: Identity, header: str) -> None:
    request = signed(signer())
    request.headers = {**request.headers, "authorization": header}
    refused(request, identity)


def test_a_key_that_is_not_known_or_forgotten_is_refused(identity: Identity) -> None:
    assert "no such key" in refused(signed(signer()), Identity(authority=AUTHORITY))
    identity.forget(KEY_ID)
    assert "no such key" in refused(signed(signer()), identity)


def token_signer(token: str) -> Any:
    import oci

    return oci.auth.signers.SecurityTokenSigner(token, KEY)


def test_a_token_speaks_for_whom_it_was_issued(identity: Identity) -> None:
    run = Principal("ocid1.run", "ocid1.tenancy", "resource", {"res_type": "datasciencejobrun"})
    found = verify(signed(token_signer(identity.issue(run, public_pem(KEY), 60))), identity, body_is_signed=True)
    assert (found.id, found.tenancy, found.kind) == (run.id, run.tenancy, run.kind)
    assert found.claims["res_type"] == "datasciencejobrun"


def test_a_token_is_worth_nothing_without_its_key(identity: Identity) -> None:
    token = identity.issue(ANN, public_pem(OTHER), 60)
    assert "does not fit" in refused(signed(token_signer(token)), identity)


def test_a_token_expires() -> None:
    now = [time.time()]
    identity = Identity(lambda: now[0], AUTHORITY)
    token = identity.issue(ANN, public_pem(KEY), 60)
    verify(signed(token_signer(token)), identity, body_is_signed=True)
    now[0] += 61
    assert "expired" in refused(signed(token_signer(token)), identity)


def test_a_token_of_another_cloud_is_refused(identity: Identity) -> None:
    token = Identity(authority=OTHER).issue(ANN, public_pem(KEY), 60)
    assert "not one of this cloud" in refused(signed(token_signer(token)), identity)


def test_a_token_can_be_forgotten(identity: Identity) -> None:
    token = identity.issue(ANN, public_pem(KEY), 60)
    identity.forget(f"ST${token}")
    assert "expired" in refused(signed(token_signer(token)), identity)


@pytest.mark.parametrize("token", ["", "a.b.c", "é"])
def test_a_token_that_is_none_is_refused(identity: Identity, token: str) -> None:
    with pytest.raises(Unknown):
        identity.find(f"ST${token}")
