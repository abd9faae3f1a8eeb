"""Oracle's Vault, as far as secrets go: their bundles are read, and they are made, listed, changed and deleted.

Contents are kept in memory alone, and stand in no answer but that of a bundle.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .buckets import moment
from .data_science_pages import filtered, ocid, ordered, page, required
from .data_science_permits import demand
from .messages import Answer
from .oracle_cloud import Control
from .permits import Permit, everybody
from .principals import COMPARTMENT
from .routing import Call, Refusal, Route, json_answer

BUNDLES, SECRETS = "/20190301/secretbundles", "/20180608/secrets"
VAULT = "ocid1.vault.oc1.iad.rehearsal"


@dataclass
class _Version:
    number: int
    content: str
    name: str | None
    created: float


@dataclass
class _Secret:
    row: dict[str, Any]
    versions: list[_Version] = field(default_factory=list)

    @property
    def current(self) -> _Version:
        return self.versions[-1]

    def stages(self, version: _Version) -> list[str]:
        if version is self.current:
            return ["CURRENT", "LATEST"]
        return ["PREVIOUS"] if version is self.versions[-2] else ["DEPRECATED"]


class VaultService:
    """The secrets of one tenancy."""

    def __init__(self, permit: Permit = everybody, clock: Callable[[], float] = time.time) -> None:
        self.permit = permit
        self._clock = clock
        self._secrets: dict[str, _Secret] = {}
        self._lock = threading.RLock()

    def routes(self) -> list[Route]:
        one = f"{SECRETS}/{{secret}}"
        return [
            Route("GET", f"{BUNDLES}/{{secret}}", self.get_bundle, "get_secret_bundle"),
            Route("POST", f"{BUNDLES}/actions/getByName", self.get_bundle_by_name, "get_secret_bundle"),
            Route("POST", SECRETS, self.create_secret, "create_secret"),
            Route("GET", SECRETS, self.list_secrets, "list_secrets"),
            Route("GET", one, self.get_secret, "get_secret"),
            Route("PUT", one, self.update_secret, "update_secret"),
            Route("POST", f"{one}/actions/scheduleDeletion", self.schedule_deletion, "delete_secret"),
            Route("POST", f"{one}/actions/cancelDeletion", self.cancel_deletion, "update_secret"),
        ]

    def controls(self) -> dict[str, Control]:
        return {"secrets": lambda said: self.put(**said)}

    def put(self, name: str, text: str, compartment: str = COMPARTMENT, secret: str = "") -> str:
        """A secret, or a new version of the one whose id is given; its id."""
        with self._lock:
            content = base64.b64encode(text.encode()).decode()
            if secret in self._secrets:
                self._add(self._secrets[secret], content)
                return secret
            return self._make({"compartmentId": compartment, "secretName": name, "vaultId": VAULT}, content, secret)

    # Bundles

    def get_bundle(self, call: Call) -> Answer:
        return self._bundle(call, self._secret(call.parts["secret"]))

    def get_bundle_by_name(self, call: Call) -> Answer:
        name, vault = required(call.query, "secretName"), required(call.query, "vaultId")
        with self._lock:
            rows = filtered(
                (each.row for each in self._secrets.values()), {"secretName": name, "vaultId": vault}, _BOTH
            )
        return self._bundle(call, self._secret(rows[0]["id"] if rows else ""))

    def _bundle(self, call: Call, secret: _Secret) -> Answer:
        self._demand(call, "get_secret_bundle", secret)
        if secret.row["lifecycleState"] != "ACTIVE":
            raise _nowhere()
        version = _chosen(secret, call.query)
        return json_answer(
            {
                "secretId": secret.row["id"],
                "timeCreated": moment(version.created),
                "versionNumber": version.number,
                "versionName": version.name,
                "secretBundleContent": {"contentType": "BASE64", "content": version.content},
                "stages": secret.stages(version),
                "metadata": {},
            }
        )

    # Secrets

    def create_secret(self, call: Call) -> Answer:
        said = call.said()
        compartment = required(said, "compartmentId")
        demand(self.permit, call.principal, "create_secret", compartment)
        for name in ("secretName", "vaultId", "keyId"):
            required(said, name)
        content = _content(said)
        with self._lock:
            rows = (each.row for each in self._secrets.values())
            if filtered(rows, said, _BOTH):
                raise Refusal(409, "Conflict", f"there is a secret {said['secretName']} in this vault already")
            return json_answer(self._row(self._make(said, content)))

    def list_secrets(self, call: Call) -> Answer:
        compartment = required(call.query, "compartmentId")
        demand(self.permit, call.principal, "list_secrets", compartment)
        query = {**call.query, **({"secretName": call.query["name"]} if "name" in call.query else {})}
        rows = [self._row(secret) for secret in list(self._secrets)]
        rows = filtered(rows, query, ("compartmentId", "secretName", "vaultId", "lifecycleState"))
        return page(ordered(rows, {}, "timeCreated"), call.query, 1000)

    def get_secret(self, call: Call) -> Answer:
        secret = self._secret(call.parts["secret"])
        self._demand(call, "get_secret", secret)
        return json_answer(self._row(secret.row["id"]))

    def update_secret(self, call: Call) -> Answer:
        secret, said = self._secret(call.parts["secret"]), call.said()
        self._demand(call, "update_secret", secret)
        with self._lock:
            if said.get("secretContent"):
                self._add(secret, _content(said))
            secret.row.update({name: said[name] for name in ("description", "freeformTags") if name in said})
        return json_answer(self._row(secret.row["id"]))

    def schedule_deletion(self, call: Call) -> Answer:
        secret = self._secret(call.parts["secret"])
        self._demand(call, "delete_secret", secret)
        at = call.said().get("timeOfDeletion") or moment(self._clock() + 30 * 24 * 3600)
        secret.row.update({"lifecycleState": "PENDING_DELETION", "timeOfDeletion": at})
        return Answer(200)

    def cancel_deletion(self, call: Call) -> Answer:
        secret = self._secret(call.parts["secret"])
        self._demand(call, "update_secret", secret)
        secret.row.update({"lifecycleState": "ACTIVE", "timeOfDeletion": None})
        return Answer(200)

    def _make(self, said: Mapping[str, Any], content: str, secret: str = "") -> str:
        made = secret or ocid("vaultsecret", len(self._secrets) + 1)
        told = {name: said.get(name) for name in ("compartmentId", "secretName", "vaultId", "keyId", "description")}
        tags = {name: said.get(name) or {} for name in ("freeformTags", "definedTags", "metadata")}
        row = {"id": made, "lifecycleState": "ACTIVE", "timeCreated": moment(self._clock()), "timeOfDeletion": None}
        self._secrets[made] = _Secret({**told, **tags, **row})
        self._add(self._secrets[made], content)
        return made

    def _add(self, secret: _Secret, content: str) -> None:
        secret.versions.append(_Version(len(secret.versions) + 1, content, None, self._clock()))

    def _row(self, secret: str) -> dict[str, Any]:
        found = self._secrets[secret]
        return {**found.row, "currentVersionNumber": found.current.number}

    def _secret(self, secret: str) -> _Secret:
        with self._lock:
            if secret not in self._secrets:
                raise _nowhere()
            return self._secrets[secret]

    def _demand(self, call: Call, operation: str, secret: _Secret) -> None:
        about = {"target.secret.name": str(secret.row["secretName"]), "target.secret.id": str(secret.row["id"])}
        demand(self.permit, call.principal, operation, secret.row["compartmentId"], about)


_BOTH = ("secretName", "vaultId")


def _chosen(secret: _Secret, query: Mapping[str, str]) -> _Version:
    number, name, stage = query.get("versionNumber"), query.get("secretVersionName"), query.get("stage", "CURRENT")
    for version in reversed(secret.versions):
        if number is not None or name is not None:
            if str(version.number) == number or (name is not None and version.name == name):
                return version
        elif stage in secret.stages(version):
            return version
    raise _nowhere()


def _content(said: Mapping[str, Any]) -> str:
    content = str((said.get("secretContent") or {}).get("content", ""))
    try:
        base64.b64decode(content, validate=True)
    except ValueError as reason:
        raise Refusal(400, "InvalidParameter", "secretContent.content is not base64") from reason
    if not content:
        raise Refusal(400, "InvalidParameter", "secretContent is missing")
    return content


def _nowhere() -> Refusal:
    return Refusal(404, "NotAuthorizedOrNotFound", "Authorization failed or requested resource not found.")
