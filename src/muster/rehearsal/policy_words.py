"""How the identity service shows a compartment, and a list page by page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .policy_places import Compartment
from .routing import Refusal


def shown_compartment(place: Compartment) -> dict[str, Any]:
    return {
        "id": place.id,
        "compartmentId": place.parent or place.id,
        "name": place.name,
        "description": place.description,
        "timeCreated": place.created,
        "lifecycleState": "ACTIVE",
        "inactiveStatus": None,
        "isAccessible": True,
        "freeformTags": {},
        "definedTags": {},
    }


def page(rows: Sequence[Any], query: Mapping[str, str], most: int = 100) -> tuple[Sequence[Any], str]:
    """The rows that were asked for, and the mark of the next page; empty on the last."""
    try:
        start, limit = int(query.get("page") or 0), int(query.get("limit") or most)
    except ValueError as reason:
        raise Refusal(400, "InvalidParameter", "page and limit are numbers here") from reason
    end = start + max(1, limit)
    return rows[start:end], str(end) if end < len(rows) else ""
