"""A work dir on S3: the contract of all stores, and what only a bucket far away can do to us."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from muster.errors import AccessDenied, AlreadyExists, NotFound, StoreBusy, StoreError
from muster.rehearsal import s3
from muster.workdir.bucket import PART, BucketStore
from muster.workdir.files import sha256_of
from muster.workdir.opening import open_store
from muster.workdir.store import Store
from tests.workdir.stores import BUCKET, Guarded, Keys, client, forget_aws, guarded, use

from .store_contract import ConcurrencyContract, ListingContract, StoreContract

places = count()


@pytest.fixture(scope="module")
def server() -> Iterator[s3.S3Server]:
    with s3.started(BUCKET) as running:
        yield running


@pytest.fixture(scope="module")
def guard() -> Iterator[Guarded]:
    with guarded() as running:
        yield running


@pytest.fixture
def aws(server: s3.S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[s3.S3Server]:
    """The server as this machine's S3, which forgets its faults afterwards."""
    forget_aws(monkeypatch, tmp_path)
    use(monkeypatch, server.environment)
    yield server
    server.steering.clear()


@pytest.fixture
def store(aws: s3.S3Server) -> Store:
    return open_store(f"s3://{BUCKET}/a team's/runs {next(places)}")


def name_of(store: Store, key: str) -> str:
    return f"{store.url.removeprefix(f's3://{BUCKET}/')}/{key}"


class TestS3Store(StoreContract):
    pass


class TestS3Listing(ListingContract):
    pass


class TestS3Concurrency(ConcurrencyContract):
    pass


@pytest.fixture(scope="module")
def contested() -> Iterator[s3.S3Server]:
    """S3 tells 409 to one whose conditional write meets another's: neither has won yet."""
    with s3.started(BUCKET, conflicts=True) as running:
        yield running


