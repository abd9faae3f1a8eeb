"""From a URL to a store, and the errors on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.errors import StoreError
from muster.workdir import opening
from muster.workdir.bucket import BucketStore
from muster.workdir.folder import FolderStore
from muster.workdir.memory import MemoryStore
from muster.workdir.opening import Kind, open_store
from muster.workdir.remote_store import RemoteStore
from tests.workdir.stores import forget_aws, use

pytestmark = pytest.mark.unit


def test_a_plain_path_is_a_folder_with_the_home_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert open_store("~/my runs#1").url == str(tmp_path / "my runs#1")
    assert open_store("my runs").url == str(tmp_path / "my runs")
    assert isinstance(open_store(str(tmp_path)), FolderStore)
    assert list(tmp_path.iterdir()) == []


def test_a_store_is_opened_again_by_its_own_url(tmp_path: Path) -> None:
    for url in (str(tmp_path / "100%20 #1 ?"), "memory://again"):
        assert open_store(open_store(url).url).url == url


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///data/runs", "/data/runs"),
        ("file://localhost/data/runs", "/data/runs"),
        ("FILE:///data/my%20runs%231/%C3%A4", "/data/my runs#1/ä"),
        ("file:///data/my runs#1?x", "/data/my runs#1?x"),
    ],
)
def test_a_file_url_is_decoded(url: str, path: str) -> None:
    assert open_store(url).url == path


def test_a_name_in_memory_is_one_store() -> None:
    store = open_store("memory://opened-twice")
    assert isinstance(store, MemoryStore)
    assert store is open_store("memory://opened-twice")
    assert store is not open_store("memory://another")


@pytest.mark.parametrize("url", ["s3://bucket/runs", "gs://bucket/runs", "az://container/runs?account=ada"])
def test_a_bucket_is_opened_without_asking_for_it(url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget_aws(monkeypatch, tmp_path)
    use(monkeypatch, {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"})
    store = open_store(url)
    assert isinstance(store, BucketStore)
    assert store.url == url
    assert store.capabilities.billed


def test_what_else_fsspec_knows_is_opened_without_asking_for_it() -> None:
    store = open_store("sftp://ada@localhost:9/runs/")
    assert isinstance(store, RemoteStore)
    assert store.url == "sftp://ada@localhost:9/runs"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "Name a folder"),
        ("fpt://host/runs", "no kind of work dir is called fpt://"),
        ("s3://", "BUCKET/PREFIX"),
        ("file://host/runs", "three slashes"),
        ("file://runs", "three slashes"),
        ("memory://", "memory://NAME"),
        ("nul\0", "no NUL"),
        ("~no-such-user-here/runs", "in full"),
    ],
)
def test_a_url_that_names_no_work_dir_is_told(url: str, says: str) -> None:
    with pytest.raises(StoreError, match=says):
        open_store(url)


def test_a_store_whose_package_is_missing_tells_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(opening.KINDS, "s3", Kind("no_such_package:open", "pip install 'musterpoint[s3]'"))
    with pytest.raises(StoreError, match="pip install"):
        open_store("s3://bucket")


@pytest.mark.parametrize("url", ["s3://AKIA:opensesame@bucket/runs", "gs://ada:opensesame@bucket/runs"])
def test_credentials_in_the_url_of_a_bucket_are_refused_and_not_repeated(
    url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    forget_aws(monkeypatch, tmp_path)
    use(monkeypatch, {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"})
    with pytest.raises(StoreError, match="name the bucket alone") as told:
        open_store(url)
    assert "opensesame" not in str(told.value)
