"""A work dir on Azure's Blob Storage, against Azure's own emulator."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from muster.errors import AccessDenied, AlreadyExists, NotFound, StoreError
from muster.workdir.bucket import PART
from muster.workdir.files import sha256_of
from muster.workdir.opening import open_store
from muster.workdir.store import Store
from tests.workdir.stores import AZURITE_ACCOUNT, AZURITE_KEY, BUCKET, azurite

from .store_contract import ConcurrencyContract, ListingContract, StoreContract

places = count()


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with azurite(tmp_path_factory.mktemp("azurite")) as running:
        yield running


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine that has the emulator's key and nothing else of Azure, and is none of Microsoft's."""
    for name in [name for name in os.environ if name.startswith(("AZURE_", "IDENTITY_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", AZURITE_KEY)
    monkeypatch.setenv("AZURE_MSI_ENDPOINT", "http://127.0.0.1:9/metadata/identity/oauth2/token")
    return monkeypatch


def url(endpoint: str, container: str = BUCKET) -> str:
    place = f"a team's/runs {next(places)}"
    return f"az://{container}/{place}?account={AZURITE_ACCOUNT}&endpoint={endpoint}"


@pytest.fixture
def store(endpoint: str, account: pytest.MonkeyPatch) -> Store:
    return open_store(url(endpoint))


class TestAzureStore(StoreContract):
    pass


class TestAzureListing(ListingContract):
    pass


class TestAzureConcurrency(ConcurrencyContract):
    pass


def test_a_work_dir_is_opened_again_by_its_own_url(store: Store) -> None:
    store.put("a", b"1")
    assert open_store(store.url).get("a") == b"1"
    assert AZURITE_KEY not in store.url


def test_a_blob_that_is_there_is_the_answer_at_once(store: Store) -> None:
    store.create("run", b"first")
    with pytest.raises(AlreadyExists, match="run"):
        store.create("run", b"second")
    assert store.get("run") == b"first"


def test_a_large_file_goes_in_blocks(store: Store, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(1 << 20) * 9 + b"end")
    assert source.stat().st_size > PART
    store.put_file("large", source)
    store.get_file("large", tmp_path / "target")
    assert sha256_of(tmp_path / "target") == sha256_of(source)


def test_deleting_many_of_which_the_first_are_gone_deletes_the_others(store: Store) -> None:
    keys = [f"n/{number:03}" for number in range(300)]
    for key in keys[150:]:
        store.put(key, b"")
    store.delete_all(keys)
    assert list(store.list()) == []


def test_a_container_that_is_not_there_is_told(endpoint: str, account: pytest.MonkeyPatch) -> None:
    store = open_store(url(endpoint, "no-such-container"))
    for call in (
        lambda: store.put("a", b""),
        lambda: store.create("a", b""),
        lambda: store.get("a"),
        lambda: list(store.list()),
        lambda: list(store.list_names()),
    ):
        with pytest.raises(StoreError, match="there is no bucket no-such-container") as told:
            call()
        assert "az storage container create --name no-such-container" in told.value.fix
        assert not isinstance(told.value, NotFound)


@pytest.mark.parametrize("name", ["AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"])
def test_the_account_may_be_that_of_the_environment(endpoint: str, account: pytest.MonkeyPatch, name: str) -> None:
    account.setenv(name, AZURITE_ACCOUNT)
    store = open_store(f"az://{BUCKET}/environment?endpoint={endpoint}")
    store.put(name, b"1")
    assert store.get(name) == b"1"


def test_without_an_account_nothing_is_opened(account: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match="no storage account") as told:
        open_store(f"az://{BUCKET}/runs")
    assert "?account=NAME" in told.value.fix


def test_a_key_of_another_account_is_refused_and_not_shown(endpoint: str, account: pytest.MonkeyPatch) -> None:
    account.setenv("AZURE_STORAGE_ACCOUNT_KEY", "bm90IHRoZSBrZXkgb2YgdGhpcyBhY2NvdW50")
    store = open_store(url(endpoint))
    with pytest.raises(AccessDenied, match=f"the bucket {BUCKET}") as told:
        store.get("a")
    assert "bm90IHRoZSBrZXk" not in str(told.value)
    assert told.value.fix


def test_a_machine_without_any_key_says_so(endpoint: str, account: pytest.MonkeyPatch) -> None:
    account.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    with pytest.raises(AccessDenied, match="no credentials in the environment") as told:
        open_store(url(endpoint)).get("a")
    assert "AZURE_STORAGE_ACCOUNT_KEY" in told.value.fix
