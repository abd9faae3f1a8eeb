"""Oracle's object storage in a box, asked by Oracle's SDK."""

from __future__ import annotations

import base64
import hashlib
import http.client
import io
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import oci
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oci.exceptions import ServiceError

from muster.rehearsal import oracle
from tests.harness import eventually

from .conftest import Connect

WHERE = ("rehearsal", "training")


def refused(call: Any, *args: Any, **kwargs: Any) -> tuple[int, str]:
    with pytest.raises(ServiceError) as caught:
        call(*args, **kwargs)
    assert caught.value.headers["opc-request-id"]
    return caught.value.status, caught.value.code


def test_what_is_put_is_read_with_all_that_was_said_of_it(objects: Any) -> None:
    written = objects.put_object(
        *WHERE,
        "a/b c+é?#%",
        b"0123456789",
        opc_meta={"Rank": "3"},
        content_type="text/x",
        opc_sse_kms_key_id="ocid1.key.oc1..k",
    )
    found = objects.get_object(*WHERE, "a/b c+é?#%")
    assert found.data.content == b"0123456789"
    assert found.headers["opc-meta-rank"] == "3"
    assert found.headers["content-type"] == "text/x"
    assert found.headers["opc-sse-kms-key-id"] == written.headers["opc-sse-kms-key-id"] == "ocid1.key.oc1..k"
    assert found.headers["content-md5"] == written.headers["opc-content-md5"]
    assert found.headers["etag"] == written.headers["etag"]
    for name in ("last-modified", "accept-ranges", "version-id", "storage-tier", "content-length"):
        assert found.headers[name], name
    assert objects.head_object(*WHERE, "a/b c+é?#%").headers["content-length"] == "10"