class TestS3WithConflicts(ConcurrencyContract):
    @pytest.fixture
    def store(self, contested: s3.S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Store:
        forget_aws(monkeypatch, tmp_path)
        use(monkeypatch, contested.environment)
        return open_store(f"s3://{BUCKET}/contested {next(places)}")


# --- create ----------------------------------------------------------------------------------------------


def test_a_conflict_is_tried_again_and_a_key_that_is_taken_is_the_answer(aws: s3.S3Server, store: Store) -> None:
    aws.steering.fail(2, 409, kind="put")
    before = aws.steering.counts()
    store.create("run", b"ours")
    assert (aws.steering.counts() - before).of("put") == 3
    before = aws.steering.counts()
    with pytest.raises(AlreadyExists, match="run"):
        store.create("run", b"again")
    assert (aws.steering.counts() - before).total == 1


def test_a_create_whose_reply_is_lost_is_found_to_be_ours(aws: s3.S3Server, store: Store) -> None:
    aws.steering.lose(kind="put")
    before = aws.steering.counts()
    store.create("run", b"ours")
    spent = aws.steering.counts() - before
    assert store.get("run") == b"ours"
    assert (spent.of("put"), spent.of("head")) == (2, 1)


def test_a_create_that_never_arrived_may_find_anothers(aws: s3.S3Server, store: Store) -> None:
    store.put("run", b"theirs")
    aws.steering.lose(kind="put", way="close")
    with pytest.raises(AlreadyExists, match="run"):
        store.create("run", b"ours")
    assert store.get("run") == b"theirs"


def test_a_create_that_lost_to_another_create_says_so(aws: s3.S3Server, store: Store) -> None:
    store.create("run", b"theirs")
    aws.steering.fail(1, 503, kind="put")
    with pytest.raises(AlreadyExists, match="run"):
        store.create("run", b"ours")
    assert store.get("run") == b"theirs"


# --- faults ----------------------------------------------------------------------------------------------


def all_calls(store: Store, folder: Path) -> dict[str, Callable[[], object]]:
    """Every call of a store, each of which must bring the same whether the bucket is in a good mood or not."""
    (folder / "source").write_bytes(b"from a file")
    store.put("known", b"0123456789")
    store.put("goes", b"")

    def file_out() -> bytes:
        store.get_file("known", folder / "copy")
        return (folder / "copy").read_bytes()

    return {
        "put": lambda: store.put("put", b"new"),
        "get what was put": lambda: store.get("put"),
        "put_file": lambda: store.put_file("file", folder / "source"),
        "get what was a file": lambda: store.get("file"),
        "get": lambda: store.get("known"),
        "get_range": lambda: store.get_range("known", 2, 3),
        "get_file": file_out,
        "list": lambda: [entry.key for entry in store.list("k")],
        "list_names": lambda: [*store.list_names()],
        "delete": lambda: store.delete("goes"),
        "delete_all": lambda: store.delete_all(["goes", "never"]),
        "create": lambda: store.create("new", b"x"),
    }


WANTED = {
    "get what was put": b"new",
    "get what was a file": b"from a file",
    "get": b"0123456789",
    "get_range": b"234",
    "get_file": b"0123456789",
    "list": ["known"],
    "list_names": ["file", "goes", "known", "put"],
}


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_bucket_that_throttles_or_fails_is_asked_again(
    aws: s3.S3Server, store: Store, status: int, tmp_path: Path
) -> None:
    for name, call in all_calls(store, tmp_path).items():
        aws.steering.fail(2, status)
        assert call() == WANTED.get(name), name
        assert aws.steering.waiting() == [], name


@pytest.mark.parametrize("way", ["lose", "close", "cut"])
def test_a_connection_that_breaks_is_made_again(aws: s3.S3Server, store: Store, way: Any, tmp_path: Path) -> None:
    for name, call in all_calls(store, tmp_path).items():
        aws.steering.lose(1, way=way)
        assert call() == WANTED.get(name), name
        assert aws.steering.waiting() == [], name


def test_slow_answers_are_waited_for(aws: s3.S3Server, store: Store, tmp_path: Path) -> None:
    calls = all_calls(store, tmp_path)
    aws.steering.slow(0.2)
    for name, call in calls.items():
        assert call() == WANTED.get(name), name


def test_a_bucket_that_is_away_for_a_while_is_waited_for(aws: s3.S3Server, store: Store) -> None:
    aws.steering.leave("close")
    before = aws.steering.counts()
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(store.put, "a", b"late")
        while (aws.steering.counts() - before).of("put") < 4:
            assert not writing.done()
            time.sleep(0.02)
        aws.steering.come_back()
        writing.result()
    assert store.get("a") == b"late"


def test_a_bucket_that_stays_away_is_busy_and_says_why(aws: s3.S3Server, store: BucketStore) -> None:
    store._patience = 0.3
    aws.steering.fail(None, 503)
    with pytest.raises(StoreBusy, match="SlowDown") as told:
        store.get("a")
    assert BUCKET in told.value.message
    aws.steering.clear()
    with aws.steering.away("close"), pytest.raises(StoreBusy, match="the connection was closed"):
        list(store.list())


def test_where_nobody_listens_is_told(aws: s3.S3Server) -> None:
    away = open_store(f"s3://{BUCKET}/runs?endpoint=http://127.0.0.1:9")
    away._patience = 0.1  # type: ignore[attr-defined]
    with pytest.raises(StoreBusy, match=r"no connection from http://127\.0\.0\.1:9"):
        away.get("a")


def test_a_listing_that_breaks_goes_on_where_it_was(aws: s3.S3Server, store: Store) -> None:
    keys = fill(store, 2100)
    aws.steering.fail(1, 503, kind="list", skip=1)
    before = aws.steering.counts()
    assert [entry.key for entry in store.list("n/")] == keys
    assert (aws.steering.counts() - before).of("list") == 4


# --- listings --------------------------------------------------------------------------------------------


def fill(store: Store, many: int) -> list[str]:
    keys = [f"n/{number:05}" for number in range(many)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.put(key, b""), keys))
    return keys


