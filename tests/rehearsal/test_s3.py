"""S3 in a box, asked by boto3 and by obstore."""

from __future__ import annotations

import http.client
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import obstore
import pytest
from botocore.exceptions import ClientError, ConnectionClosedError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from obstore.store import S3Store

from muster.rehearsal import s3
from tests.harness import eventually

from .conftest import s3_client


def store(server: s3.S3Server, bucket: str = "training") -> S3Store:
    return S3Store(
        bucket,
        endpoint=server.endpoint,
        access_key_id="rehearsal",
        secret_access_key="rehearsal",
        region=s3.REGION,
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )


def refused(call: Any, *args: Any, **kwargs: Any) -> tuple[int, str]:
    with pytest.raises(ClientError) as caught:
        call(*args, **kwargs)
    said = caught.value.response
    return int(said["ResponseMetadata"]["HTTPStatusCode"]), str(said["Error"]["Code"])


def test_what_is_put_is_read_with_its_metadata_and_in_ranges(aws: s3.S3Server) -> None:
    client = s3_client(aws)
    client.put_object(Bucket="training", Key="a/b c+é", Body=b"0123456789", Metadata={"my_key": "1", "other": "2"})
    found = client.get_object(Bucket="training", Key="a/b c+é")
    assert found["Body"].read() == b"0123456789"
    assert found["Metadata"] == {"my_key": "1", "other": "2"}
    assert client.get_object(Bucket="training", Key="a/b c+é", Range="bytes=2-4")["Body"].read() == b"234"
    assert client.get_object(Bucket="training", Key="a/b c+é", Range="bytes=-3")["Body"].read() == b"789"
    assert refused(client.get_object, Bucket="training", Key="a/b c+é", Range="bytes=10-")[0] == 416
    assert client.head_object(Bucket="training", Key="a/b c+é")["ContentLength"] == 10


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sets(
        st.text(alphabet=st.characters(min_codepoint=32, exclude_categories=["Cs"]), min_size=1, max_size=12),
        max_size=8,
    )
)
def test_any_name_can_be_put_listed_read_and_deleted(aws: s3.S3Server, names: set[str]) -> None:
    client = s3_client(aws)
    keys = {"odd/" + name for name in names}
    for key in keys:
        client.put_object(Bucket="training", Key=key, Body=key.encode())
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket="training", Prefix="odd/", PaginationConfig={"PageSize": 3}
    )
    listed = [item["Key"] for one in pages for item in one.get("Contents", ())]
    assert listed == sorted(keys)
    for key in keys:
        assert client.get_object(Bucket="training", Key=key)["Body"].read() == key.encode()
        client.delete_object(Bucket="training", Key=key)
    assert "Contents" not in client.list_objects_v2(Bucket="training", Prefix="odd/")


def test_a_list_has_at_most_a_thousand_names(aws: s3.S3Server) -> None:
    aws.make_bucket("many")
    client = s3_client(aws)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: client.put_object(Bucket="many", Key=f"{n:04}"), range(1001)))
    found = client.list_objects_v2(Bucket="many", MaxKeys=5000)
    assert (found["KeyCount"], found["IsTruncated"]) == (1000, True)
    rest = client.list_objects_v2(Bucket="many", ContinuationToken=found["NextContinuationToken"])
    assert [item["Key"] for item in rest["Contents"]] == ["1000"]


def test_of_64_who_create_at_once_one_wins(aws: s3.S3Server) -> None:
    client = s3_client(aws)

    def create(number: int) -> int:
        try:
            client.put_object(Bucket="training", Key="once", Body=b"%d" % number, IfNoneMatch="*")
        except ClientError as error:
            return int(error.response["ResponseMetadata"]["HTTPStatusCode"])
        return number + 1000

    with ThreadPoolExecutor(64) as pool:
        said = list(pool.map(create, range(64)))
    winners = [number - 1000 for number in said if number >= 1000]
    assert len(winners) == 1
    assert said.count(412) == 63
    assert client.get_object(Bucket="training", Key="once")["Body"].read() == b"%d" % winners[0]


def test_updates_that_hold_on_to_an_etag_lose_nothing(aws: s3.S3Server) -> None:
    client = s3_client(aws)
    client.put_object(Bucket="training", Key="counter", Body=b"0")

    def add(_: int) -> None:
        while True:
            found = client.get_object(Bucket="training", Key="counter")
            more = b"%d" % (int(found["Body"].read()) + 1)
            try:
                client.put_object(Bucket="training", Key="counter", Body=more, IfMatch=found["ETag"])
                return
            except ClientError as error:
                if error.response["Error"]["Code"] != "PreconditionFailed":
                    raise

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(80)))
    assert client.get_object(Bucket="training", Key="counter")["Body"].read() == b"80"


