"""The rehearsed Vault, by the real SDK: secrets are made, read in their versions, listed and deleted."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from muster.rehearsal.principals import COMPARTMENT
from muster.rehearsal.vault_service import VAULT
from tests.rehearsal.data_science_world import World

NOTHING = (404, "NotAuthorizedOrNotFound")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        made = World(tmp_path_factory.mktemp("vault"), patch)
        yield made
        made.close()


@pytest.fixture
def world(shared: World) -> Iterator[World]:
    yield shared
    shared.denied.deny()


def read(world: World, secret: str, **which: Any) -> str:
    bundle = world("get_secret_bundle", secret, service="secrets", **which)
    return base64.b64decode(bundle["secretBundleContent"]["content"]).decode()


def details(name: str, text: str = "first") -> dict[str, Any]:
    content = {"contentType": "BASE64", "content": base64.b64encode(text.encode()).decode()}
    whose = {"compartmentId": COMPARTMENT, "vaultId": VAULT, "keyId": "ocid1.key.oc1.iad.one"}
    return {**whose, "secretName": name, "secretContent": content}


def test_a_secret_in_its_versions(world: World) -> None:
    secret = world.steering.ask("POST", "secrets", {"name": "TOKEN", "text": "first"})
    world.vault.put("TOKEN", "sécond", secret=secret)
    assert read(world, secret) == "sécond"
    assert read(world, secret, stage="LATEST") == "sécond"
    assert read(world, secret, stage="PREVIOUS") == read(world, secret, version_number=1) == "first"
    assert world.refused("get_secret_bundle", secret, version_number=3, service="secrets") == NOTHING
    named = world("get_secret_bundle_by_name", "TOKEN", VAULT, service="secrets")
    assert (named["secretId"], named["versionNumber"], named["stages"]) == (secret, 2, ["CURRENT", "LATEST"])


def test_reading_asks_for_its_permission(world: World) -> None:
    secret = world.vault.put("KEY", "value")
    world.denied.deny("SECRET_BUNDLE_READ")
    assert world.refused("get_secret_bundle", secret, service="secrets") == NOTHING
    (wish,) = {wish.about["target.secret.name"] for _, wish in world.denied.asked}
    assert wish == "KEY"
    world.denied.deny()
    assert world.refused("get_secret_bundle", "ocid1.vaultsecret.oc1..none", service="secrets") == NOTHING


def test_a_secret_is_made_listed_and_deleted(world: World) -> None:
    made = world("create_secret", details("MADE"), service="vaults")
    assert made["lifecycleState"] == "ACTIVE"
    assert "first" not in str(made)
    assert world.refused("create_secret", details("MADE"), service="vaults") == (409, "Conflict")
    world("update_secret", made["id"], {"secretContent": details("", "second")["secretContent"]}, service="vaults")
    assert read(world, made["id"]) == "second"
    assert world("get_secret", made["id"], service="vaults")["currentVersionNumber"] == 2
    listed = world("list_secrets", COMPARTMENT, name="MADE", service="vaults")
    assert [row["id"] for row in listed] == [made["id"]]
    assert "secretBundleContent" not in str(listed)
    world("schedule_secret_deletion", made["id"], {}, service="vaults")
    assert world("get_secret", made["id"], service="vaults")["lifecycleState"] == "PENDING_DELETION"
    assert world.refused("get_secret_bundle", made["id"], service="secrets") == NOTHING
    world("cancel_secret_deletion", made["id"], service="vaults")
    assert read(world, made["id"]) == "second"


@pytest.mark.parametrize(
    "change", [{"secretName": None}, {"vaultId": None}, {"secretContent": None}, {"secretContent": {"content": "§"}}]
)
def test_secrets_that_are_not_taken(world: World, change: dict[str, Any]) -> None:
    assert world.refused("create_secret", {**details("BAD"), **change}, service="vaults")[0] == 400


def test_each_operation_asks_for_its_permission(world: World) -> None:
    secret = world.vault.put("ASKED", "x")
    for permission, operation, *values in (
        ("SECRET_CREATE", "create_secret", details("NEW")),
        ("SECRET_READ", "get_secret", secret),
        ("SECRET_INSPECT", "list_secrets", COMPARTMENT),
        ("SECRET_UPDATE", "update_secret", secret, {}),
        ("SECRET_DELETE", "schedule_secret_deletion", secret, {}),
    ):
        world.denied.deny(permission)
        assert world.refused(operation, *values, service="vaults") == NOTHING