def test_many_keys_come_in_pages_of_a_thousand(aws: s3.S3Server, store: Store) -> None:
    keys = fill(store, 2500)
    store.put("other/key", b"")
    before = aws.steering.counts()
    assert [entry.key for entry in store.list("n/")] == keys
    assert (aws.steering.counts() - before).requests == {("GET", "list"): 3}

    before = aws.steering.counts()
    assert [entry.key for entry in store.list("n/", after="n/02400")] == keys[2401:]
    assert (aws.steering.counts() - before).requests == {("GET", "list"): 1}

    before = aws.steering.counts()
    assert next(store.list("n/")).key == keys[0]
    assert list(store.list_names()) == ["n", "other"]
    assert (aws.steering.counts() - before).of("list") <= 3

    before = aws.steering.counts()
    store.delete_all(keys)
    assert (aws.steering.counts() - before).requests == {("POST", "delete"): 3}
    assert [entry.key for entry in store.list()] == ["other/key"]


def test_a_prefix_inside_a_folder_of_many_is_not_searched_from_its_start(aws: s3.S3Server, store: Store) -> None:
    fill(store, 1500)
    before = aws.steering.counts()
    assert [entry.key for entry in store.list("n/0149")] == [f"n/0149{digit}" for digit in range(10)]
    assert (aws.steering.counts() - before).of("list") == 1


def test_a_key_may_also_begin_others(store: Store) -> None:
    store.put("a", b"1")
    store.put("a/b", b"2")
    assert [entry.key for entry in store.list()] == ["a", "a/b"]
    assert list(store.list_names()) == ["a"]
    store.delete("a")
    assert [entry.key for entry in store.list()] == ["a/b"]


def test_what_a_browser_of_buckets_leaves_for_a_folder_is_no_key(aws: s3.S3Server, store: Store) -> None:
    store.put("folder/key", b"1")
    boto = client(aws, "s3", Keys("rehearsal", "rehearsal"))
    boto.put_object(Bucket=BUCKET, Key=name_of(store, ""), Body=b"")
    boto.put_object(Bucket=BUCKET, Key=name_of(store, "folder/"), Body=b"")
    assert [entry.key for entry in store.list()] == ["folder/key"]
    assert list(store.list_names()) == ["folder"]
    assert list(store.list_names("folder/")) == ["key"]
    for key in ("folder.txt", "empty.txt", "other", "other/key"):
        store.put(key, b"")
    for name in ("empty/", "other/"):
        boto.put_object(Bucket=BUCKET, Key=name_of(store, name), Body=b"")
    assert [entry.key for entry in store.list()] == ["empty.txt", "folder.txt", "folder/key", "other", "other/key"]


# --- large and small objects -----------------------------------------------------------------------------


def test_small_things_cost_one_request_each(aws: s3.S3Server, store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * PART)
    store.put("empty", b"")
    store.put("a", b"1")
    for call in (
        lambda: store.put("a", b"2"),
        lambda: store.create("new", b"2"),
        lambda: store.get("a"),
        lambda: store.get("empty"),
        lambda: store.get_range("a", 0, 10),
        lambda: store.get_file("a", tmp_path / "copy"),
        lambda: store.put_file("file", tmp_path / "file"),
        lambda: store.get_file("file", tmp_path / "copy"),
        lambda: list(store.list_names()),
        lambda: store.delete("a"),
    ):
        before = aws.steering.counts()
        call()
        assert (aws.steering.counts() - before).total == 1


