"""The URL of a work dir in a bucket, read into its parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.errors import StoreError
from muster.workdir.addresses import Address, read_address, split_object
from tests.workdir.store_contract import keys

pytestmark = pytest.mark.unit

KNOWN = ("endpoint", "region", "sse")


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("s3://bucket", Address("s3", "bucket", "", {})),
        ("s3://bucket/", Address("s3", "bucket", "", {})),
        ("S3://bucket/a b/ü//", Address("s3", "bucket", "a b/ü", {})),
        ("oci://bucket@namespace/runs", Address("oci", "bucket@namespace", "runs", {})),
        ("s3://bucket/runs?region=eu-west-1", Address("s3", "bucket", "runs", {"region": "eu-west-1"})),
        ("s3://bucket?endpoint=http://127.0.0.1:1", Address("s3", "bucket", "", {"endpoint": "http://127.0.0.1:1"})),
        ("s3://bucket/100%20#x", Address("s3", "bucket", "100%20#x", {})),
    ],
)
def test_a_url_has_a_bucket_a_prefix_and_settings(url: str, address: Address) -> None:
    assert read_address(url, KNOWN) == address


@given(
    prefix=keys.filter(lambda key: "?" not in key and not key.endswith("/")),
    options=st.dictionaries(st.sampled_from(KNOWN), st.text(st.characters(exclude_categories=["Cs"]), min_size=1)),
)
def test_its_own_url_is_read_as_itself(prefix: str, options: dict[str, str]) -> None:
    address = Address("s3", "bucket", prefix, options)
    assert read_address(address.url, KNOWN) == address
    assert read_address(address.url, KNOWN).url == address.url


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("s3://", "BUCKET/PREFIX"),
        ("s3:///runs", "BUCKET/PREFIX"),
        ("s3:// /runs", "BUCKET/PREFIX"),
        ("s3://bucket/a/../b", "not a key"),
        ("s3://bucket//a", "not a key"),
        ("s3://bucket/a?regoin=x", "Did you mean 'region'"),
        ("s3://bucket/a?secret=x", "Known are endpoint, region, sse"),
        ("s3://bucket/a?region", "name=value"),
    ],
)
def test_what_is_wrong_with_a_url_is_told(url: str, says: str) -> None:
    with pytest.raises(StoreError, match=says):
        read_address(url, KNOWN)


@pytest.mark.parametrize(
    ("url", "store", "key"),
    [
        ("s3://bucket/data/part.tar", "s3://bucket/data", "part.tar"),
        ("s3://bucket/part.tar?region=eu-west-1", "s3://bucket?region=eu-west-1", "part.tar"),
    ],
)
def test_one_object_is_a_work_dir_and_a_key(url: str, store: str, key: str) -> None:
    assert split_object(url) == (store, key)
