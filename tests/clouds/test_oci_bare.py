"""Oracle's cloud without its SDK: who we are, how we reach it, and the few calls of a node."""

from __future__ import annotations

import base64
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from muster.clouds import oci, oci_bare_http, oci_bare_signing
from muster.clouds.oci import session
from muster.clouds.oci_bare import FAILURES, ObjectStorage, answer_of
from muster.clouds.oci_bare_calls import Calls, cancel_run, list_runs, secret
from muster.clouds.oci_bare_regions import in_full, service_host
from muster.errors import AccessDenied, CloudError, StoreError
from muster.rehearsal import oracle, principals
from muster.rehearsal.front import Server
from muster.rehearsal.identity import Identity
from muster.rehearsal.messages import Answer
from muster.rehearsal.object_storage import ObjectStorage as Storage
from muster.rehearsal.oracle import OracleServer
from muster.rehearsal.oracle_cloud import OracleCloud
from muster.rehearsal.principals import User
from muster.rehearsal.routing import Call, Refusal, Route, json_answer
from muster.rehearsal.steering import Steering

from . import test_oci as with_sdk

server, nobody, user = with_sdk.server, with_sdk.nobody, with_sdk.user


@pytest.fixture(autouse=True)
def bare(nobody: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a node whose image has no SDK."""
    monkeypatch.setenv("MUSTER_OCI_CLIENT", "bare")
    monkeypatch.setattr(
        with_sdk, "namespace", lambda server, who: ObjectStorage(who, server.endpoint).get_namespace().data
    )
    monkeypatch.setattr(with_sdk, "status", status)


def status(server: OracleServer, who: oci.Session) -> int:
    try:
        return ObjectStorage(who, server.endpoint).get_namespace().status
    except FAILURES as error:
        return answer_of(error).status


class TestWays(with_sdk.TestWays):
    def test_an_instance_where_there_is_nothing_else(
        self, server: OracleServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(AccessDenied, match="an instance principal needs Oracle's SDK"):
            session()

    def test_nothing_at_all_says_what_could_be_there(self) -> None:
        with pytest.raises(AccessDenied, match="an instance principal needs Oracle's SDK"):
            session()

    def test_the_environment_chooses_and_what_is_said_comes_first(  # type: ignore[override]
        self, server: OracleServer, user: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OCI_IAM_TYPE", "Instance_Principal")
        with pytest.raises(AccessDenied, match="an instance principal"):
            session()
        assert session("api_key").way == "api_key"


class TestRenewal(with_sdk.TestRenewal):
    test_an_instance_gets_another_token_after_a_refusal = None  # type: ignore[assignment]


class TestMistakes:
    def test_a_resource_principal_that_is_not_whole(self, monkeypatch: pytest.MonkeyPatch) -> None:
        told = with_sdk.told("resource_principal")
        assert "lacks OCI_RESOURCE_PRINCIPAL_VERSION and OCI_RESOURCE_PRINCIPAL_RPST" in told
        monkeypatch.setenv("OCI_RESOURCE_PRINCIPAL_VERSION", "7")
        assert "a resource principal of version 7 needs Oracle's SDK" in with_sdk.told()

    def test_a_region_that_nothing_names(self, user: User) -> None:
        with_sdk.profile(user, region="")
        with pytest.raises(StoreError, match="in which region"):
            ObjectStorage(session())

    def test_a_fingerprint_of_another_key(self, user: User) -> None:
        other = ":".join(["ab"] * 16)
        with_sdk.profile(user, fingerprint=other)
        assert f"has the fingerprint {user.fingerprint}, not {other}" in with_sdk.told()

    def test_a_key_with_a_passphrase_where_only_python_is_there(
        self, user: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with_sdk.lock(user.key_file, "open sesame")
        with_sdk.profile(user, pass_phrase="open sesame")
        monkeypatch.setitem(sys.modules, "cryptography", None)
        assert f"the key file {user.key_file} is encrypted, which needs the package cryptography" in with_sdk.told()
        assert "sesame" not in with_sdk.told()


def test_where_the_sdk_is_missing_nothing_need_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUSTER_OCI_CLIENT")
    assert not oci.is_bare()
    assert oci.clients().__name__.endswith("oci_client")
    monkeypatch.setattr(oci, "find_spec", lambda _name: None)
    assert oci.is_bare()
    assert oci.clients().__name__.endswith("oci_bare")
    with pytest.raises(StoreError, match="needs its SDK"):
        oci.check_installed()


def test_regions_are_where_the_sdk_has_them() -> None:
    from oci.regions import REGIONS_SHORT_NAMES, endpoint_for

    for short, region in REGIONS_SHORT_NAMES.items():
        assert in_full(short.upper()) == in_full(region) == region
        told = endpoint_for("object_storage", region, service_endpoint_template=_template("objectstorage.{region}"))
        assert told == f"https://{service_host('objectstorage', region)}"
        told = endpoint_for("secrets", region, service_endpoint_template=_template("secrets.vaults.{region}.oci"))
        assert told == f"https://{service_host('secrets.vaults', region)}"
    assert service_host("datascience", "xx-later-1") == "datascience.xx-later-1.oci.oraclecloud.com"


def _template(start: str) -> str:
    return f"https://{start}.{{secondLevelDomain}}"


def test_the_hosts_are_those_of_the_sdks_clients(user: User) -> None:
    from oci.config import from_file
    from oci.data_science import DataScienceClient
    from oci.object_storage import ObjectStorageClient
    from oci.secrets import SecretsClient

    services = {"datascience": DataScienceClient, "secrets.vaults": SecretsClient, "objectstorage": ObjectStorageClient}
    for service, kind in services.items():
        told = kind(from_file(str(user.config_file))).base_client.endpoint.replace("{dualStack?ds.oci.:}", "")
        assert told.startswith(f"https://{service_host(service, 'us-ashburn-1')}")


# --- the few calls of a node -------------------------------------------------------------------------------


class Science:
    """Job runs and secrets, as far as a node asks for them."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []
        self.bodies: list[bytes] = []

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/20190301/secretbundles/{id}", self.bundle, "secret"),
            Route("POST", "/20190101/jobRuns/{id}/actions/cancelJobRun", self.cancel, "cancel"),
            Route("GET", "/20190101/jobRuns", self.list, "runs"),
        ]

    def bundle(self, call: Call) -> Answer:
        if call.parts["id"] == "ocid1.vaultsecret.none":
            raise Refusal(404, "NotAuthorizedOrNotFound", "Authorization failed or requested resource not found.")
        if call.parts["id"] == "ocid1.vaultsecret.empty":
            return json_answer({"secretId": call.parts["id"], "secretBundleContent": None})
        content = {"contentType": "BASE64", "content": base64.b64encode(b"sesame \xff").decode()}
        return json_answer({"secretId": call.parts["id"], "secretBundleContent": content})

    def cancel(self, call: Call) -> Answer:
        self.bodies.append(call.request.content())
        if call.parts["id"] in self.cancelled:
            raise Refusal(409, "IncorrectState", "it has ended")
        self.cancelled.append(call.parts["id"])
        return Answer(204, b"", {})

    def list(self, call: Call) -> Answer:
        page = int(call.query.get("page", "0"))
        names = {name: call.query[name] for name in ("compartmentId", "jobId")}
        more = {"opc-next-page": str(page + 1)} if page < 2 else {}
        return json_answer([{"id": f"run-{page}", "lifecycleState": "IN_PROGRESS", **names}], headers=more)


