"""What Oracle's refusals of a launch mean, and what mends them."""

from __future__ import annotations

from ..errors import CloudError
from .base import Plan

_DOCTOR = "`muster doctor` checks the rest."


def advice(error: CloudError, plan: Plan) -> str:
    """What the user can do about it."""
    shape = plan.settings.get("shape_name") or "its shape"
    if error.code in ("LimitExceeded", "QuotaExceeded"):
        return (
            f"The limit for {shape} is reached: run fewer workers, name another shape, or ask for more in the console "
            "(Governance, Limits, service Data Science). `muster sweep` ends what older runs left."
        )
    if error.status in (401, 404):
        return f"A policy is missing, or an OCID is wrong: `muster policy` prints what this job needs. {_DOCTOR}"
    if error.status == 429:
        return "Oracle throttles this account: try again in a minute."
    if error.code == "OutOfCapacity" or "capacity" in error.told.lower():
        return f"There is no {shape} free in this region now: try later, or name another shape."
    return _DOCTOR
