"""Oracle's registry as its own API shows it: container repositories and the images in them."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

from .buckets import moment
from .messages import Answer
from .oracle_cloud import Control
from .permits import Permit, Wish, check, everybody
from .principals import COMPARTMENT
from .routing import Call, Refusal, Route, json_answer

BASE = "/20160918/container"


class Artifacts:
    """The repositories of one tenancy in one region."""

    def __init__(
        self,
        permit: Permit = everybody,
        namespace: str = "rehearsal",
        region: str = "iad",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._permit, self._namespace, self._region, self._clock = permit, namespace, region, clock
        self._lock = threading.Lock()
        self._repositories: dict[str, dict[str, Any]] = {}
        self._images: dict[str, dict[str, Any]] = {}

    def routes(self) -> list[Route]:
        return [
            Route("GET", f"{BASE}/repositories", self.list_repositories, "list_repositories"),
            Route("POST", f"{BASE}/repositories", self.create_repository),
            Route("GET", f"{BASE}/repositories/{{id}}", self.get_repository),
            Route("GET", f"{BASE}/images", self.list_images, "list_images"),
            Route("GET", f"{BASE}/images/{{id}}", self.get_image),
        ]

    def controls(self) -> dict[str, Control]:
        return {"pushes": lambda said: self.push(**said)}

    def make_repository(self, name: str, compartment: str = COMPARTMENT) -> dict[str, Any]:
        """An empty repository."""
        with self._lock:
            if any(each["displayName"] == name for each in self._repositories.values()):
                raise Refusal(409, "Conflict", f"a repository {name} exists in this tenancy")
            made: dict[str, Any] = {
                "id": self._ocid("containerrepo"),
                "displayName": name,
                "compartmentId": compartment,
                "namespace": self._namespace,
                "imageCount": 0,
                "layerCount": 0,
                "layersSizeInBytes": 0,
                "isPublic": False,
                "lifecycleState": "AVAILABLE",
                "timeCreated": moment(self._clock()),
            }
            self._repositories[made["id"]] = made
            return made

    def push(self, name: str, tag: str, compartment: str = COMPARTMENT) -> str:
        """An image under this tag; the repository is made if it is not there. Its digest."""
        found = next((each for each in self._repositories.values() if each["displayName"] == name), None)
        repository = found or self.make_repository(name, compartment)
        digest = f"sha256:{hashlib.sha256(secrets.token_bytes(16)).hexdigest()}"
        image = {
            "id": self._ocid("containerimage"),
            "compartmentId": repository["compartmentId"],
            "digest": digest,
            "displayName": f"{name}:{tag}",
            "repositoryId": repository["id"],
            "repositoryName": name,
            "version": tag,
            "lifecycleState": "AVAILABLE",
            "timeCreated": moment(self._clock()),
        }
        with self._lock:
            for other in self._images.values():
                if other["repositoryName"] == name and other["version"] == tag:
                    other |= {"version": None, "displayName": f"{name}:unknown@{other['digest']}"}
            self._images[image["id"]] = image
            repository["imageCount"] += 1
        return digest

    def list_repositories(self, call: Call) -> Answer:
        self._check(call, "REPOSITORY_INSPECT", call.query.get("displayName", ""))
        found = self._asked(call, self._repositories, {"displayName": "displayName", "repositoryId": "id"})
        sums = {name: sum(each[name] for each in found) for name in ("imageCount", "layerCount", "layersSizeInBytes")}
        told = {"repositoryCount": len(found), **sums}
        return _page(call, found, told)

    def list_images(self, call: Call) -> Answer:
        self._check(call, "REPOSITORY_INSPECT", call.query.get("repositoryName", ""))
        asked = {
            "repositoryName": "repositoryName",
            "repositoryId": "repositoryId",
            "displayName": "displayName",
            "version": "version",
            "imageDigest": "digest",
            "imageId": "id",
        }
        return _page(call, self._asked(call, self._images, asked), {})

    def create_repository(self, call: Call) -> Answer:
        said = call.said()
        name, compartment = str(said["displayName"]), str(said["compartmentId"])
        wish = Wish("REPOSITORY_CREATE", compartment, {"target.repo.name": name})
        check(self._permit, call.principal, wish)
        return json_answer(self.make_repository(name, compartment))

    def get_repository(self, call: Call) -> Answer:
        return self._one(call, self._repositories, "displayName")

    def get_image(self, call: Call) -> Answer:
        return self._one(call, self._images, "repositoryName")

    def _one(self, call: Call, shelf: dict[str, dict[str, Any]], named: str) -> Answer:
        found = shelf.get(call.parts["id"])
        if found is None:
            raise Refusal(404, "NotAuthorizedOrNotFound", "Authorization failed or requested resource not found.")
        about = {"target.repo.name": str(found[named])}
        check(self._permit, call.principal, Wish("REPOSITORY_READ", found["compartmentId"], about))
        return json_answer(found)

    def _check(self, call: Call, permission: str, name: str) -> None:
        # A list is of no one repository: a policy for one alone lets only that one be listed, by its name.
        about = {"target.repo.name": name} if name else {}
        check(self._permit, call.principal, Wish(permission, call.query.get("compartmentId", ""), about))

    def _asked(self, call: Call, shelf: dict[str, dict[str, Any]], names: dict[str, str]) -> list[dict[str, Any]]:
        deep = call.query.get("compartmentIdInSubtree") == "true"
        own = call.query.get("compartmentId")
        with self._lock:
            found = [each for each in shelf.values() if deep or each["compartmentId"] == own]
        return [
            each
            for each in found
            if all(each[key] == call.query[name] for name, key in names.items() if name in call.query)
        ]

    def _ocid(self, word: str) -> str:
        return f"ocid1.{word}.oc1.{self._region}.{secrets.token_hex(20)}"


def _page(call: Call, items: list[dict[str, Any]], told: dict[str, Any]) -> Answer:
    start, most = int(call.query.get("page", "0")), int(call.query.get("limit", "100"))
    following = {"opc-next-page": str(start + most)} if start + most < len(items) else {}
    rest = max(len(items) - start - most, 0)
    return json_answer({**told, "items": items[start : start + most], "remainingItemsCount": rest}, headers=following)
