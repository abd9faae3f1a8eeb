"""Oracle's identity service: compartments, policies, groups, dynamic groups. What is created here takes effect at once.

>>> IdentityService(policies, permit=policies.permits).routes()
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from typing import Any

from .messages import Answer
from .permits import Permit, Wish, check, everybody
from .policy_conditions import NotPolicy
from .policy_evaluation import ADMINISTRATORS, Policies
from .policy_words import page, shown_compartment
from .principals import REGION
from .routing import Call, Refusal, Route, json_answer

BASE = "/20160918"
Entry = dict[str, Any]
_NOUNS = {"policies": "POLICY", "dynamicGroups": "DYNAMIC_GROUP", "groups": "GROUP", "users": "USER"}
_OCIDS = {"policies": "policy", "dynamicGroups": "dynamicgroup", "groups": "group", "users": "user"}
_NAMED = {"policies": "Policy", "dynamicGroups": "DynamicGroup", "groups": "Group", "users": "User"}


class IdentityService:
    """The service of one tenancy. All it makes lives in memory, and in `policies`, which decides."""

    def __init__(self, policies: Policies, permit: Permit = everybody, region: str = REGION) -> None:
        self.policies = policies
        self._permit = permit
        self._region = region
        self._lock = threading.RLock()
        self._entries: dict[str, dict[str, Entry]] = {kind: {} for kind in (*_NOUNS, "userGroupMemberships")}
        self._made: dict[str, Answer] = {}
        """By their retry tokens."""
        tenancy = policies.compartments.tenancy
        admin = {"compartmentId": tenancy, "name": "Tenant Admin Policy", "statements": [ADMINISTRATORS]}
        self._entries["policies"]["administrators"] = _entry("administrators", admin)

    def routes(self) -> list[Route]:
        routes = [
            Route("GET", f"{BASE}/compartments", self.list_compartments),
            Route("POST", f"{BASE}/compartments", self._once(self.create_compartment)),
            Route("GET", f"{BASE}/compartments/{{id}}", self.get_compartment),
            Route("GET", f"{BASE}/tenancies/{{id}}", self.get_tenancy),
            Route("GET", f"{BASE}/tenancies/{{id}}/regionSubscriptions", self.list_regions),
            Route("GET", f"{BASE}/availabilityDomains", self.list_availability_domains),
            Route("GET", f"{BASE}/userGroupMemberships", self.list_memberships),
            Route("POST", f"{BASE}/userGroupMemberships", self._once(self.add_member)),
        ]
        for kind in _NOUNS:
            routes += self._routes_of(kind)
        return routes

    def _routes_of(self, kind: str) -> list[Route]:
        own = f"{BASE}/{kind}/{{id}}"
        return [
            Route("GET", f"{BASE}/{kind}", lambda call: self._list(kind, call)),
            Route("POST", f"{BASE}/{kind}", self._once(lambda call: self._create(kind, call))),
            Route("GET", own, lambda call: self._get(kind, call)),
            Route("PUT", own, lambda call: self._update(kind, call)),
            Route("DELETE", own, lambda call: self._delete(kind, call)),
        ]

    # Where things are

    def list_compartments(self, call: Call) -> Answer:
        parent = call.query.get("compartmentId", "")
        self._check(call, "COMPARTMENT_INSPECT", parent)
        places = self.policies.compartments
        deep = call.query.get("compartmentIdInSubtree") == "true"
        found = places.below(parent) if deep else places.children(parent)
        return _listed(call, [shown_compartment(each) for each in found])

    def get_compartment(self, call: Call) -> Answer:
        found = self.policies.compartments.find(call.parts["id"])
        self._check(call, "COMPARTMENT_INSPECT", call.parts["id"])
        if found is None:
            raise _not_found()
        return json_answer(shown_compartment(found), headers={"etag": found.id})

    def create_compartment(self, call: Call) -> Answer:
        said = call.said()
        parent, name = str(said["compartmentId"]), str(said["name"])
        self._check(call, "COMPARTMENT_CREATE", parent)
        places = self.policies.compartments
        if any(each.name.lower() == name.lower() for each in places.children(parent)):
            raise Refusal(409, "CompartmentAlreadyExists", f"There is a compartment '{name}' already")
        made = places.add(_ocid("compartment"), name, parent, str(said.get("description", "")))
        return json_answer(shown_compartment(made), headers={"etag": made.id})

    def get_tenancy(self, call: Call) -> Answer:
        self._check(call, "TENANCY_INSPECT", call.parts["id"])
        root = self.policies.compartments.find(call.parts["id"])
        if root is None or root.parent:
            raise _not_found()
        said = {"id": root.id, "name": root.name, "description": root.description, "homeRegionKey": "IAD"}
        return json_answer({**said, "freeformTags": {}, "definedTags": {}})

    def list_regions(self, call: Call) -> Answer:
        self._check(call, "TENANCY_INSPECT", call.parts["id"])
        home = {"regionKey": "IAD", "regionName": self._region, "status": "READY", "isHomeRegion": True}
        return json_answer([home])

    def list_availability_domains(self, call: Call) -> Answer:
        where = call.query.get("compartmentId", "")
        self._check(call, "COMPARTMENT_INSPECT", where)
        names = [f"rhrs:{self._region.upper()}-AD-{number}" for number in (1, 2, 3)]
        said = [{"name": name, "id": f"ocid1.availabilitydomain.oc1..{name[-1]}"} for name in names]
        return json_answer([{**each, "compartmentId": where} for each in said])

    # Policies, dynamic groups, groups, users

    def _create(self, kind: str, call: Call) -> Answer:
        said = call.said()
        where = str(said.get("compartmentId", ""))
        self._check(call, f"{_NOUNS[kind]}_CREATE", where)
        for name in ("name", "description"):
            if not said.get(name):
                raise Refusal(400, "MissingParameter", f"{name} is required")
        with self._lock:
            if any(each["name"].lower() == said["name"].lower() for each in self._of(kind, where)):
                raise Refusal(409, f"{_NAMED[kind]}AlreadyExists", f"There is one called '{said['name']}' already")
            made = _entry(_ocid(_OCIDS[kind]), said)
            self._apply(kind, made)
            self._entries[kind][made["id"]] = made
        return json_answer(made, headers={"etag": made["id"]})

    def _apply(self, kind: str, made: Entry) -> None:
        """Lets what was made take effect, or refuses it with what is wrong."""
        try:
            if kind == "policies":
                self.policies.attach(made["compartmentId"], _statements(made), made["id"])
            elif kind == "dynamicGroups":
                self.policies.add_dynamic_group(made["name"], str(made.get("matchingRule", "")), made["id"])
            elif kind == "groups":
                self.policies.add_group(made["name"], made["id"])
        except NotPolicy as reason:
            raise Refusal(400, "InvalidParameter", str(reason)) from reason

    def _list(self, kind: str, call: Call) -> Answer:
        where = call.query.get("compartmentId", "")
        self._check(call, _looking(kind), where)
        return _listed(call, self._of(kind, where))

    def _get(self, kind: str, call: Call) -> Answer:
        found = self._find(kind, call, _looking(kind))
        return json_answer(found, headers={"etag": found["id"]})

    def _update(self, kind: str, call: Call) -> Answer:
        found = self._find(kind, call, f"{_NOUNS[kind]}_UPDATE")
        changes = {name: value for name, value in call.said().items() if value is not None and name != "name"}
        with self._lock:
            changed = {**found, **changes}
            self._apply(kind, changed)
            self._entries[kind][found["id"]] = changed
        return json_answer(changed, headers={"etag": changed["id"]})

    def _delete(self, kind: str, call: Call) -> Answer:
        found = self._find(kind, call, f"{_NOUNS[kind]}_DELETE")
        with self._lock:
            self._entries[kind].pop(found["id"], None)
        forget: dict[str, Callable[[], None]] = {
            "policies": lambda: self.policies.detach(found["id"]),
            "dynamicGroups": lambda: self.policies.remove_dynamic_group(found["name"]),
            "groups": lambda: self.policies.remove_group(found["name"]),
        }
        forget.get(kind, lambda: None)()
        return Answer(204)

    def add_member(self, call: Call) -> Answer:
        said = call.said()
        root = self.policies.compartments.tenancy
        self._check(call, "GROUP_UPDATE", root)
        self._check(call, "USER_UPDATE", root)
        made = _entry(_ocid("groupmembership"), {"compartmentId": root, **said})
        self.policies.add_member(str(said["groupId"]), str(said["userId"]))
        with self._lock:
            self._entries["userGroupMemberships"][made["id"]] = made
        return json_answer(made)

    def list_memberships(self, call: Call) -> Answer:
        where = call.query.get("compartmentId", "")
        self._check(call, "GROUP_INSPECT", where)
        wanted = {name: call.query[name] for name in ("userId", "groupId") if name in call.query}
        found = self._of("userGroupMemberships", where)
        return _listed(call, [each for each in found if wanted.items() <= each.items()])

    # What they share

    def _of(self, kind: str, where: str) -> list[Entry]:
        with self._lock:
            return [each for each in self._entries[kind].values() if each["compartmentId"] == where]

    def _find(self, kind: str, call: Call, permission: str) -> Entry:
        with self._lock:
            found = self._entries[kind].get(call.parts["id"])
        if found is None:
            raise _not_found()
        self._check(call, permission, found["compartmentId"], found["name"])
        return found

    def _check(self, call: Call, permission: str, where: str, name: str = "") -> None:
        about = {"target.group.name": name} if name and permission.startswith("GROUP") else {}
        check(self._permit, call.principal, Wish(permission, where, about))

    def _once(self, handler: Callable[[Call], Answer]) -> Callable[[Call], Answer]:
        """A create that a second request with the same retry token does not repeat."""

        def handle(call: Call) -> Answer:
            token = call.header("opc-retry-token")
            with self._lock:
                if token and token in self._made:
                    return self._made[token]
                answer = handler(call)
                if token:
                    self._made[token] = answer
                return answer

        return handle


def _looking(kind: str) -> str:
    return "POLICY_READ" if kind == "policies" else f"{_NOUNS[kind]}_INSPECT"


def _statements(made: Entry) -> list[str]:
    statements = made.get("statements")
    if not isinstance(statements, list) or not statements:
        raise Refusal(400, "MissingParameter", "statements are required")
    return [str(each) for each in statements]


def _entry(ocid: str, said: Entry) -> Entry:
    moment = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    common = {"freeformTags": {}, "definedTags": {}, "timeCreated": moment, "lifecycleState": "ACTIVE"}
    return {**common, "description": "", **said, "id": ocid, "inactiveStatus": None}


def _ocid(kind: str) -> str:
    return f"ocid1.{kind}.oc1..{uuid.uuid4().hex}"


def _listed(call: Call, found: Iterable[Entry]) -> Answer:
    wanted = {name: call.query[name] for name in ("name", "lifecycleState") if name in call.query}
    kept = [each for each in found if all(each.get(name) == value for name, value in wanted.items())]
    rows, after = page(kept, call.query)
    return json_answer(rows, headers={"opc-next-page": after} if after else {})


def _not_found() -> Refusal:
    return Refusal(404, "NotAuthorizedOrNotFound", "Authorization failed or requested resource not found.")
