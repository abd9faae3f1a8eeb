"""Who may do what: the question that every rehearsed service asks before it answers.

A service calls `permit(principal, Wish(…))` with the permission of Oracle's policy reference that the operation
needs, and where. As with the real services, who may not is told that there is no such thing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .identity import Principal
from .routing import Refusal


@dataclass(frozen=True)
class Wish:
    """What somebody wants to do."""

    permission: str
    """As the policy reference names it, such as `DATA_SCIENCE_JOB_CREATE`."""
    compartment: str
    """The compartment that the thing lies in."""
    about: Mapping[str, str] = field(default_factory=dict)
    """Variables of conditions, such as `{"target.bucket.name": "training"}`."""


Permit = Callable[[Principal, Wish], bool]


def everybody(_principal: Principal, _wish: Wish) -> bool:
    """All is allowed."""
    return True


def check(permit: Permit, principal: Principal, *wishes: Wish) -> None:
    """All of these, or the service's 404."""
    if not all(permit(principal, wish) for wish in wishes):
        raise Refusal(404, "NotAuthorizedOrNotFound", "Authorization failed or requested resource not found.")
