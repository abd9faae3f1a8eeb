"""The work dir in a bucket of Oracle's without its SDK: the tests of the other client, and what is this one's own."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from muster.clouds import oci_bare_http, oci_bare_signing, rsa
from muster.errors import AccessDenied, AlreadyExists, StoreBusy
from muster.rehearsal.oracle import OracleServer
from muster.rehearsal.principals import User
from muster.workdir import oci_bucket
from muster.workdir.oci_bucket import open_oci
from muster.workdir.store import Store
from tests.clouds.oracle_world import at

from . import test_oci_bucket as with_sdk
from .store_contract import ConcurrencyContract, ListingContract, StoreContract

server, user, world, store, sdk = with_sdk.server, with_sdk.user, with_sdk.world, with_sdk.store, with_sdk.sdk


@pytest.fixture(autouse=True)
def bare(world: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a node whose image has no SDK."""
    monkeypatch.setenv("MUSTER_OCI_CLIENT", "bare")
    from muster.clouds import oci_client

    def never(*_words: Any) -> None:
        raise AssertionError("this is the SDK's")

    monkeypatch.setattr(oci_client, "object_storage", never)


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signatures by Python alone, as where `cryptography` is not installed either."""
    monkeypatch.setattr(oci_bare_signing, "signing_key", lambda pem, _passphrase, place: rsa.load_key(pem, place))


class TestBareStore(StoreContract):
    pass


class TestBareListing(ListingContract):
    pass


class TestBareConcurrency(ConcurrencyContract):
    pass


class TestRequests(with_sdk.TestRequests):
    def test_the_bytes_of_an_object_are_not_hashed_for_its_signature_nor_announced(
        self, server: OracleServer, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[Any] = []
        send = oci_bare_http.Server.ask

        def look(self: Any, method: str, target: str, headers: Any, *words: Any) -> Any:
            seen.append(headers)
            return send(self, method, target, headers, *words)

        monkeypatch.setattr(oci_bare_http.Server, "ask", look)
        store.put_file("file", with_sdk.large(tmp_path / "file", 1))
        store.create("a", b"1")
        assert len(seen) == 2
        for headers in seen:
            assert "x-content-sha256" not in headers
            assert "expect" not in headers
            assert headers["content-type"] == "application/octet-stream"

    def test_a_key_that_is_taken_costs_no_connection(self, server: OracleServer) -> None:
        bucket = oci_bucket.OciBucket("training", server.namespace, {"endpoint": server.endpoint})
        idle = connections(bucket)
        bucket.put("taken", b"1")
        (first,) = idle
        for _ in range(5):
            bucket.put("taken", b"1")
            with pytest.raises(AlreadyExists):
                bucket.put("taken", b"1", mark="mine")
        assert list(idle) == [first]

    def test_threads_that_come_and_go_share_connections(self, server: OracleServer) -> None:
        bucket = oci_bucket.OciBucket("training", server.namespace, {"endpoint": server.endpoint})
        for turn in range(5):
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda number: bucket.put(f"shared/{number}", b""), range(turn * 8, turn * 8 + 8)))
        assert 1 <= len(connections(bucket)) <= 4

    def test_a_connection_that_the_server_closed_is_not_used_again(self, server: OracleServer) -> None:
        bucket = oci_bucket.OciBucket("training", server.namespace, {"endpoint": server.endpoint})
        bucket.put("closed", b"1")
        server.steering.lose(kind="get", way="close")
        with pytest.raises(StoreBusy):
            bucket.get("closed", 0, 1)
        before = server.steering.counts()
        assert bucket.get("closed", 0, 1).data == b"1"
        assert (server.steering.counts() - before).total == 1


class TestFaults(with_sdk.TestFaults):
    def test_nobody_listens(self) -> None:
        bucket = oci_bucket.OciBucket("training", "nobody", {"endpoint": "http://127.0.0.1:1"})
        with pytest.raises(StoreBusy, match="ConnectionRefusedError"):
            bucket.put("a", b"")


class TestUploads(with_sdk.TestUploads):
    pass


class TestEncryption(with_sdk.TestEncryption):
    pass


@pytest.mark.usefixtures("plain")
class TestCredentials(with_sdk.TestCredentials):
    @pytest.mark.parametrize("way", ["api_key", "security_token", "resource_principal"])
    def test_each_way_reads_and_writes(
        self, server: OracleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
    ) -> None:
        super().test_each_way_reads_and_writes(server, tmp_path, monkeypatch, way)

    def test_an_instance_needs_the_sdk(self, server: OracleServer) -> None:
        with pytest.raises(AccessDenied, match="an instance principal needs Oracle's SDK"):
            open_oci(at(server, "x", auth="instance_principal")).get("a")


class TestRefusals(with_sdk.TestRefusals):
    pass


def test_nothing_of_the_sdk_is_imported(server: OracleServer, user: User) -> None:
    code = f"""
import sys
from muster.workdir.opening import open_store
store = open_store({at(server, "imports")!r})
store.put("a", b"1")
assert store.get("a") == b"1"
assert not {{"oci", "requests", "urllib3"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def connections(bucket: oci_bucket.OciBucket) -> Any:
    """Those that wait for the next request."""
    return bucket._opened().client._server._idle