def test_readers_are_never_disturbed_by_writers(aws: s3.S3Server) -> None:
    client = s3_client(aws)
    sizes = (10, 6_000_000)
    client.put_object(Bucket="training", Key="busy", Body=bytes(10))

    def write(number: int) -> None:
        client.put_object(Bucket="training", Key="busy", Body=bytes(sizes[number % 2]))

    def read(_: int) -> None:
        assert len(client.get_object(Bucket="training", Key="busy")["Body"].read()) in sizes
        client.list_objects_v2(Bucket="training")

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(each, n) for n in range(60) for each in (write, read)]:
            done.result()


def test_an_upload_in_parts_is_one_object(aws: s3.S3Server) -> None:
    whole = bytes(range(256)) * 50_000
    place = store(aws)
    obstore.put(place, "parts", whole, use_multipart=True, chunk_size=5 << 20, max_concurrency=3)
    assert bytes(obstore.get(place, "parts").bytes()) == whole
    assert bytes(obstore.get_range(place, "parts", start=7_000_001, length=300)) == whole[7_000_001:7_000_301]
    counts = aws.steering.counts()
    assert (counts.of("multipart-create"), counts.of("part"), counts.of("complete"), counts.of("put")) == (1, 3, 1, 0)
    assert counts.of("get") == 2
    assert counts.bytes_in > len(whole)
    assert counts.bytes_out > len(whole)


def test_an_upload_can_be_completed_on_condition_or_given_up(aws: s3.S3Server) -> None:
    client = s3_client(aws)
    client.put_object(Bucket="training", Key="taken", Body=b"first")
    place = {"Bucket": "training", "Key": "taken"}
    upload = client.create_multipart_upload(**place)["UploadId"]
    part = client.upload_part(**place, UploadId=upload, PartNumber=1, Body=b"second")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    complete = {**place, "UploadId": upload, "MultipartUpload": parts, "IfNoneMatch": "*"}
    assert refused(client.complete_multipart_upload, **complete) == (412, "PreconditionFailed")
    wrong = {**complete, "IfNoneMatch": None, "MultipartUpload": {"Parts": [{"PartNumber": 1, "ETag": "x"}]}}
    wrong.pop("IfNoneMatch")
    assert refused(client.complete_multipart_upload, **wrong)[1] == "InvalidPart"
    client.abort_multipart_upload(**place, UploadId=upload)
    assert client.get_object(**place)["Body"].read() == b"first"
    assert aws.steering.counts().of("abort") == 1


def test_two_conditional_writes_that_meet_are_told_so() -> None:
    with s3.started("training", conflicts=True) as server:
        client = s3_client(server)
        first = http.client.HTTPConnection(urlsplit(server.endpoint).netloc)
        first.putrequest("PUT", "/training/once")
        first.putheader("If-None-Match", "*")
        first.putheader("Content-Length", "10")
        first.endheaders(b"half ")
        wrong = {"Bucket": "training", "Key": "once", "Body": b"x", "IfMatch": "no-such-etag"}
        eventually(lambda: refused(client.put_object, **wrong) == (409, "ConditionalRequestConflict"))
        first.send(b"whole")
        assert first.getresponse().status == 200
        first.close()
        again = {"Bucket": "training", "Key": "once", "Body": b"x", "IfNoneMatch": "*"}
        assert refused(client.put_object, **again) == (412, "PreconditionFailed")
        assert client.get_object(Bucket="training", Key="once")["Body"].read() == b"half whole"


def test_a_body_that_is_not_what_its_digest_says_is_refused(aws: s3.S3Server) -> None:
    client = s3_client(aws)
    wrong = {"Bucket": "training", "Key": "md5", "Body": b"x", "ContentMD5": "1B2M2Y8AsgTpgAmY7PhCfg=="}
    assert refused(client.put_object, **wrong) == (400, "BadDigest")


@pytest.mark.parametrize(("status", "code"), [(429, "TooManyRequests"), (500, "InternalError"), (503, "SlowDown")])
def test_a_request_can_be_made_to_fail(aws: s3.S3Server, status: int, code: str) -> None:
    client = s3_client(aws)
    aws.steering.fail(times=1, status=status, kind="put", key="^fail$")
    client.put_object(Bucket="training", Key="other", Body=b"")
    assert refused(client.put_object, Bucket="training", Key="fail", Body=b"") == (status, code)
    client.put_object(Bucket="training", Key="fail", Body=b"")
    assert aws.steering.counts().of("put") == 3
    assert aws.steering.waiting() == []


def test_obstore_tries_again_after_a_throttle(aws: s3.S3Server) -> None:
    place = S3Store("training", endpoint=aws.endpoint, access_key_id="a", secret_access_key="b", region=s3.REGION,
                    client_options={"allow_http": True})  # fmt: skip
    aws.steering.fail(times=2, status=503, kind="put")
    obstore.put(place, "again", b"x")
    assert aws.steering.counts().of("put") == 3


