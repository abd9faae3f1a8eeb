"""The compartments of a tenancy: a tree with the tenancy as its root."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

from .policy_conditions import NotPolicy
from .policy_language import Location
from .principals import COMPARTMENT, TENANCY


@dataclass(frozen=True)
class Compartment:
    id: str
    name: str
    parent: str
    """Empty for the root."""
    description: str = ""
    created: str = ""


class Compartments:
    """All compartments of one tenancy. In a new one there is one, called `training`, unless told otherwise."""

    def __init__(self, tenancy: str = TENANCY, name: str = "rehearsal") -> None:
        self.tenancy = tenancy
        self._all = {tenancy: Compartment(tenancy, name, "", "the tenancy", _now())}
        if tenancy == TENANCY:
            self.add(COMPARTMENT, "training")

    def add(self, ocid: str, name: str, parent: str = "", description: str = "") -> Compartment:
        """A compartment below another one, by default below the root."""
        made = Compartment(ocid, name, parent or self.tenancy, description, _now())
        self._all[ocid] = made
        return made

    def find(self, ocid: str) -> Compartment | None:
        return self._all.get(ocid)

    def children(self, ocid: str) -> list[Compartment]:
        return [each for each in self._all.values() if each.parent == ocid]

    def below(self, ocid: str) -> list[Compartment]:
        """All under this one, at any depth."""
        return [each for each in self._all.values() if each.id != ocid and ocid in self.lineage(each.id)]

    def lineage(self, ocid: str) -> tuple[str, ...]:
        """A compartment and all that it lies in, up to the root. Nothing for one that is not there."""
        found: list[str] = []
        next_up = ocid or self.tenancy
        while next_up in self._all and next_up not in found:
            found.append(next_up)
            next_up = self._all[next_up].parent
        return tuple(found) if found and found[-1] == self.tenancy else ()

    def resolve(self, location: Location, attached: str) -> str:
        """The compartment that a statement means whose policy is attached to this one."""
        if location.tenancy:
            if attached != self.tenancy:
                raise NotPolicy("a statement `in tenancy` belongs to a policy of the tenancy itself")
            return self.tenancy
        if location.id:
            found = next((ocid for ocid in self._all if ocid.lower() == location.id), None)
        else:
            found = self._along(location.path, attached)
        if found is None or attached not in self.lineage(found):
            raise NotPolicy(f"there is no compartment {location.id or ':'.join(location.path)!r} in {attached}")
        return found

    def _along(self, path: tuple[str, ...], attached: str) -> str | None:
        here = self._all.get(attached)
        if here is not None and path == (here.name.lower(),):
            return attached
        for name in path:
            here = next((each for each in self.children(here.id) if each.name.lower() == name), None) if here else None
        return here.id if here else None


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