@pytest.fixture
def science() -> Science:
    return Science()


@pytest.fixture
def steering(science: Science, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Steering]:
    identity, storage = Identity(), Storage(tmp_path / "blobs")
    routes = [*storage.routes(), *science.routes()]
    with Server(OracleCloud(identity, routes, oracle.controls(identity, storage))) as made:
        steering = Steering(made.endpoint)
        for name, value in principals.resource_principal(steering, 3600, tmp_path / "principal").items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("MUSTER_OCI_ENDPOINT", made.endpoint)
        yield steering


class TestCalls:
    def test_a_secret(self, steering: Steering) -> None:
        assert secret("ocid1.vaultsecret.one") == b"sesame \xff"

    def test_secrets_that_cannot_be_had(self, steering: Steering) -> None:
        with pytest.raises(CloudError, match="refused to read the secret: 404 NotAuthorizedOrNotFound") as caught:
            secret("ocid1.vaultsecret.none")
        assert caught.value.status == 404
        assert caught.value.request
        with pytest.raises(CloudError, match="has no content"):
            secret("ocid1.vaultsecret.empty")

    def test_runs_of_a_job_page_by_page_and_their_end(self, steering: Steering, science: Science) -> None:
        found = list_runs("ocid1.compartment.one", "ocid1.job.one")
        assert [run["id"] for run in found] == ["run-0", "run-1", "run-2"]
        assert {run["jobId"] for run in found} == {"ocid1.job.one"}
        for run in found:
            cancel_run(run["id"])
        assert science.cancelled == ["run-0", "run-1", "run-2"]
        assert set(science.bodies) == {b""}
        with pytest.raises(CloudError, match="409 IncorrectState"):
            cancel_run("run-0")

    def test_the_endpoint_of_data_science_alone(self, steering: Steering, monkeypatch: pytest.MonkeyPatch) -> None:
        import os

        monkeypatch.setenv("OCI_ODSC_SERVICE_ENDPOINT", os.environ["MUSTER_OCI_ENDPOINT"])
        monkeypatch.setenv("MUSTER_OCI_ENDPOINT", "http://127.0.0.1:1")
        assert len(list_runs("c", "j")) == 3

    def test_what_is_busy_is_asked_again_and_a_token_that_was_renewed_is_taken(
        self, steering: Steering, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(time, "sleep", lambda _pause: None)
        steering.fail(times=2, status=429)
        steering.lose(times=1)
        calls = Calls(session(bare=True))
        assert calls.secret("one") == b"sesame \xff"
        steering.ask("POST", "forget", "ST$" + (tmp_path / "principal" / "rpst").read_text())
        principals.resource_principal(steering, 3600, tmp_path / "principal")
        assert calls.secret("one") == b"sesame \xff"

    def test_what_stays_away_is_told(self, steering: Steering) -> None:
        with steering.away(), pytest.raises(CloudError, match="503 ServiceUnavailable"):
            Calls(patience=0.1).secret("one")
        with steering.away("close"), pytest.raises(CloudError, match="did not answer when it was asked to read"):
            Calls(patience=0.1).secret("one")

    def test_with_the_sdk_there_it_is_not_used(self, steering: Steering, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("MUSTER_OCI_CLIENT")
        assert isinstance(Calls()._session.signer, oci_bare_signing.BareIdentity)
        assert secret("ocid1.vaultsecret.one") == b"sesame \xff"


# --- the way there -----------------------------------------------------------------------------------------


class Relay:
    """A proxy, or the end of a TLS connection, before the cloud: notes what comes and passes it on."""

    def __init__(self, towards: str, context: ssl.SSLContext | None = None) -> None:
        host, _, port = towards.rpartition("/")[2].partition(":")
        self._towards, self._context = (host, int(port)), context
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        self.heads: list[bytes] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._door.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._serve, args=(near,)))
            self._threads[-1].start()

    def _serve(self, near: socket.socket) -> None:
        try:
            with self._context.wrap_socket(near, server_side=True) if self._context else near as inside:
                self._pass(inside)
        except OSError:
            near.close()  # whoever came did not trust us

    def _pass(self, near: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head and (more := near.recv(1 << 16)):
            head += more
        self.heads.append(head)
        with socket.create_connection(self._towards) as far:
            if head.startswith(b"CONNECT"):
                near.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                method, target, rest = head.split(b" ", 2)
                path = b"/" + target.split(b"/", 3)[3] if target.startswith(b"http") else target
                far.sendall(b" ".join([method, path, rest]))
            back = threading.Thread(target=_pump, args=(far, near))
            back.start()
            _pump(near, far)
            back.join(10)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


@contextmanager
def relayed(towards: str, context: ssl.SSLContext | None = None) -> Iterator[Relay]:
    relay = Relay(towards, context)
    try:
        yield relay
    finally:
        relay.close()


def certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """One of a server on this machine, which is its own authority."""
    import datetime
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key, name = rsa.generate_private_key(65537, 2048), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "me")])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path, both = folder / "authority.pem", folder / "both.pem"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    both.write_bytes(path.read_bytes() + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    return path, context


@pytest.fixture
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    oci_bare_http._trust.cache_clear()
    yield
    oci_bare_http._trust.cache_clear()


@pytest.mark.usefixtures("no_proxy")
class TestWayThere:
    def test_a_proxy_is_told_the_whole_address_and_the_cloud_the_path_that_was_signed(
        self, server: OracleServer, user: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with relayed(server.endpoint) as proxy:
            monkeypatch.setenv("http_proxy", f"http://me:se%20same@127.0.0.1:{proxy.port}")
            client = ObjectStorage(session(), server.endpoint)
            assert client.get_namespace().data == server.namespace
            monkeypatch.setenv("no_proxy", "127.0.0.1")
            assert ObjectStorage(session(), server.endpoint).get_namespace().data == server.namespace
            client._server.close()
        (head,) = proxy.heads
        assert head.startswith(f"GET {server.endpoint}/n HTTP/1.1".encode())
        words = base64.b64encode(b"me:se same")
        assert b"Proxy-Authorization: Basic " + words in head

    def test_tls_with_an_authority_of_ones_own_through_a_tunnel(
        self, server: OracleServer, user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        authority, context = certificate(tmp_path)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        with relayed(server.endpoint, context) as secure, relayed(f"127.0.0.1:{secure.port}") as proxy:
            monkeypatch.setenv("HTTPS_PROXY", f"127.0.0.1:{proxy.port}")
            client = ObjectStorage(session(), f"https://127.0.0.1:{secure.port}")
            client.put_object(server.namespace, "training", "by tls", bytes(1 << 20))
            found = client.get_object(server.namespace, "training", "by tls")
            assert found.data.raw.read(decode_content=False) == bytes(1 << 20)
            client._server.close()
        (head,) = proxy.heads
        assert head.startswith(f"CONNECT 127.0.0.1:{secure.port} ".encode())
        assert len(secure.heads) == 1, "one connection is enough"

    def test_a_stranger_is_not_trusted(self, server: OracleServer, user: User, tmp_path: Path) -> None:
        _, context = certificate(tmp_path)
        with relayed(server.endpoint, context) as secure:
            client = ObjectStorage(session(), f"https://127.0.0.1:{secure.port}")
            with pytest.raises(StoreError, match=r"the certificate of 127\.0\.0\.1 was refused") as caught:
                client.get_namespace()
        assert "SSL_CERT_FILE" in caught.value.fix
        assert secure.heads == []


def test_the_command_loads_nothing_of_it() -> None:
    code = "import sys, muster.cli; assert not [name for name in sys.modules if 'oci_bare' in name or name == 'ssl']"
    subprocess.run([sys.executable, "-c", code], check=True)