def test_a_reply_can_be_lost_after_the_work(aws: s3.S3Server) -> None:
    client = s3_client(aws)
    aws.steering.lose(kind="put")
    with pytest.raises(ConnectionClosedError):
        client.put_object(Bucket="training", Key="lost", Body=b"done", IfNoneMatch="*")
    assert client.get_object(Bucket="training", Key="lost")["Body"].read() == b"done"


def test_a_connection_can_be_closed_before_the_work(aws: s3.S3Server) -> None:
    client = s3_client(aws)
    aws.steering.lose(kind="put", way="close")
    with pytest.raises(ConnectionClosedError):
        client.put_object(Bucket="training", Key="never", Body=b"x")
    assert refused(client.get_object, Bucket="training", Key="never") == (404, "NoSuchKey")


@pytest.mark.parametrize("size", [1000, 6_000_000])
def test_a_reply_can_be_cut_in_half(aws: s3.S3Server, size: int) -> None:
    obstore.put(store(aws), "half", bytes(size))
    aws.steering.lose(kind="get", way="cut")
    connection = http.client.HTTPConnection(urlsplit(aws.endpoint).netloc)
    connection.request("GET", "/training/half", headers={"Authorization": "AWS4-HMAC-SHA256 Credential=a/1/b/s3/c"})
    with pytest.raises(http.client.IncompleteRead) as caught:
        connection.getresponse().read()
    connection.close()
    assert len(caught.value.partial) == size // 2


def test_a_server_can_be_away_and_come_back(aws: s3.S3Server) -> None:
    client = s3_client(aws)
    with aws.steering.away():
        assert refused(client.list_objects_v2, Bucket="training")[0] == 503
    with aws.steering.away("close"), pytest.raises(ConnectionClosedError):
        client.list_objects_v2(Bucket="training")
    client.list_objects_v2(Bucket="training")
    assert aws.steering.counts().of("list") == 3


def test_answers_can_be_slow(aws: s3.S3Server) -> None:
    from botocore.exceptions import ReadTimeoutError

    aws.steering.slow(5)
    with pytest.raises(ReadTimeoutError):
        s3_client(aws, read_timeout=0.2).head_bucket(Bucket="training")
    aws.steering.slow(0)
    s3_client(aws, read_timeout=5).head_bucket(Bucket="training")


def test_one_connection_serves_many_requests(aws: s3.S3Server) -> None:
    connection = http.client.HTTPConnection(urlsplit(aws.endpoint).netloc)
    sockets = set()
    for number in range(20):
        connection.request("PUT", f"/training/kept/{number}", body=b"x")
        assert connection.getresponse().read() == b""
        sockets.add(connection.sock.getsockname())
    connection.close()
    assert len(sockets) == 1


def test_iam_is_enforced_when_moto_is_told_to() -> None:
    with s3.started("training") as server:
        connection = http.client.HTTPConnection(urlsplit(server.endpoint).netloc)
        connection.request("POST", "/moto-api/reset-auth", body="0", headers={"content-type": "text/plain"})
        assert json.loads(connection.getresponse().read())["status"] == "ok"
        connection.close()
        client = s3_client(server)
        assert refused(client.put_object, Bucket="training", Key="x", Body=b"") == (403, "InvalidAccessKeyId")
        assert refused(client.list_objects_v2, Bucket="training") == (403, "InvalidAccessKeyId")


def test_several_can_be_deleted_at_once(aws: s3.S3Server) -> None:
    client = s3_client(aws)
    for name in ("x", "y"):
        client.put_object(Bucket="training", Key=f"gone/{name}")
    gone = [{"Key": "gone/x"}, {"Key": "gone/y"}]
    client.delete_objects(Bucket="training", Delete={"Objects": gone})
    assert "Contents" not in client.list_objects_v2(Bucket="training", Prefix="gone/")
    assert aws.steering.counts().of("delete", method="POST") == 1


@pytest.mark.slow
def test_an_object_of_two_gigabytes_never_lies_in_memory(aws: s3.S3Server) -> None:
    import psutil

    place = store(aws)
    before = psutil.Process(aws.pid).memory_info().rss
    piece = bytes(32 << 20)
    obstore.put(place, "huge", (piece for _ in range(64)), chunk_size=32 << 20, max_concurrency=2)
    assert obstore.head(place, "huge")["size"] == 2 << 30
    assert bytes(obstore.get_range(place, "huge", start=(2 << 30) - 5, length=5)) == bytes(5)
    assert sum(len(part) for part in obstore.get(place, "huge").stream(min_chunk_size=1 << 20)) == 2 << 30
    assert psutil.Process(aws.pid).memory_info().rss - before < 600 << 20
    obstore.delete(place, "huge")
