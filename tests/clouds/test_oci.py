"""Who we are to Oracle's cloud: found in every way there is, renewed while requests go on, explained when wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.clouds import oci
from muster.clouds.oci import Session, session
from muster.errors import AccessDenied, StoreBusy, StoreError
from muster.rehearsal import oracle
from muster.rehearsal.oracle import OracleServer
from muster.rehearsal.principals import User

from .oracle_world import forget_oracle, padded, replace_unseen


@pytest.fixture(scope="module")
def server() -> Iterator[OracleServer]:
    with oracle.started("training") as server:
        yield server


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: OracleServer) -> Iterator[None]:
    forget_oracle(monkeypatch, tmp_path / "home")
    yield
    server.steering.clear()
    server.deny()


@pytest.fixture
def user(server: OracleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    user = server.make_user(tmp_path)
    monkeypatch.setenv("OCI_CONFIG_FILE", str(user.config_file))
    return user


def namespace(server: OracleServer, who: Session) -> str:
    """What the real SDK is answered, if the signature is good."""
    from oci.object_storage import ObjectStorageClient

    from muster.clouds.oci_client import opened

    return str(opened(ObjectStorageClient, who, server.endpoint).get_namespace().data)


def status(server: OracleServer, who: Session) -> int:
    from oci.exceptions import ServiceError

    try:
        namespace(server, who)
    except ServiceError as error:
        return int(error.status)
    return 200


def profile(user: User, /, **settings: str) -> None:
    """Changes the profile; an empty value takes a setting out."""
    lines = dict(line.partition("=")[::2] for line in user.config_file.read_text().splitlines()[1:])
    kept = {name: value for name, value in {**lines, **settings}.items() if value}
    user.config_file.write_text("[DEFAULT]\n" + "".join(f"{name}={value}\n" for name, value in kept.items()))


class TestWays:
    def test_an_api_key_of_the_config_file(self, server: OracleServer, user: User) -> None:
        who = session()
        assert (who.way, who.region) == ("api_key", server.region)
        assert namespace(server, who) == server.namespace

    def test_the_config_file_of_the_home_folder(self, server: OracleServer, tmp_path: Path) -> None:
        server.make_user(tmp_path / "home" / ".oci")
        assert namespace(server, session()) == server.namespace

    def test_a_security_token(self, server: OracleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OCI_CLI_CONFIG_FILE", str(server.make_session(tmp_path).config_file))
        who = session()
        assert who.way == "security_token"
        assert namespace(server, who) == server.namespace

    @pytest.mark.parametrize("in_files", [True, False])
    def test_a_resource_principal_comes_before_a_config_file(
        self, server: OracleServer, user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_files: bool
    ) -> None:
        for name, value in server.resource_principal(folder=tmp_path if in_files else None).items():
            monkeypatch.setenv(name, value)
        who = session()
        assert (who.way, who.region) == ("resource_principal", server.region)
        assert namespace(server, who) == server.namespace
        assert session(profile="DEFAULT").way == "api_key"

    def test_an_instance_where_there_is_nothing_else(
        self, server: OracleServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        be_instance(server, monkeypatch)
        who = session()
        assert (who.way, who.region) == ("instance_principal", server.region)
        assert namespace(server, who) == server.namespace

    def test_nothing_at_all_says_what_could_be_there(self) -> None:
        with pytest.raises(AccessDenied, match=r"no config file, no resource principal, no instance"):
            session()

    @pytest.mark.parametrize("variable", ["OCI_IAM_TYPE", "OCI_CLI_AUTH"])
    def test_the_environment_chooses_and_what_is_said_comes_first(
        self, server: OracleServer, user: User, monkeypatch: pytest.MonkeyPatch, variable: str
    ) -> None:
        be_instance(server, monkeypatch)
        monkeypatch.setenv(variable, "Instance_Principal")
        assert session().way == "instance_principal"
        assert session("api_key").way == "api_key"

    def test_the_oci_commands_own_variables_need_no_file(
        self, server: OracleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        user = server.make_user(tmp_path)
        given = {"USER": user.id, "TENANCY": user.tenancy, "FINGERPRINT": user.fingerprint}
        for name, value in {**given, "KEY_CONTENT": user.key_file.read_text(), "REGION": "iad"}.items():
            monkeypatch.setenv(f"OCI_CLI_{name}", value)
        who = session()
        assert who.region == "us-ashburn-1"
        assert namespace(server, who) == server.namespace

    def test_a_key_with_a_passphrase(self, server: OracleServer, user: User) -> None:
        lock(user.key_file, "open sesame")
        profile(user, pass_phrase="open sesame")
        assert namespace(server, session()) == server.namespace

    def test_a_profile_takes_from_the_default_one_what_it_lacks_but_no_token(
        self, server: OracleServer, user: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with user.config_file.open("a") as file:
            file.write(f"security_token_file=/nowhere\n[TEAM]\nuser={user.id}\nregion=eu-frankfurt-1\n")
        monkeypatch.setenv("OCI_CONFIG_PROFILE", "TEAM")
        who = session()
        assert (who.way, who.region) == ("api_key", "eu-frankfurt-1")
        assert namespace(server, who) == server.namespace

    def test_the_region_of_the_work_dir_comes_before_the_profiles(
        self, user: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OCI_REGION", "uk-london-1")
        assert session().region == "us-ashburn-1"
        assert session(region="fra").region == "eu-frankfurt-1"
        profile(user, region="")
        assert session().region == "uk-london-1"


class TestRenewal:
    def test_a_token_that_was_refreshed_is_used_at_once(
        self, server: OracleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OCI_CONFIG_FILE", str(server.make_session(tmp_path).config_file))
        who = session()
        server.forget("ST$" + (tmp_path / "token").read_text())
        assert status(server, who) == 401
        server.make_session(tmp_path)
        before = server.steering.counts()
        assert status(server, who) == 200
        assert (server.steering.counts() - before).total == 1

    def test_a_token_whose_change_could_not_be_seen_is_read_after_a_refusal(
        self, server: OracleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OCI_CONFIG_FILE", str(server.make_session(tmp_path).config_file))
        server.make_session(tmp_path / "next")
        names = ("token", "tester-session.pem")
        padded(*(tmp_path / name for name in names))
        who = session()
        seen = who.signer.renewals
        for name in names:
            replace_unseen(tmp_path / name, tmp_path / "next" / name)
        assert who.signer.renew(seen)
        assert who.signer.renew(seen), "another thread that was refused meanwhile may try again too"
        assert who.signer.renewals == seen + 1
        assert status(server, who) == 200

    def test_a_file_that_is_not_whole_yet_changes_nothing(
        self, server: OracleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OCI_CONFIG_FILE", str(server.make_session(tmp_path).config_file))
        who = session()
        key = (tmp_path / "tester-session.pem").read_text()
        (tmp_path / "tester-session.pem").write_text(key[:300])
        assert status(server, who) == 200
        (tmp_path / "tester-session.pem").unlink()
        assert status(server, who) == 200
        assert not who.signer.renew(who.signer.renewals)

    def test_a_resource_principals_files_are_followed(
        self, server: OracleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in server.resource_principal(folder=tmp_path).items():
            monkeypatch.setenv(name, value)
        who = session()
        server.forget("ST$" + (tmp_path / "rpst").read_text())
        server.resource_principal(folder=tmp_path)
        assert status(server, who) == 200

    def test_an_instance_gets_another_token_after_a_refusal(
        self, server: OracleServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        be_instance(server, monkeypatch)
        who = session()
        seen = who.signer.renewals
        server.forget(who.signer._signer.api_key)
        assert status(server, who) == 401
        assert who.signer.renew(seen)
        assert status(server, who) == 200

    def test_a_rotated_api_key_is_found_after_a_refusal_and_the_same_one_is_not_tried_twice(
        self, server: OracleServer, user: User, tmp_path: Path
    ) -> None:
        who = session()
        server.forget(user.key_id)
        assert status(server, who) == 401
        assert not who.signer.renew(who.signer.renewals)
        server.make_user(tmp_path)
        assert who.signer.renew(who.signer.renewals)
        assert status(server, who) == 200


class TestMistakes:
    def test_a_config_file_that_is_not_there(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OCI_CONFIG_FILE", str(tmp_path / "nowhere"))
        assert "config file" in told()
        assert str(tmp_path / "nowhere") in told()

    def test_a_profile_that_is_not_there(self, user: User) -> None:
        assert "no profile 'DEFAULLT'" in told(profile="DEFAULLT")
        assert "Did you mean 'DEFAULT'?" in told(profile="DEFAULLT")

    @pytest.mark.parametrize("setting", ["user", "tenancy", "fingerprint", "key_file"])
    def test_a_setting_that_is_missing(self, user: User, setting: str) -> None:
        profile(user, **{setting: ""})
        assert f"{user.config_file} has no {setting}" in told()

    def test_a_config_file_that_is_none(self, user: User) -> None:
        user.config_file.write_text("user=secret-of-mine")
        assert f"cannot read the config file {user.config_file}" in told()
        assert "secret-of-mine" not in told()

    def test_a_key_file_that_is_not_there(self, user: User) -> None:
        user.key_file.unlink()
        assert f"there is no key file {user.key_file}" in told()

    def test_a_key_file_that_may_not_be_read(self, user: User) -> None:
        user.key_file.chmod(0)
        before = os.geteuid()
        if before == 0:
            for folder in [user.key_file.parent, *user.key_file.parent.parents][:4]:
                folder.chmod(0o755)
            user.config_file.chmod(0o644)
            os.seteuid(65534)
        try:
            assert f"the key file {user.key_file} may not be read" in told()
            assert f"chmod 600 {user.key_file}" in told()
        finally:
            os.seteuid(before)

    def test_a_key_that_needs_a_passphrase_and_one_that_does_not_fit(self, user: User) -> None:
        lock(user.key_file, "open sesame")
        assert "needs a passphrase" in told()
        assert "OCI_CLI_PASSPHRASE" in told()
        profile(user, pass_phrase="open barley")
        assert "with this passphrase" in told()
        assert "barley" not in told()

    def test_what_is_no_private_key(self, user: User) -> None:
        user.key_file.write_text("-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----\n")
        assert f"the key file {user.key_file} holds no private key" in told()

    def test_a_fingerprint_of_another_key(self, user: User) -> None:
        other = ":".join(["ab"] * 16)
        profile(user, fingerprint=other)
        assert f"has the fingerprint {user.fingerprint}, not {other}" in told()

    def test_a_security_token_that_is_not_there(
        self, server: OracleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OCI_CONFIG_FILE", str(server.make_session(tmp_path).config_file))
        (tmp_path / "token").unlink()
        assert f"there is no security token {tmp_path / 'token'}" in told()
        assert "oci session authenticate --profile-name DEFAULT" in told()

    def test_a_resource_principal_that_is_not_whole(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert "lacks OCI_RESOURCE_PRINCIPAL_VERSION and OCI_RESOURCE_PRINCIPAL_RPST" in told("resource_principal")
        monkeypatch.setenv("OCI_RESOURCE_PRINCIPAL_VERSION", "7")
        assert "not a resource principal" in told()

    def test_a_way_that_there_is_not(self) -> None:
        with pytest.raises(StoreError, match="Known are api_key, security_token"):
            session("password")

    def test_a_region_that_nothing_names(self, user: User) -> None:
        from oci.object_storage import ObjectStorageClient

        from muster.clouds.oci_client import opened

        profile(user, region="")
        with pytest.raises(StoreError, match="in which region"):
            opened(ObjectStorageClient, session())

    def test_metadata_that_fails_for_now_is_worth_another_attempt(
        self, server: OracleServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        be_instance(server, monkeypatch)
        with server.steering.away(), pytest.raises(StoreBusy, match="token of an instance principal"):
            session()
        with server.steering.away("close"), pytest.raises(StoreBusy, match="token of an instance principal"):
            session()

    def test_nothing_of_a_key_is_told(self, server: OracleServer, user: User) -> None:
        line = user.key_file.read_text().splitlines()[5]
        user.key_file.write_text(user.key_file.read_text().replace(line, line[::-1]))
        assert line not in told()
        assert line[::-1] not in told()


@pytest.mark.parametrize(("way", "subject"), [("api_key", "group"), ("resource_principal", "dynamic-group")])
def test_the_policy_that_mends_it_is_for_who_we_are(way: str, subject: str) -> None:
    from muster.clouds.refusals import Answer, Asked, refusal

    error = refusal(oci.words(way), Asked("write", "training", "a"), Answer(404, "BucketNotFound", ""))
    assert isinstance(error, AccessDenied)
    wanted = f"Allow {subject} NAME to manage objects in compartment NAME where target.bucket.name='training'"
    assert wanted in str(error)


def told(way: str | None = None, profile: str | None = None) -> str:
    """What one who signs in so is told, with what mends it."""
    with pytest.raises(AccessDenied) as caught:
        session(way, profile)
    assert caught.value.fix or "cannot read the config file" in caught.value.message
    return str(caught.value)


def be_instance(server: OracleServer, patch: pytest.MonkeyPatch) -> None:
    for name, value in server.instance_principal().items():
        patch.setenv(name, value)
    patch.setenv("OCI_SDK_AUTH_CLIENT_REGION_URL", server.endpoint)


def lock(key_file: Path, passphrase: str) -> None:
    """Writes the key again, encrypted."""
    from cryptography.hazmat.primitives import serialization as form

    key: Any = form.load_pem_private_key(key_file.read_bytes(), None)
    sealed = form.BestAvailableEncryption(passphrase.encode())
    key_file.write_bytes(key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, sealed))
