"""Who may do what in a rehearsed cloud, by the statements of its policies.

>>> policies = Policies(Compartments())
>>> policies.attach(TENANCY, ["Allow group Ann to manage objects in compartment training"])
>>> DataScience(…, permit=policies.permits)
>>> ObjectStorage(folder, allowed=policies.for_objects(lambda bucket: COMPARTMENT))

This is our reading of Oracle's public reference, for the resource types in `policy_table.py`; the real service may
differ.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .identity import Principal
from .permits import Wish
from .policy_conditions import Condition, Values, read_rule
from .policy_language import Statement, Subject, read_statement
from .policy_places import Compartments

ADMINISTRATORS = "Allow group Administrators to manage all-resources in tenancy"
"""The policy that every tenancy begins with."""


@dataclass(frozen=True)
class Held:
    """A statement, and the compartment that it holds in and below."""

    statement: Statement
    compartment: str


class Policies:
    """The statements, groups and dynamic groups of a tenancy. Any thread may ask and change."""

    def __init__(self, compartments: Compartments | None = None, statements: Iterable[str] = (ADMINISTRATORS,)) -> None:
        self.compartments = compartments or Compartments()
        self._lock = threading.RLock()
        self._held: dict[str, list[Held]] = {}
        self._rules: dict[str, tuple[str, Condition]] = {}
        self._groups: dict[str, str] = {}
        self._members: dict[str, set[str]] = {}
        self.attach(self.compartments.tenancy, statements, "administrators")

    # What there is

    def read(self, compartment: str, statements: Iterable[str]) -> list[Held]:
        """The statements of a policy attached to this compartment. Raises `NotPolicy`."""
        read = [read_statement(text) for text in statements]
        return [Held(each, self.compartments.resolve(each.location, compartment)) for each in read]

    def attach(self, compartment: str, statements: Iterable[str], ocid: str = "") -> str:
        """A policy, which takes effect at once. One of the same id is replaced."""
        held = self.read(compartment, statements)
        with self._lock:
            ocid = ocid or f"policy-{len(self._held)}"
            self._held[ocid] = held
            return ocid

    def detach(self, ocid: str) -> None:
        with self._lock:
            self._held.pop(ocid, None)

    def add_dynamic_group(self, name: str, rule: str, ocid: str = "") -> None:
        read = read_rule(rule)
        with self._lock:
            self._rules[name.lower()] = (ocid, read)

    def remove_dynamic_group(self, name: str) -> None:
        with self._lock:
            self._rules.pop(name.lower(), None)

    def add_group(self, name: str, ocid: str) -> None:
        with self._lock:
            self._groups[name.lower()] = ocid

    def remove_group(self, name: str) -> None:
        with self._lock:
            self._members.pop(self._groups.pop(name.lower(), ""), None)

    def add_member(self, group_id: str, user_id: str) -> None:
        with self._lock:
            self._members.setdefault(group_id, set()).add(user_id)

    # What is allowed

    def permits(self, principal: Principal, wish: Wish) -> bool:
        """Whether a statement gives this. What nothing gives is refused."""
        lineage = self.compartments.lineage(wish.compartment)
        values = self._values(principal, wish)
        with self._lock:
            candidates = [held for policy in self._held.values() for held in policy]
        return any(
            held.compartment in lineage
            and wish.permission in held.statement.permissions
            and self._is(principal, held.statement.subject)
            and held.statement.condition.holds(values)
            for held in candidates
        )

    def for_objects(self, compartment_of: Callable[[str], str]) -> Callable[[Principal, str, str, str], bool]:
        """The question as object storage asks it; `compartment_of` knows where a bucket lies."""

        def allowed(principal: Principal, permission: str, bucket: str, name: str) -> bool:
            about = {"target.bucket.name": bucket, "target.object.name": name}
            known = {variable: value for variable, value in about.items() if value}
            return self.permits(principal, Wish(permission, compartment_of(bucket), known))

        return allowed

    def groups_of(self, principal: Principal) -> tuple[set[str], set[str]]:
        """The names, in lower case, and the OCIDs of the groups that a user is in."""
        if principal.kind != "user":
            return set(), set()
        said = {str(each).lower() for each in principal.claims.get("groups", ())}
        with self._lock:
            ids = {ocid for ocid, members in self._members.items() if principal.id in members}
            ids |= {ocid for name, ocid in self._groups.items() if name in said}
            names = {name for name, ocid in self._groups.items() if ocid in ids or ocid.lower() in said}
        return said | names, {ocid.lower() for ocid in ids} | {each for each in said if each.startswith("ocid1.")}

    def dynamic_groups_of(self, principal: Principal) -> set[str]:
        """The names and the OCIDs of the dynamic groups that a resource or an instance is in."""
        values = _of_member(principal)
        with self._lock:
            found = [(name, ocid) for name, (ocid, rule) in self._rules.items() if rule.holds(values)]
        return {each for pair in found for each in (pair[0], pair[1].lower()) if each}

    def _is(self, principal: Principal, subject: Subject) -> bool:
        if subject.kind == "any-user":
            return principal.kind != "service"
        if subject.kind == "service":
            return principal.kind == "service" and principal.id.lower() in subject.names
        names, ids = self.groups_of(principal)
        if subject.kind == "any-group":
            return bool(names or ids)
        if subject.kind == "group":
            return bool(_plain(subject.names) & names or subject.ids & ids)
        return bool((_plain(subject.names) | subject.ids) & self.dynamic_groups_of(principal))

    def _values(self, principal: Principal, wish: Wish) -> Values:
        place = self.compartments.find(wish.compartment or self.compartments.tenancy)
        values: dict[str, str | list[str]] = {name.lower(): value for name, value in wish.about.items()}
        values |= {"request.permission": wish.permission, "request.principal.id": principal.id}
        if place is not None:
            values |= {"target.compartment.id": place.id, "target.compartment.name": place.name}
        if principal.kind == "user":
            values |= {"request.user.id": principal.id, "request.groups.id": sorted(self.groups_of(principal)[1])}
        values["request.principal.type"] = str(principal.claims.get("res_type") or principal.kind)
        if "res_compartment" in principal.claims:
            values["request.principal.compartment.id"] = str(principal.claims["res_compartment"])
        return values


def _plain(names: frozenset[str]) -> set[str]:
    """The names, and those of the default domain without it, as the language takes them."""
    return {*names, *(name.removeprefix("default/") for name in names)}


def _of_member(principal: Principal) -> Values:
    """What matching rules can say of a caller."""
    claims = principal.claims
    tags = claims.get("tags", {})
    values = {f"tag.{name}.value".lower(): str(value) for name, value in tags.items()}
    if principal.kind == "instance":
        return {
            **values,
            "instance.id": principal.id,
            "instance.compartment.id": str(claims.get("res_compartment", "")),
        }
    if principal.kind == "resource":
        return {
            **values,
            "resource.id": str(claims.get("res_id", principal.id)),
            "resource.type": str(claims.get("res_type", "")),
            "resource.compartment.id": str(claims.get("res_compartment", "")),
        }
    return {}