@pytest.mark.parametrize(("size", "where"), [(10, "memory"), (3_000_000, "a file")])
def test_ranges(objects: Any, size: int, where: str) -> None:
    whole = (bytes(range(256)) * (size // 256 + 1))[:size]
    objects.put_object(*WHERE, "ranges", whole)
    for said, expected in {
        "bytes=2-4": whole[2:5],
        "bytes=7-": whole[7:],
        "bytes=-3": whole[-3:],
        f"bytes=5-{size * 2}": whole[5:],
    }.items():
        found = objects.get_object(*WHERE, "ranges", range=said)
        assert (found.status, found.data.content) == (206, expected), said
        assert found.headers["content-range"].endswith(f"/{size}")
    assert refused(objects.get_object, *WHERE, "ranges", range=f"bytes={size}-") == (416, "InvalidRange")


def test_what_is_not_there_is_not_found(objects: Any) -> None:
    assert refused(objects.get_object, *WHERE, "nothing") == (404, "ObjectNotFound")
    assert refused(objects.delete_object, *WHERE, "nothing") == (404, "ObjectNotFound")
    assert refused(objects.get_object, "rehearsal", "no-bucket", "x") == (404, "BucketNotFound")
    assert refused(objects.get_object, "elsewhere", "training", "x") == (404, "BucketNotFound")
    with pytest.raises(ServiceError) as caught:
        objects.head_object(*WHERE, "nothing")
    assert caught.value.status == 404


def test_conditions_hold(objects: Any) -> None:
    etag = objects.put_object(*WHERE, "conditions", b"1", if_none_match="*").headers["etag"]
    assert refused(objects.put_object, *WHERE, "conditions", b"2", if_none_match="*") == (412, "IfNoneMatchFailed")
    assert refused(objects.put_object, *WHERE, "conditions", b"2", if_match="other") == (412, "IfMatchFailed")
    assert refused(objects.put_object, *WHERE, "no-such", b"2", if_match=etag) == (412, "IfMatchFailed")
    objects.put_object(*WHERE, "conditions", b"2", if_match=etag)
    assert refused(objects.delete_object, *WHERE, "conditions", if_match=etag) == (412, "IfMatchFailed")
    assert refused(objects.get_object, *WHERE, "conditions", if_match=etag) == (412, "IfMatchFailed")
    assert objects.get_object(*WHERE, "conditions").data.content == b"2"


def test_of_64_who_create_at_once_one_wins(objects: Any) -> None:
    def create(number: int) -> int:
        try:
            objects.put_object(*WHERE, "once", b"%d" % number, if_none_match="*")
        except ServiceError as error:
            return int(error.status)
        return number + 1000

    with ThreadPoolExecutor(64) as pool:
        said = list(pool.map(create, range(64)))
    winners = [number - 1000 for number in said if number >= 1000]
    assert len(winners) == 1
    assert said.count(412) == 63
    assert objects.get_object(*WHERE, "once").data.content == b"%d" % winners[0]


class Held(io.RawIOBase):
    """A body of ten bytes that does not end before it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self._left = 10

    def read(self, size: int = -1) -> bytes:
        self.let_go.wait()
        size = min(self._left, size if size >= 0 else self._left)
        self._left -= size
        return bytes(size)


def test_two_conditional_writes_that_meet_are_told_so(tmp_path: Path, connect: Connect) -> None:
    with oracle.started("training", conflicts=True) as server, ThreadPoolExecutor(1) as pool:
        client = connect(server, server.make_user(tmp_path).config_file)
        body = Held()
        first = pool.submit(lambda: client.put_object(*WHERE, "once", body, content_length=10, if_none_match="*"))
        met = (409, "ConcurrentObjectUpdate")
        eventually(lambda: refused(client.put_object, *WHERE, "once", b"x", if_match="no-such-etag") == met)
        client.put_object(*WHERE, "once", b"a write without condition goes on")
        client.delete_object(*WHERE, "once")
        body.let_go.set()
        assert first.result().status == 200
        assert refused(client.put_object, *WHERE, "once", b"x", if_none_match="*") == (412, "IfNoneMatchFailed")


def test_a_body_that_is_not_what_its_digest_says_is_refused(objects: Any) -> None:
    digest = base64.b64encode(hashlib.md5(b"right", usedforsecurity=False).digest()).decode()
    assert refused(objects.put_object, *WHERE, "md5", b"wrong", content_md5=digest) == (400, "UnmatchedContentMD5")
    objects.put_object(*WHERE, "md5", b"right", content_md5=digest)


names = st.text(alphabet=st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), min_size=1, max_size=12)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(names, max_size=8), st.integers(1, 4))
def test_any_name_can_be_put_listed_read_and_deleted(objects: Any, given_names: set[str], limit: int) -> None:
    keys = {"odd/" + name for name in given_names}
    for key in keys:
        objects.put_object(*WHERE, key, key.encode())
    listed: list[str] = []
    start = None
    while True:
        found = objects.list_objects(
            *WHERE, prefix="odd/", limit=limit, allow_control_chars=True, **({"start": start} if start else {})
        ).data
        listed.extend(each.name for each in found.objects)
        start = found.next_start_with
        if start is None:
            break
    assert listed == sorted(keys, key=lambda key: key.encode())
    for key in keys:
        assert objects.get_object(*WHERE, key).data.content == key.encode()
        objects.delete_object(*WHERE, key)
    assert objects.list_objects(*WHERE, prefix="odd/").data.objects == []


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "a\0b", "é" * 513])
def test_some_names_no_object_can_have(objects: Any, name: str) -> None:
    assert refused(objects.put_object, *WHERE, name, b"") == (400, "InvalidObjectName")


def test_a_list_has_folders_and_fields(objects: Any) -> None:
    for name in ("tree/a", "tree/b/1", "tree/b/2", "tree/c"):
        objects.put_object(*WHERE, name, b"12")
    found = objects.list_objects(*WHERE, prefix="tree/", delimiter="/", fields="name,size,etag,md5,timeCreated").data
    assert [each.name for each in found.objects] == ["tree/a", "tree/c"]
    assert found.prefixes == ["tree/b/"]
    assert found.objects[0].size == 2
    assert found.objects[0].md5 == base64.b64encode(hashlib.md5(b"12", usedforsecurity=False).digest()).decode()
    assert found.objects[0].time_created.tzinfo is not None
    plain = objects.list_objects(*WHERE, prefix="tree/", start_after="tree/a", end="tree/c").data
    assert [each.name for each in plain.objects] == ["tree/b/1", "tree/b/2"]
    assert plain.objects[0].size is None
    assert refused(objects.list_objects, *WHERE, limit=1001) == (400, "InvalidParameter")
    assert refused(objects.list_objects, *WHERE, fields="colour") == (400, "InvalidParameter")


def test_an_upload_in_parts_is_one_object(objects: Any, oci_server: oracle.OracleServer) -> None:
    whole = bytes(range(256)) * 20_000
    oci.object_storage.UploadManager(objects, allow_parallel_uploads=True).upload_stream(
        *WHERE, "parts", io.BytesIO(whole), part_size=2 << 20, metadata={"rank": "1"}
    )
    found = objects.get_object(*WHERE, "parts")
    assert found.data.content == whole
    assert found.headers["opc-multipart-md5"].endswith("-3")
    assert found.headers["opc-meta-rank"] == "1"
    assert objects.get_object(*WHERE, "parts", range="bytes=3000001-3000010").data.content == whole[3000001:3000011]
    counts = oci_server.steering.counts()
    assert (counts.of("multipart-create"), counts.of("part"), counts.of("complete"), counts.of("put")) == (1, 3, 1, 0)
    assert counts.of("get") == 2
    assert counts.bytes_in > len(whole)
    assert counts.bytes_out > len(whole)


def begin(objects: Any, name: str, **options: Any) -> str:
    details = oci.object_storage.models.CreateMultipartUploadDetails(object=name)
    return str(objects.create_multipart_upload(*WHERE, details, **options).data.upload_id)


def chosen(*parts: tuple[int, str]) -> Any:
    models = oci.object_storage.models
    named = [models.CommitMultipartUploadPartDetails(part_num=number, etag=etag) for number, etag in parts]
    return models.CommitMultipartUploadDetails(parts_to_commit=named)


def test_an_upload_is_committed_on_condition_or_given_up(objects: Any, oci_server: oracle.OracleServer) -> None:
    upload = begin(objects, "taken")
    second = objects.upload_part(*WHERE, "taken", upload, 2, b"2").headers["etag"]
    objects.upload_part(*WHERE, "taken", upload, 1, b"old")
    first = objects.upload_part(*WHERE, "taken", upload, 1, b"1").headers["etag"]
    assert [each.part_number for each in objects.list_multipart_upload_parts(*WHERE, "taken", upload).data] == [1, 2]
    assert [each.upload_id for each in objects.list_multipart_uploads(*WHERE).data] == [upload]
    commit = objects.commit_multipart_upload
    assert refused(commit, *WHERE, "taken", upload, chosen((1, "x"))) == (400, "InvalidUploadPart")
    objects.put_object(*WHERE, "taken", b"before")
    parts = chosen((2, second), (1, first))
    assert refused(commit, *WHERE, "taken", upload, parts, if_none_match="*") == (412, "IfNoneMatchFailed")
    assert refused(begin, objects, "taken", if_none_match="*") == (412, "IfNoneMatchFailed")
    commit(*WHERE, "taken", upload, parts)
    assert objects.get_object(*WHERE, "taken").data.content == b"12"
    assert refused(commit, *WHERE, "taken", upload, parts) == (404, "NoSuchUpload")
    other = begin(objects, "taken")
    objects.abort_multipart_upload(*WHERE, "taken", other)
    assert refused(objects.upload_part, *WHERE, "taken", other, 1, b"") == (404, "NoSuchUpload")
    assert oci_server.steering.counts().of("abort") == 1


def test_of_many_who_commit_at_once_one_wins(objects: Any) -> None:
    def commit(number: int) -> int:
        upload = begin(objects, "raced")
        etag = objects.upload_part(*WHERE, "raced", upload, 1, b"%d" % number).headers["etag"]
        ready.append(upload)
        try:
            objects.commit_multipart_upload(*WHERE, "raced", upload, chosen((1, etag)), if_none_match="*")
        except ServiceError as error:
            return int(error.status)
        return 200

    ready: list[str] = []
    with ThreadPoolExecutor(16) as pool:
        said = list(pool.map(commit, range(16)))
    assert sorted(said) == [200] + [412] * 15
    for upload in ready:
        try:
            objects.abort_multipart_upload(*WHERE, "raced", upload)
        except ServiceError as error:
            if error.status != 404:
                raise


def test_several_can_be_deleted_at_once(objects: Any, oci_server: oracle.OracleServer) -> None:
    models = oci.object_storage.models
    objects.put_object(*WHERE, "gone/1", b"")
    objects.put_object(*WHERE, "gone/2", b"")
    named = [
        models.BatchDeleteObjectIdentifier(object_name="gone/1"),
        models.BatchDeleteObjectIdentifier(object_name="gone/2", if_match="other"),
        models.BatchDeleteObjectIdentifier(object_name="gone/3"),
    ]
    said = objects.batch_delete_objects(*WHERE, models.BatchDeleteObjectsDetails(objects=named)).data
    assert [each.object_name for each in said.deleted] == ["gone/1"]
    assert {each.object_name: str(each.status_code) for each in said.failed} == {"gone/2": "412", "gone/3": "404"}
    assert oci_server.steering.counts().of("delete", method="POST") == 1


def test_buckets_are_made_described_and_deleted(objects: Any, oci_server: oracle.OracleServer) -> None:
    details = oci.object_storage.models.CreateBucketDetails(
        name="keyed", compartment_id=oci_server.compartment, kms_key_id="ocid1.key.oc1..bucket"
    )
    objects.create_bucket("rehearsal", details)
    assert refused(objects.create_bucket, "rehearsal", details) == (409, "BucketAlreadyExists")
    assert objects.get_bucket("rehearsal", "keyed").data.kms_key_id == "ocid1.key.oc1..bucket"
    assert objects.head_bucket("rehearsal", "keyed").status == 200
    assert "keyed" in [each.name for each in objects.list_buckets("rehearsal", oci_server.compartment).data]
    found = objects.put_object("rehearsal", "keyed", "x", b"").headers["opc-sse-kms-key-id"]
    assert found == "ocid1.key.oc1..bucket"
    assert refused(objects.delete_bucket, "rehearsal", "keyed") == (409, "BucketNotEmpty")
    objects.delete_object("rehearsal", "keyed", "x")
    objects.delete_bucket("rehearsal", "keyed")
    assert refused(objects.get_bucket, "rehearsal", "keyed") == (404, "BucketNotFound")


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (409, "ConcurrentObjectUpdate"),
        (429, "TooManyRequests"),
        (500, "InternalServerError"),
        (503, "ServiceUnavailable"),
    ],
)
def test_a_request_can_be_made_to_fail(objects: Any, oci_server: oracle.OracleServer, status: int, code: str) -> None:
    oci_server.steering.fail(times=1, status=status, kind="put", key="^fail$")
    objects.put_object(*WHERE, "other", b"x")
    with pytest.raises(ServiceError) as caught:
        objects.put_object(*WHERE, "fail", b"x")
    assert (caught.value.status, caught.value.code) == (status, code)
    objects.put_object(*WHERE, "fail", b"x")
    assert oci_server.steering.counts().of("put") == 3


def test_a_reply_can_be_lost_after_the_work(objects: Any, oci_server: oracle.OracleServer) -> None:
    oci_server.steering.lose(kind="put")
    with pytest.raises(oci.exceptions.RequestException):
        objects.put_object(*WHERE, "lost", b"done", if_none_match="*")
    assert objects.get_object(*WHERE, "lost").data.content == b"done"


def test_a_server_can_be_away_and_come_back(objects: Any, oci_server: oracle.OracleServer) -> None:
    with oci_server.steering.away():
        with pytest.raises(ServiceError) as caught:
            objects.list_objects(*WHERE)
        assert caught.value.status == 503
    with oci_server.steering.away("close"), pytest.raises(oci.exceptions.RequestException):
        objects.list_objects(*WHERE)
    objects.list_objects(*WHERE)
    assert oci_server.steering.counts().of("list") == 3


def test_a_missing_permission_looks_like_a_missing_bucket(objects: Any, oci_server: oracle.OracleServer) -> None:
    objects.put_object(*WHERE, "mine", b"x")
    oci_server.deny("OBJECT_OVERWRITE", "OBJECT_READ")
    assert refused(objects.put_object, *WHERE, "mine", b"y") == (404, "BucketNotFound")
    assert refused(objects.get_object, *WHERE, "mine") == (404, "BucketNotFound")
    objects.put_object(*WHERE, "new", b"y")
    oci_server.deny()
    assert objects.get_object(*WHERE, "mine").data.content == b"x"


def test_nothing_is_answered_without_a_signature(oci_server: oracle.OracleServer) -> None:
    connection = http.client.HTTPConnection(urlsplit(oci_server.endpoint).netloc)
    for path in ("/n", "/n/rehearsal/b/training/o/x", "/nowhere"):
        connection.request("GET", path)
        answer = connection.getresponse()
        assert (answer.status, b"NotAuthenticated" in answer.read()) == (401, True), path
    connection.close()


@pytest.mark.slow
def test_an_object_of_five_gigabytes_never_lies_in_memory(objects: Any, oci_server: oracle.OracleServer) -> None:
    import psutil

    class Zeros(io.RawIOBase):
        left = 5 << 30

        def read(self, size: int = -1) -> bytes:
            size = min(self.left, size if size >= 0 else self.left)
            self.left -= size
            return bytes(size)

    before = psutil.Process(oci_server.pid).memory_info().rss
    oci.object_storage.UploadManager(objects, allow_parallel_uploads=False).upload_stream(
        *WHERE, "huge", Zeros(), part_size=128 << 20
    )
    assert objects.head_object(*WHERE, "huge").headers["content-length"] == str(5 << 30)
    assert objects.get_object(*WHERE, "huge", range=f"bytes={(5 << 30) - 5}-").data.content == bytes(5)
    size = 0
    for piece in objects.get_object(*WHERE, "huge").data.raw.stream(1 << 20, decode_content=False):
        size += len(piece)
    assert size == 5 << 30
    assert psutil.Process(oci_server.pid).memory_info().rss - before < 200 << 20
    objects.delete_object(*WHERE, "huge")
