"""Whose credentials a work dir on S3 uses: the chain of AWS, from the environment to a machine's own role."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from muster.clouds import aws
from muster.errors import AccessDenied, StoreBusy, StoreError
from muster.workdir.opening import open_store
from muster.workdir.store import Store
from tests.harness import eventually
from tests.workdir.stores import BUCKET, Guarded, Keys, Role, forget_aws, guarded, role, use

ANYTHING = {"Effect": "Allow", "Action": "s3:*", "Resource": [f"arn:aws:s3:::{BUCKET}", f"arn:aws:s3:::{BUCKET}/*"]}
fresh = count()


@pytest.fixture(scope="module")
def guard() -> Iterator[Guarded]:
    with guarded() as running:
        yield running


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without any credentials."""
    forget_aws(monkeypatch, tmp_path)
    return monkeypatch


@pytest.fixture
def bucket(guard: Guarded, machine: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The same machine, which knows where S3 is."""
    use(machine, {"AWS_ENDPOINT_URL": guard.server.endpoint})
    return machine


@pytest.fixture
def keys(guard: Guarded) -> Keys:
    return guard.user(f"user-{next(fresh)}", ANYTHING)


@pytest.fixture
def service() -> Iterator[Role]:
    with role() as running:
        yield running


NEAR = 15 * 60 + 4.0
"""Seconds that keys live which botocore renews four seconds from now: it does so a quarter of an hour early."""


def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """botocore is asked each second, not each minute, whether keys are still good."""
    monkeypatch.setattr(aws, "_KEPT", timedelta(minutes=5, seconds=1))


def works(store: Store) -> bool:
    store.put("a", b"1")
    return store.get("a") == b"1" and store.capabilities.atomic_create


def told_of(error: BaseException) -> str:
    """Everything that a traceback shows of an error, its causes too."""
    return "".join(traceback.format_exception(error))


def write_profiles(folder: Path, credentials: str = "", config: str = "") -> None:
    (folder / "aws-credentials").write_text(credentials)
    (folder / "aws-config").write_text(config)


# --- the environment -------------------------------------------------------------------------------------


def test_keys_in_the_environment_are_used(bucket: pytest.MonkeyPatch, keys: Keys) -> None:
    use(bucket, keys.environment)
    assert works(open_store(f"s3://{BUCKET}/environment"))


def test_keys_that_nobody_has_are_told_without_their_secret(bucket: pytest.MonkeyPatch, keys: Keys) -> None:
    use(bucket, {**keys.environment, "AWS_ACCESS_KEY_ID": "AKIANOBODYHASTHIS"})
    with pytest.raises(AccessDenied, match="InvalidAccessKeyId") as told:
        open_store(f"s3://{BUCKET}/runs").get("a")
    assert "AWS_PROFILE" in told.value.fix
    assert keys.secret not in told_of(told.value)


def test_a_secret_that_belongs_to_another_key_is_told(bucket: pytest.MonkeyPatch, keys: Keys) -> None:
    use(bucket, {**keys.environment, "AWS_SECRET_ACCESS_KEY": "of another's making"})
    store = open_store(f"s3://{BUCKET}/runs")
    for call in (lambda: store.get("a"), lambda: store.put("a", b""), lambda: list(store.list())):
        with pytest.raises(AccessDenied, match="SignatureDoesNotMatch") as told:
            call()
        assert "does not belong to the access key" in told.value.fix
        assert "of another's making" not in told_of(told.value)


def test_a_token_that_expired_is_told(bucket: pytest.MonkeyPatch, keys: Keys, guard: Guarded) -> None:
    use(bucket, {**keys.environment, "AWS_SESSION_TOKEN": "a-token-of-old"})
    guard.server.steering.fail(1, 400, code="ExpiredToken")
    with pytest.raises(AccessDenied, match="aws sso login") as told:
        open_store(f"s3://{BUCKET}/runs").put("a", b"")
    assert "a-token-of-old" not in told_of(told.value)
    assert keys.secret not in told_of(told.value)


def test_a_machine_without_credentials_says_so_before_it_asks_anyone(
    bucket: pytest.MonkeyPatch, guard: Guarded
) -> None:
    before = guard.server.steering.counts()
    with pytest.raises(AccessDenied, match="no AWS credentials here") as told:
        open_store(f"s3://{BUCKET}/runs").get("a")
    assert "AWS_PROFILE" in told.value.fix
    assert (guard.server.steering.counts() - before).total == 0


def test_a_machine_that_has_no_role_is_told_at_once(bucket: pytest.MonkeyPatch, guard: Guarded) -> None:
    use(bucket, {"AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:9"})
    before = guard.server.steering.counts()
    with pytest.raises(AccessDenied, match="no credentials in the environment, and no machine's role"):
        open_store(f"s3://{BUCKET}/runs").get("a")
    assert (guard.server.steering.counts() - before).total == 0


# --- profiles --------------------------------------------------------------------------------------------


def test_a_profile_is_named_by_the_work_dir_or_by_the_environment(
    bucket: pytest.MonkeyPatch, keys: Keys, tmp_path: Path
) -> None:
    login = f"aws_access_key_id = {keys.access}\naws_secret_access_key = {keys.secret}\n"
    write_profiles(tmp_path, f"[team]\n{login}", "[profile team]\nregion = eu-west-1\n")
    named = open_store(f"s3://{BUCKET}/profiles?profile=team")
    assert works(named)
    assert works(open_store(named.url))
    bucket.setenv("AWS_PROFILE", "team")
    assert works(open_store(f"s3://{BUCKET}/profiles"))
    assert aws.region(None) == aws.region("team") == "eu-west-1"


def test_a_named_profile_wins_over_keys_in_the_environment(
    bucket: pytest.MonkeyPatch, keys: Keys, tmp_path: Path
) -> None:
    login = f"aws_access_key_id = {keys.access}\naws_secret_access_key = {keys.secret}\n"
    write_profiles(tmp_path, f"[team]\n{login}")
    use(bucket, {"AWS_ACCESS_KEY_ID": "AKIAWRONG", "AWS_SECRET_ACCESS_KEY": "wrong"})
    assert works(open_store(f"s3://{BUCKET}/profiles?profile=team"))
    with pytest.raises(AccessDenied, match="InvalidAccessKeyId"):
        open_store(f"s3://{BUCKET}/profiles").get("a")


@pytest.mark.parametrize("in_config", [False, True])
def test_the_default_profile_needs_no_name(
    bucket: pytest.MonkeyPatch, keys: Keys, tmp_path: Path, in_config: bool
) -> None:
    login = f"[default]\naws_access_key_id = {keys.access}\naws_secret_access_key = {keys.secret}\n"
    if in_config:
        (tmp_path / "aws-config").write_text(login)
    else:
        (tmp_path / "aws-credentials").write_text(login)
    assert works(open_store(f"s3://{BUCKET}/default"))


@pytest.mark.parametrize("name", ["nobody", "ünknown"])
def test_a_profile_that_is_not_there_is_told(bucket: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    write_profiles(tmp_path, "[team]\naws_access_key_id = a\naws_secret_access_key = b\n")
    with pytest.raises(AccessDenied, match=name) as told:
        open_store(f"s3://{BUCKET}/runs?profile={name}").get("a")
    assert "aws configure" in told.value.fix


def test_a_configuration_that_nobody_can_read_is_told(bucket: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_profiles(tmp_path, config="no section\n")
    with pytest.raises(StoreError, match="AWS_CONFIG_FILE"):
        open_store(f"s3://{BUCKET}/runs").get("a")


# --- a program that gives credentials --------------------------------------------------------------------


def process_of(folder: Path, *given: tuple[Keys, float]) -> Path:
    """A profile whose program gives these keys in turn. The path has a letter for each time that it was called."""
    called = folder / "called"
    given_in_turn = [(keys.access, keys.secret, keys.token, seconds) for keys, seconds in given]
    (folder / "login.py").write_text(f"given, called = {given_in_turn!r}, {str(called)!r}\n" + _LOGIN)
    write_profiles(folder, config=f"[profile program]\ncredential_process = {sys.executable} {folder / 'login.py'}\n")
    return called


_LOGIN = """
import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

with Path(called).open("a+") as file:
    file.seek(0)
    access, secret, token, seconds = given[min(len(file.read()), len(given) - 1)]
    file.write("x")
until = datetime.now(timezone.utc) + timedelta(seconds=seconds)
said = {"Version": 1, "AccessKeyId": access, "SecretAccessKey": secret, "Expiration": until.isoformat()}
print(json.dumps({**said, "SessionToken": token} if token else said))
"""


def test_a_program_is_asked_once_while_its_keys_are_good(
    bucket: pytest.MonkeyPatch, keys: Keys, tmp_path: Path
) -> None:
    called = process_of(tmp_path, (keys, 3600))
    store = open_store(f"s3://{BUCKET}/program?profile=program")
    for _ in range(20):
        assert works(store)
    assert called.read_text() == "x"


def test_keys_that_expire_are_renewed_while_the_store_is_in_use(
    bucket: pytest.MonkeyPatch, guard: Guarded, tmp_path: Path
) -> None:
    """The first keys are dismissed: from then on only those of the second call open the bucket."""
    first, second = guard.role(name := f"role-{next(fresh)}", ANYTHING), guard.role(f"role-{next(fresh)}", ANYTHING)
    look_often(bucket)
    called = process_of(tmp_path, (first, NEAR), (second, 3600))
    store = open_store(f"s3://{BUCKET}/renewed?profile=program")
    assert works(store)
    assert called.read_text() == "x"

    def renewed() -> bool:
        assert works(store)
        return called.read_text() == "xx"

    eventually(renewed)
    guard.dismiss(name)
    for _ in range(5):
        assert works(store)
    assert called.read_text() == "xx"


def test_a_program_that_fails_is_told(bucket: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_profiles(tmp_path, config="[profile program]\ncredential_process = false\n")
    with pytest.raises(AccessDenied, match="custom-process"):
        open_store(f"s3://{BUCKET}/runs?profile=program").get("a")


def test_a_program_that_fails_later_is_told_by_the_call(bucket: pytest.MonkeyPatch, keys: Keys, tmp_path: Path) -> None:
    bucket.setattr(aws, "_KEPT", timedelta(seconds=1))
    process_of(tmp_path, (keys, 60))
    store = open_store(f"s3://{BUCKET}/runs?profile=program")
    store.put("a", b"")
    (tmp_path / "login.py").write_text("raise SystemExit('the door is shut')")

    def refused() -> AccessDenied | None:
        try:
            store.put("a", b"")
        except AccessDenied as error:
            return error
        return None

    told = eventually(refused)
    assert "no credentials" in told.message
    assert keys.secret not in told_of(told)


# --- containers and machines -----------------------------------------------------------------------------


@pytest.mark.parametrize("by_file", [False, True])
def test_a_container_asks_for_its_role(
    bucket: pytest.MonkeyPatch, guard: Guarded, service: Role, tmp_path: Path, by_file: bool
) -> None:
    first, second = guard.role(name := f"role-{next(fresh)}", ANYTHING), guard.role(f"role-{next(fresh)}", ANYTHING)
    service.given = [(first, 60 if by_file else NEAR), (second, 3600)]
    service.token = "a container's own"
    (tmp_path / "token").write_text(service.token)
    bucket.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{service.url}/container")
    if by_file:
        bucket.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
    else:
        bucket.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", service.token)
        look_often(bucket)
    store = open_store(f"s3://{BUCKET}/container")
    assert works(store)
    # By a file one who reads and one who writes ask, and the first of them twice, because its keys did not last.
    times = 3 if by_file else 2

    def renewed() -> bool:
        return works(store) and len(service.asked) == times

    eventually(renewed)
    guard.dismiss(name)
    for _ in range(5):
        assert works(store)
    assert service.asked == ["GET /container"] * times


def test_a_machine_has_a_role_whose_keys_are_renewed(bucket: pytest.MonkeyPatch, guard: Guarded, service: Role) -> None:
    first, second = guard.role(name := f"role-{next(fresh)}", ANYTHING), guard.role(f"role-{next(fresh)}", ANYTHING)
    service.given = [(first, 60), (second, 6 * 3600)]
    use(bucket, {"AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"{service.url}/"})
    store = open_store(f"s3://{BUCKET}/machine")
    assert works(store)
    given = "GET /latest/meta-data/iam/security-credentials/a-role"

    def renewed() -> bool:
        # One who reads and one who writes; the first of them twice, because its keys did not last.
        return works(store) and service.asked.count(given) == 3

    eventually(renewed)
    guard.dismiss(name)
    for _ in range(5):
        assert works(store)
    assert service.asked.count(given) == service.asked.count("PUT /latest/api/token") == 3


def test_a_role_that_cannot_be_renewed_for_a_moment_is_waited_for(bucket: pytest.MonkeyPatch, guard: Guarded) -> None:
    """A bucket that knows us has not forgotten who we are: whoever renews our keys is away, and comes back."""
    with role() as service:
        service.given = [(guard.role(f"role-{next(fresh)}", ANYTHING), 60)]
        use(bucket, {"AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": service.url})
        store = open_store(f"s3://{BUCKET}/machine")
        assert works(store)
    store._patience = 0.2  # type: ignore[attr-defined]

    def away() -> StoreBusy | None:
        try:
            store.get("a")
        except StoreBusy as error:
            return error
        return None

    assert "no connection" in eventually(away).message


# --- the region ------------------------------------------------------------------------------------------


@pytest.mark.unit
def test_the_region_is_that_of_the_environment_or_of_the_profile(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert aws.region(None) == "us-east-1"
    write_profiles(tmp_path, config="[default]\nregion = eu-west-1\n[profile team]\nregion = eu-west-2\n")
    assert (aws.region(None), aws.region("team"), aws.region("nobody")) == ("eu-west-1", "eu-west-2", "us-east-1")
    machine.setenv("AWS_DEFAULT_REGION", "eu-west-3")
    assert aws.region("team") == "eu-west-3"
    machine.setenv("AWS_REGION", "eu-central-1")
    assert aws.region(None) == "eu-central-1"


@pytest.mark.unit
def test_what_is_at_another_place_is_asked_there(machine: pytest.MonkeyPatch) -> None:
    assert aws.endpoint() is aws.metadata_endpoint() is None
    machine.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    machine.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:2/")
    assert (aws.endpoint(), aws.metadata_endpoint()) == ("http://127.0.0.1:1", "http://127.0.0.1:2")
    machine.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:3")
    assert aws.endpoint() == "http://127.0.0.1:3"