def test_200_megabytes_go_in_parts_and_come_in_ranges(aws: s3.S3Server, store: Store, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    with source.open("wb") as file:
        for number in range(200):
            file.write(hashlib.sha256(b"%d" % number).digest() * 32768)
    parts = (200 << 20) // PART
    aws.steering.fail(2, 503, kind="part", skip=3)
    before = aws.steering.counts()
    store.put_file("large", source)
    spent = aws.steering.counts() - before
    assert (spent.of("multipart-create"), spent.of("complete"), spent.of("part")) == (1, 1, parts + 2)

    aws.steering.fail(2, 503, kind="get", skip=3)
    before = aws.steering.counts()
    store.get_file("large", target)
    assert (aws.steering.counts() - before).requests == {("GET", "get"): parts + 2}
    assert sha256_of(target) == sha256_of(source)
    assert store.get_range("large", (100 << 20) - 5, 10) == source.read_bytes()[(100 << 20) - 5 : (100 << 20) + 5]


def test_an_object_that_changes_while_it_is_read_is_never_mixed(aws: s3.S3Server, store: BucketStore) -> None:
    old, new = b"o" * (2 * PART), b"n" * (2 * PART)
    store.put("large", old)
    changed = threading.Event()
    ask = store._bucket.get

    def get(name: str, start: int, size: int, tag: str = "") -> Any:
        if start and not changed.is_set():
            changed.set()
            store.put("large", new)
        return ask(name, start, size, tag)

    store._bucket.get = get  # type: ignore[method-assign]
    assert store.get("large") == new
    assert changed.is_set()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_five_gigabytes_go_in_and_come_out(aws: s3.S3Server, store: Store, tmp_path: Path) -> None:
    """A file with holes: 5 GB and one byte, which no single put of S3 takes."""
    size = 5_000_000_001
    source, target = tmp_path / "source", tmp_path / "target"
    with source.open("wb") as file:
        file.truncate(size)
        for place in (0, 1 << 31, 1 << 32, size - 9):
            file.seek(place)
            file.write(b"%9d" % (place % 1_000_000_000))
    store.put_file("huge", source)
    assert [entry.size for entry in store.list()] == [size]
    assert store.get_range("huge", 1 << 32, 9) == b"%9d" % ((1 << 32) % 1_000_000_000)
    assert store.get_range("huge", size - 9, 99) == b"%9d" % ((size - 9) % 1_000_000_000)
    store.get_file("huge", target)
    assert sha256_of(target) == sha256_of(source)
    store.delete("huge")


# --- encryption ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "seen"),
    [
        ("sse=AES256", {"ServerSideEncryption": "AES256"}),
        ("sse=aws:kms", {"ServerSideEncryption": "aws:kms"}),
        ("sse=aws:kms&kms_key=key-1", {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "key-1"}),
        ("kms_key=key-1", {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "key-1"}),
        ("", {}),
    ],
)
def test_whatever_is_written_is_encrypted_as_the_work_dir_says(
    aws: s3.S3Server, settings: str, seen: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(bytes(PART + 1))
    store = open_store(f"s3://{BUCKET}/encrypted-{next(places)}{'?' if settings else ''}{settings}")
    store.create("created", b"1")
    store.put("put", b"1")
    store.put_file("parts", tmp_path / "file")
    boto = client(aws, "s3", Keys("rehearsal", "rehearsal"))
    prefix = store.url.removeprefix(f"s3://{BUCKET}/").partition("?")[0]
    for key in ("created", "put", "parts"):
        head = boto.head_object(Bucket=BUCKET, Key=f"{prefix}/{key}")
        assert {name: head[name] for name in ("ServerSideEncryption", "SSEKMSKeyId") if name in head} == seen
        assert store.get(key)
    assert open_store(store.url).get("put") == b"1"


def test_an_encryption_that_s3_does_not_have_is_told(aws: s3.S3Server) -> None:
    with pytest.raises(StoreError, match="AES256, aws:kms"):
        open_store(f"s3://{BUCKET}/runs?sse=rot13")


# --- who may do what -------------------------------------------------------------------------------------


def of_team(name: str) -> tuple[dict[str, Any], ...]:
    """A policy that gives a team one prefix of the bucket."""
    objects = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
    below = {"StringLike": {"s3:prefix": f"{name}/*"}}
    return (
        {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": f"arn:aws:s3:::{BUCKET}", "Condition": below},
        {"Effect": "Allow", "Action": objects, "Resource": f"arn:aws:s3:::{BUCKET}/{name}/*"},
        # S3 asks for the right to each object; moto, when many are deleted at once, for one to the bucket.
        {"Effect": "Allow", "Action": "s3:DeleteObject", "Resource": f"arn:aws:s3:::{BUCKET}"},
    )


@pytest.fixture
def member(guard: Guarded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Keys:
    """Somebody of team a, whose keys this machine has."""
    forget_aws(monkeypatch, tmp_path)
    keys = guard.user(f"ada-{next(places)}", *of_team("team-a"))
    use(monkeypatch, {**guard.server.environment, **keys.environment})
    return keys


def test_one_prefix_is_enough_for_all_that_a_store_does(member: Keys, tmp_path: Path) -> None:
    store = open_store(f"s3://{BUCKET}/team-a/runs")
    (tmp_path / "file").write_bytes(bytes(PART + 1))
    store.create("created", b"1")
    with pytest.raises(AlreadyExists):
        store.create("created", b"2")
    store.put("put", b"2")
    store.put_file("file", tmp_path / "file")
    store.get_file("file", tmp_path / "copy")
    assert store.get("created") + store.get_range("put", 0, 1) == b"12"
    assert [entry.key for entry in store.list()] == list(store.list_names()) == ["created", "file", "put"]
    with pytest.raises(NotFound):
        store.get("nothing")
    store.delete("put")
    store.delete_all(["created", "file"])
    assert list(store.list()) == []


def test_what_the_policy_does_not_give_is_refused_by_name(member: Keys, guard: Guarded, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(PART + 1))
    store = open_store(f"s3://{BUCKET}/team-b/runs")
    refused: dict[str, list[Callable[[], object]]] = {
        "s3:PutObject": [
            lambda: store.put("a", b""),
            lambda: store.create("a", b""),
            lambda: store.put_file("a", tmp_path / "file"),
        ],
        "s3:GetObject": [lambda: store.get("a"), lambda: store.get_range("a", 0, 1)],
        "s3:DeleteObject": [lambda: store.delete("a")],
    }
    for permission, calls in refused.items():
        for call in calls:
            before = guard.server.steering.counts()
            with pytest.raises(AccessDenied, match=f"{permission} on arn:aws:s3:::{BUCKET}/team-b/") as told:
                call()
            assert "'team-b/runs/a' in the bucket training" in told.value.message
            assert member.secret not in str(told.value)
            assert (guard.server.steering.counts() - before).total == 1


def test_listings_and_bulk_deletes_that_are_refused_name_their_permissions(
    guard: Guarded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    forget_aws(monkeypatch, tmp_path)
    reader = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{BUCKET}/*"}
    use(monkeypatch, {**guard.server.environment, **guard.user(f"bob-{next(places)}", reader).environment})
    store = open_store(f"s3://{BUCKET}/team-a")
    for call in (lambda: list(store.list()), lambda: list(store.list_names())):
        with pytest.raises(AccessDenied, match=f"s3:ListBucket on arn:aws:s3:::{BUCKET} "):
            call()
    with pytest.raises(AccessDenied, match=f"s3:DeleteObject on arn:aws:s3:::{BUCKET}/team-a/"):
        store.delete_all(["a", "b"])


def test_a_bucket_that_is_not_there_is_told_by_every_call(aws: s3.S3Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = open_store("s3://no-such-bucket/runs")
    for call in (
        lambda: store.put("a", b""),
        lambda: store.create("a", b""),
        lambda: store.put_file("a", tmp_path / "file"),
        lambda: store.get("a"),
        lambda: list(store.list()),
        lambda: list(store.list_names()),
        lambda: store.delete("a"),
        lambda: store.delete_all(["a", "b"]),
    ):
        with pytest.raises(StoreError, match="there is no bucket no-such-bucket") as told:
            call()
        assert "aws s3 mb s3://no-such-bucket" in told.value.fix
        assert not isinstance(told.value, NotFound)


def test_a_bucket_in_another_region_is_told(aws: s3.S3Server, store: Store) -> None:
    aws.steering.fail(1, 301)
    with pytest.raises(StoreError, match="region=REGION"):
        store.get("a")
    aws.steering.fail(1, 400, code="AuthorizationHeaderMalformed")
    with pytest.raises(StoreError, match="region=REGION"):
        store.put("a", b"")
