"""The ways into Oracle's cloud, each through the SDK's own signer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import oci
import pytest
from oci.exceptions import ServiceError

from muster.rehearsal import oracle

from .conftest import Connect


def not_authenticated(call: Any) -> bool:
    with pytest.raises(ServiceError) as caught:
        call()
    return (caught.value.status, caught.value.code) == (401, "NotAuthenticated")


def test_an_api_key(oci_server: oracle.OracleServer, tmp_path: Path, connect: Connect) -> None:
    user = oci_server.make_user(tmp_path, "ann")
    ann = connect(oci_server, user.config_file)
    assert ann.get_namespace().data == oci_server.namespace
    assert user.key_file.stat().st_mode & 0o077 == 0
    oci_server.forget(user.key_id)
    assert not_authenticated(ann.get_namespace)


def test_the_key_of_another(oci_server: oracle.OracleServer, tmp_path: Path, connect: Connect) -> None:
    ann = oci_server.make_user(tmp_path / "ann", "ann")
    bob = oci_server.make_user(tmp_path / "bob", "bob")
    ann.key_file.write_text(bob.key_file.read_text())
    assert not_authenticated(connect(oci_server, ann.config_file).get_namespace)


def test_a_clock_that_goes_wrong(oci_server: oracle.OracleServer, objects: Any) -> None:
    oci_server.set_clock(200)
    objects.get_namespace()
    oci_server.set_clock(400)
    assert not_authenticated(objects.get_namespace)
    oci_server.set_clock(-400)
    assert not_authenticated(objects.get_namespace)


def test_a_security_token(oci_server: oracle.OracleServer, tmp_path: Path, connect: Connect) -> None:
    def session(seconds: float) -> Any:
        made = oci_server.make_session(tmp_path, seconds=seconds)
        config = oci.config.from_file(str(made.config_file))
        key = oci.signer.load_private_key_from_file(config["key_file"])
        token = Path(config["security_token_file"]).read_text()
        return connect(oci_server, signer=oci.auth.signers.SecurityTokenSigner(token, key))

    assert session(60).get_namespace().data == oci_server.namespace
    assert not_authenticated(session(-1).get_namespace)


def test_a_resource_principal(
    oci_server: oracle.OracleServer, monkeypatch: pytest.MonkeyPatch, connect: Connect
) -> None:
    for name, value in oci_server.resource_principal().items():
        monkeypatch.setenv(name, value)
    signer = oci.auth.signers.get_resource_principals_signer()
    assert connect(oci_server, signer=signer).get_namespace().data == oci_server.namespace
    assert signer.tenancy_id == oci_server.tenancy
    assert signer.get_claim("res_type") == "datasciencejobrun"


def test_a_resource_principal_whose_token_is_renewed_goes_on(
    oci_server: oracle.OracleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connect: Connect
) -> None:
    for name, value in oci_server.resource_principal(folder=tmp_path).items():
        monkeypatch.setenv(name, value)
    run = connect(oci_server, signer=oci.auth.signers.get_resource_principals_signer())
    run.get_namespace()
    oci_server.forget(f"ST${(tmp_path / 'rpst').read_text()}")
    assert not_authenticated(run.get_namespace)
    oci_server.resource_principal(folder=tmp_path)
    before = oci_server.steering.counts()
    assert run.get_namespace().data == oci_server.namespace
    assert (oci_server.steering.counts() - before).total == 2


def test_an_instance_principal(
    oci_server: oracle.OracleServer, monkeypatch: pytest.MonkeyPatch, connect: Connect
) -> None:
    for name, value in oci_server.instance_principal().items():
        monkeypatch.setenv(name, value)
    signer = oci.auth.signers.InstancePrincipalsSecurityTokenSigner(
        federation_endpoint=f"{oci_server.endpoint}/v1/x509"
    )
    assert connect(oci_server, signer=signer).get_namespace().data == oci_server.namespace
    for holder in (
        signer.leaf_certificate_retriever,
        signer.intermediate_certificate_retriever,
        signer.federation_client,
    ):
        holder.requests_session.close()
    assert (signer.tenancy_id, signer.region) == (oci_server.tenancy, oci_server.region)
