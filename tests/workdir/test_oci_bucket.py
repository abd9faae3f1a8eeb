"""The work dir in a bucket of Oracle's: the same promises, with the real SDK and its signatures verified."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from muster.errors import AccessDenied, AlreadyExists, NotFound, ObjectChanged, StoreBusy, StoreError
from muster.rehearsal import oracle
from muster.rehearsal.oracle import OracleServer
from muster.rehearsal.principals import User
from muster.workdir import oci_bucket, oci_upload
from muster.workdir.bucket import BucketStore
from muster.workdir.files import sha256_of
from muster.workdir.oci_bucket import open_oci
from muster.workdir.opening import open_store
from muster.workdir.store import Store
from tests.clouds.oracle_world import at, forget_oracle, padded, replace_unseen

from .store_contract import ConcurrencyContract, ListingContract, StoreContract

fresh = count()


@pytest.fixture(scope="module")
def server() -> Iterator[OracleServer]:
    with oracle.started("training") as server:
        yield server


@pytest.fixture(scope="module")
def user(server: OracleServer, tmp_path_factory: pytest.TempPathFactory) -> User:
    return server.make_user(tmp_path_factory.mktemp("oracle"))


@pytest.fixture(autouse=True)
def world(server: OracleServer, user: User, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    forget_oracle(monkeypatch, tmp_path / "home")
    monkeypatch.setenv("OCI_CONFIG_FILE", str(user.config_file))
    yield
    server.steering.clear()
    server.deny()


@pytest.fixture
def store(server: OracleServer) -> Store:
    return open_store(at(server, f"team a/{next(fresh)}"))


@pytest.fixture
def sdk(server: OracleServer, user: User) -> Any:
    """The SDK as other people use it."""
    import oci

    return oci.object_storage.ObjectStorageClient(
        oci.config.from_file(str(user.config_file)),
        service_endpoint=server.endpoint,
        retry_strategy=oci.retry.NoneRetryStrategy(),
    )


class TestOciStore(StoreContract):
    pass


class TestOciListing(ListingContract):
    pass


class TestOciConcurrency(ConcurrencyContract):
    pass


def uploads(server: OracleServer, sdk: Any) -> list[Any]:
    return list(sdk.list_multipart_uploads(server.namespace, "training").data)


def large(path: Path, megabytes: int) -> Path:
    """A file that is larger than one request takes; no two blocks of it are the same."""
    with path.open("wb") as file:
        for number in range(megabytes):
            file.write(number.to_bytes(8, "big") * (1 << 17))
    return path


class TestRequests:
    """What each call costs; the SDK's own retries would show here."""

    def test_one_request_for_each_of_the_small_ones(self, server: OracleServer, store: Store) -> None:
        store.put("first", b"")
        before = server.steering.counts()
        store.create("a", b"1")
        store.put("a", b"22")
        assert store.get("a") == b"22"
        assert [entry.key for entry in store.list()] == ["a", "first"]
        assert list(store.list_names()) == ["a", "first"]
        store.delete_all([f"no/{number}" for number in range(900)])
        store.delete("a")
        spent = server.steering.counts() - before
        assert (spent.of("put"), spent.of("get"), spent.of("list"), spent.of("delete")) == (2, 1, 2, 2)
        assert spent.total == 7

    def test_a_listing_has_as_many_pages_as_it_needs(
        self, server: OracleServer, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(oci_bucket, "_PAGE", 7)
        keys = [f"run/{number:02}/{name}" for number in range(15) for name in ("a", "b")]
        for key in keys:
            store.put(key, b"")
        before = server.steering.counts()
        assert [entry.key for entry in store.list()] == keys
        assert (server.steering.counts() - before).of("list") == 5
        assert list(store.list_names("run/")) == [f"{number:02}" for number in range(15)]
        assert [entry.key for entry in store.list("run/", "run/07/a")] == keys[15:]

    def test_a_listing_that_fails_in_the_middle_goes_on_where_it_was(
        self, server: OracleServer, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(oci_bucket, "_PAGE", 3)
        keys = [f"{number}" for number in range(9)]
        for key in keys:
            store.put(key, b"")
        server.steering.fail(times=1, status=503, kind="list", skip=1)
        server.steering.lose(times=1, kind="list", way="cut")
        assert [entry.key for entry in store.list()] == keys

    def test_without_a_namespace_it_is_asked_for_once(self, server: OracleServer) -> None:
        store = open_oci(f"oci://training/{next(fresh)}?endpoint={server.endpoint}")
        before = server.steering.counts()
        server.steering.fail(times=1, status=429, kind="other")
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: store.put(f"{number}", b""), range(8)))
        spent = server.steering.counts() - before
        assert (spent.of("put"), spent.of("other")) == (8, 2)

    def test_opening_asks_nothing_and_imports_nothing(self, server: OracleServer) -> None:
        before = server.steering.counts()
        code = f"import sys; from muster.workdir.opening import open_store; open_store({at(server)!r})"
        subprocess.run([sys.executable, "-c", f"{code}; assert 'oci' not in sys.modules"], check=True)
        assert (server.steering.counts() - before).total == 0

    def test_the_bytes_of_an_object_are_not_hashed_for_its_signature_nor_announced(
        self, server: OracleServer, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[Any] = []
        from muster.clouds.oci_client import _Transport

        send = _Transport.send

        def look(self: Any, request: Any, *words: Any, **settings: Any) -> Any:
            answer = send(self, request, *words, **settings)
            seen.append(request.headers)
            return answer

        monkeypatch.setattr(_Transport, "send", look)
        store.put_file("file", large(tmp_path / "file", 1))
        store.create("a", b"1")
        assert len(seen) == 2
        for headers in seen:
            assert "x-content-sha256" not in headers
            assert "expect" not in headers
            assert headers["content-type"] == "application/octet-stream"

    def test_a_key_that_is_taken_costs_no_connection(self, server: OracleServer) -> None:
        bucket = oci_bucket.OciBucket("training", server.namespace, {"endpoint": server.endpoint})
        for _ in range(5):
            bucket.put("taken", b"1")
            with pytest.raises(AlreadyExists):
                bucket.put("taken", b"1", mark="mine")
        transport = bucket._opened().client.base_client.session.get_adapter(server.endpoint)
        assert transport.poolmanager.connection_from_url(server.endpoint).num_connections == 1


class TestFaults:
    def test_a_create_whose_reply_is_lost_is_ours_when_it_is_repeated(self, server: OracleServer, store: Store) -> None:
        server.steering.lose(kind="put")
        store.create("run/key", b"ours")
        assert store.get("run/key") == b"ours"

    def test_a_create_that_is_repeated_finds_that_another_was_faster(self, server: OracleServer, store: Store) -> None:
        store.create("run/key", b"another's")
        server.steering.fail(kind="put", status=503)
        with pytest.raises(AlreadyExists, match="run/key"):
            store.create("run/key", b"ours")
        assert store.get("run/key") == b"another's"

    def test_two_who_write_at_once_are_told_so_and_try_again(self, server: OracleServer, store: Store) -> None:
        server.steering.fail(times=2, status=409, kind="put")
        store.create("run/key", b"ours")
        assert store.get("run/key") == b"ours"

    def test_of_64_creators_one_wins_where_collisions_are_refused(
        self, user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with oracle.started("training", conflicts=True) as strict:
            monkeypatch.setenv("OCI_CONFIG_FILE", str(strict.make_user(tmp_path).config_file))
            ConcurrencyContract().test_of_64_who_create_one_key_exactly_one_wins(open_oci(at(strict, "x")))

    @pytest.mark.parametrize("status", [429, 500, 503])
    def test_what_is_throttled_is_asked_again(
        self, server: OracleServer, store: Store, tmp_path: Path, status: int
    ) -> None:
        for kind in ("put", "get", "list", "delete"):
            server.steering.fail(times=2, status=status, kind=kind)
        store.put("a", b"1")
        assert store.get("a") == b"1"
        assert [entry.key for entry in store.list()] == ["a"]
        store.delete_all(["a", "b"])
        assert server.steering.waiting() == []
        assert list(store.list()) == []

    @pytest.mark.parametrize("way", ["close", "cut", "lose"])
    def test_connections_that_break_are_made_again(
        self, server: OracleServer, store: Store, tmp_path: Path, way: Any
    ) -> None:
        content = bytes(range(256)) * 100_000
        (tmp_path / "file").write_bytes(content)
        for kind in ("put", "get", "list"):
            server.steering.lose(times=2, kind=kind, way=way)
        store.put_file("file", tmp_path / "file")
        assert store.get("file") == content
        assert [entry.size for entry in store.list()] == [len(content)]

    def test_one_that_is_away_for_good_is_told(self, server: OracleServer, user: User) -> None:
        bucket = oci_bucket.OciBucket("training", server.namespace, {"endpoint": server.endpoint})
        store = BucketStore("oci://training", bucket, "x", patience=0.3)
        with server.steering.away(), pytest.raises(StoreBusy, match="ServiceUnavailable"):
            store.get("a")
        with server.steering.away("close"), pytest.raises(StoreBusy, match="cannot read 'x/a'"):
            store.get("a")
        server.steering.fail(status=429)
        with pytest.raises(StoreBusy, match="TooManyRequests"):
            bucket.put("x/a", b"")

    def test_nobody_listens(self) -> None:
        bucket = oci_bucket.OciBucket("training", "nobody", {"endpoint": "http://127.0.0.1:1"})
        with pytest.raises(StoreBusy, match="ConnectionError"):
            bucket.put("a", b"")

    def test_a_version_that_was_replaced_is_not_mixed_with_the_new_one(self, server: OracleServer) -> None:
        bucket = oci_bucket.OciBucket("training", server.namespace, {"endpoint": server.endpoint})
        bucket.put("version", b"0123456789")
        first = bucket.get("version", 0, 5)
        bucket.put("version", b"9876543210")
        with pytest.raises(ObjectChanged, match="changed while it was read"):
            bucket.get("version", 5, 5, first.tag)

    def test_one_of_many_that_is_not_deleted_is_asked_for_again_or_told(
        self, server: OracleServer, store: Store
    ) -> None:
        def fail(status: int) -> None:
            failed = [{"objectName": "x/a", "statusCode": status, "errorMessage": "rehearsed"}]
            body = json.dumps({"deleted": [], "failed": failed})
            server.steering.fail(times=1, status=200, body=body, kind="delete")

        for key in ("a", "b"):
            store.put(key, b"")
        fail(403)
        with pytest.raises(AccessDenied, match="may not delete 'x/a'"):
            store.delete_all(["a", "b"])
        fail(429)
        store.delete_all(["a", "b"])
        assert list(store.list()) == []


class TestUploads:
    def test_parts_that_are_refused_are_sent_again_and_no_other(
        self, server: OracleServer, store: Store, tmp_path: Path, sdk: Any
    ) -> None:
        file = large(tmp_path / "file", 70)
        server.steering.fail(times=2, status=503, kind="part")
        server.steering.lose(times=1, kind="part", skip=2)
        before = server.steering.counts()
        store.put_file("file", file)
        spent = server.steering.counts() - before
        assert (spent.of("part"), spent.of("multipart-create"), spent.of("complete")) == (5 + 3, 1, 1)
        store.get_file("file", tmp_path / "copy")
        assert sha256_of(tmp_path / "copy") == sha256_of(file)
        assert uploads(server, sdk) == []

    @pytest.mark.parametrize("kind", ["part", "complete"])
    def test_what_fails_for_good_leaves_nothing_behind(
        self, server: OracleServer, store: Store, tmp_path: Path, sdk: Any, kind: str
    ) -> None:
        server.steering.fail(times=None, status=400, code="InvalidUploadPart", kind=kind)
        with pytest.raises(StoreError, match="InvalidUploadPart"):
            store.put_file("file", large(tmp_path / "file", 65))
        server.steering.clear()
        assert uploads(server, sdk) == []
        assert list(store.list()) == []

    def test_a_commit_whose_reply_is_lost_is_not_sent_all_over(
        self, server: OracleServer, store: Store, tmp_path: Path
    ) -> None:
        server.steering.lose(kind="complete")
        before = server.steering.counts()
        store.put_file("file", large(tmp_path / "file", 65))
        assert (server.steering.counts() - before).of("multipart-create") == 1
        assert store.get_range("file", 64 << 20, 8) == (64).to_bytes(8, "big")

    def test_an_upload_that_another_ended_is_made_again(
        self, server: OracleServer, store: Store, tmp_path: Path, sdk: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        commit = oci_upload._Upload._commit
        ended: list[str] = []

        def late(self: Any, upload: str, tags: list[str]) -> None:
            if not ended:
                ended.append(upload)
                sdk.abort_multipart_upload(server.namespace, "training", self._name, upload)
            commit(self, upload, tags)

        monkeypatch.setattr(oci_upload._Upload, "_commit", late)
        store.put_file("file", large(tmp_path / "file", 65))
        assert [entry.size for entry in store.list()] == [65 << 20]
        assert ended

    def test_a_file_that_became_shorter_is_told_and_one_that_grew_is_as_it_was(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"0123456789")
        with (tmp_path / "file").open("rb") as file:
            body = oci_upload.Stretch(file.fileno(), 2, 5)
            assert len(body) == 5
            assert (body.read(3), body.read(), body.read()) == (b"234", b"56", b"")
            shorter = oci_upload.Stretch(file.fileno(), 5, 10)
            assert shorter.read(8) == b"56789"
            with pytest.raises(StoreError, match="became shorter"):
                shorter.read(8)

    def test_two_hundred_megabytes_take_no_memory(self, server: OracleServer, user: User, tmp_path: Path) -> None:
        file = large(tmp_path / "file", 200)
        code = """
import resource, sys
from pathlib import Path
from muster.workdir.opening import open_store
url, source = sys.argv[1:]
store = open_store(url)
store.put("warm", bytes(1 << 20))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
store.put_file("file", Path(source))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
        url = at(server, f"{next(fresh)}")
        told = subprocess.run(
            [sys.executable, "-c", code, url, str(file)], check=True, capture_output=True, text=True
        ).stdout
        assert int(told) < 40_000, "kilobytes more than before"
        open_oci(url).get_file("file", tmp_path / "copy")
        assert sha256_of(tmp_path / "copy") == sha256_of(file)


class TestEncryption:
    def test_the_key_is_named_with_everything_that_is_written(
        self, server: OracleServer, tmp_path: Path, sdk: Any
    ) -> None:
        key, prefix = "ocid1.key.oc1.iad.vault.key", f"{next(fresh)}"
        store = open_oci(at(server, prefix, kms_key=key))
        (tmp_path / "small").write_bytes(b"1")
        store.put("put", b"1")
        store.create("created", b"1")
        store.put_file("small", tmp_path / "small")
        store.put_file("large", large(tmp_path / "large", 65))
        for entry in [*store.list()]:
            found = sdk.head_object(server.namespace, "training", f"{prefix}/{entry.key}").headers
            assert found["opc-sse-kms-key-id"] == key
        open_oci(at(server, prefix)).put("plain", b"1")
        plain = sdk.head_object(server.namespace, "training", f"{prefix}/plain").headers
        assert "opc-sse-kms-key-id" not in plain


class TestCredentials:
    @pytest.mark.parametrize("way", ["api_key", "security_token", "resource_principal", "instance_principal"])
    def test_each_way_reads_and_writes(
        self, server: OracleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
    ) -> None:
        if way == "security_token":
            monkeypatch.setenv("OCI_CONFIG_FILE", str(server.make_session(tmp_path).config_file))
        for name, value in {**server.resource_principal(), **server.instance_principal()}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("OCI_SDK_AUTH_CLIENT_REGION_URL", server.endpoint)
        store = open_oci(at(server, f"{next(fresh)}", auth=way))
        store.create("a", b"1")
        store.delete_all(["b", "c"])
        assert [(entry.key, store.get(entry.key)) for entry in store.list()] == [("a", b"1")]

    def test_a_token_is_renewed_in_the_middle_of_a_run(
        self, server: OracleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OCI_CONFIG_FILE", str(server.make_session(tmp_path).config_file))
        store = open_oci(at(server, f"{next(fresh)}"))
        store.put("a", b"1")
        for _ in range(3):
            server.forget("ST$" + (tmp_path / "token").read_text())
            server.make_session(tmp_path)
            with ThreadPoolExecutor(16) as pool:
                assert list(pool.map(lambda _: store.get("a"), range(32))) == [b"1"] * 32

    def test_a_file_is_sent_whole_after_a_refusal_in_its_middle(
        self, server: OracleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The SDK's own second attempt would send what is left of it, which is nothing."""
        for name, value in server.resource_principal(folder=tmp_path).items():
            monkeypatch.setenv(name, value)
        token = (tmp_path / "rpst").read_text()
        padded(tmp_path / "rpst", tmp_path / "rp.pem")
        store = open_oci(at(server, f"{next(fresh)}"))
        store.put("a", b"1")
        server.forget(f"ST${token}")
        server.resource_principal(folder=tmp_path / "next")
        for name in ("rpst", "rp.pem"):
            replace_unseen(tmp_path / name, tmp_path / "next" / name)
        seen = server.steering.counts()
        store.put_file("file", large(tmp_path / "file", 3))
        assert (server.steering.counts() - seen).of("put") == 2
        assert [entry.size for entry in store.list("file")] == [3 << 20]

    def test_a_key_that_the_cloud_does_not_know(self, server: OracleServer, tmp_path: Path, monkeypatch: Any) -> None:
        stranger = server.make_user(tmp_path, "stranger")
        server.forget(stranger.key_id)
        monkeypatch.setenv("OCI_CONFIG_FILE", str(stranger.config_file))
        before = server.steering.counts()
        with pytest.raises(AccessDenied, match="Oracle said NotAuthenticated") as caught:
            open_oci(at(server, "x")).get("a")
        assert "Is the API key still one of the user's" in str(caught.value)
        assert (server.steering.counts() - before).total == 1

    def test_a_clock_that_is_wrong_is_named(self, server: OracleServer) -> None:
        server.set_clock(3600)
        try:
            with pytest.raises(AccessDenied, match="clock"):
                open_oci(at(server, "x")).get("a")
        finally:
            server.set_clock(0)

    def test_the_default_chain_of_a_missing_profile(self, server: OracleServer) -> None:
        with pytest.raises(AccessDenied, match="no profile 'OTHER'"):
            open_oci(at(server, "x", profile="OTHER")).get("a")


class TestRefusals:
    @pytest.mark.parametrize(
        ("permission", "verb"),
        [("OBJECT_CREATE", "write"), ("OBJECT_READ", "read"), ("OBJECT_INSPECT", "list"), ("OBJECT_DELETE", "delete")],
    )
    def test_a_missing_permission_names_the_bucket_and_the_policy(
        self, server: OracleServer, store: Store, permission: str, verb: str
    ) -> None:
        store.put("a", b"1")
        server.deny(permission)
        calls: dict[str, Callable[[], object]] = {
            "write": lambda: store.put("b", b""),
            "read": lambda: store.get("a"),
            "list": lambda: list(store.list()),
            "delete": lambda: store.delete("a"),
        }
        with pytest.raises(AccessDenied, match=f"no bucket training, or none that you may {verb}") as caught:
            calls[verb]()
        wanted = "Allow group NAME to manage objects in compartment NAME where target.bucket.name='training'"
        assert wanted in caught.value.fix

    def test_a_bucket_that_is_not_there_and_a_namespace_of_another(self, server: OracleServer) -> None:
        with pytest.raises(AccessDenied, match="no bucket nowhere, or none"):
            open_oci(at(server, "x", bucket="nowhere")).get("a")
        with pytest.raises(AccessDenied, match="no bucket training, or none"):
            open_oci(f"oci://training@others/x?endpoint={server.endpoint}").put("a", b"")

    def test_a_principal_needs_a_dynamic_group(self, server: OracleServer, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in server.resource_principal().items():
            monkeypatch.setenv(name, value)
        with pytest.raises(AccessDenied, match="Allow dynamic-group NAME to manage objects"):
            open_oci(at(server, "x", bucket="nowhere")).get("a")

    def test_a_missing_object_is_no_missing_bucket(self, store: Store) -> None:
        with pytest.raises(NotFound, match="there is no 'a'"):
            store.get("a")


@pytest.mark.unit
class TestAddresses:
    @pytest.mark.parametrize("url", ["oci://", "oci://@namespace/x", "oci://bucket@/x", "oci://a@b@c/x", "oci:///x"])
    def test_no_bucket(self, url: str) -> None:
        with pytest.raises(StoreError, match="no bucket"):
            open_oci(url)

    def test_settings_that_there_are_not(self) -> None:
        with pytest.raises(StoreError, match="Did you mean 'profile'"):
            open_oci("oci://bucket@namespace/x?profil=A")
        with pytest.raises(StoreError, match="Known are api_key"):
            open_oci("oci://bucket@namespace/x?auth=password")
        with pytest.raises(StoreError, match="not an endpoint"):
            open_oci("oci://bucket@namespace/x?endpoint=localhost")

    def test_the_url_is_kept(self) -> None:
        url = "oci://bucket@namespace/team a/runs?auth=api_key&region=us-ashburn-1"
        assert open_oci(url).url == url

    def test_the_endpoint_of_the_environment(self, server: OracleServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OCI_OBJECTSTORAGE_SERVICE_ENDPOINT", server.endpoint)
        open_oci(f"oci://training@{server.namespace}/x").put("by-environment", b"")
