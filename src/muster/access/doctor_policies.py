"""Which policy statement mends a refusal: the one that `muster policy` prints for this very job."""

from __future__ import annotations

from ..errors import CloudError, MusterError
from .doctor_facts import Facts, hidden
from .findings import Finding, fail, warn

_ONLY_HERE = {
    "TENANCY_INSPECT": "inspect tenancies in tenancy",
    "LIMITS_INSPECT": "inspect limits in tenancy",
    "RESOURCE_AVAILABILITY_READ": "read resource-availability in tenancy",
}
"""What only the doctor asks for, and no run."""
_REACH = "Can this machine reach the service? Behind a proxy, HTTPS_PROXY must be set."


def statement(facts: Facts, permission: str) -> str:
    """The statement that gives the launcher this permission; empty where none is known."""
    from .policies import LAUNCHER, needs_of, policy
    from .policy_needs import LAUNCHERS, USERS

    launcher = LAUNCHERS.get(facts.session.way, "user")
    try:
        made = policy(needs_of(facts.job, facts.target, launcher=launcher))
    except MusterError:
        return ""
    if text := made.mending(LAUNCHER, permission):
        return text
    kind = "group" if launcher == "user" else "dynamic-group"
    return f"Allow {kind} {USERS} to {_ONLY_HERE[permission]}" if permission in _ONLY_HERE else ""


def add(facts: Facts, permission: str) -> str:
    """What an administrator does about it."""
    text = statement(facts, permission)
    return f"Add the policy `{text}`." if text else "See `muster policy` for what this job needs."


def refused(facts: Facts, check: str, error: CloudError, permission: str, what: str, or_else: str = "") -> Finding:
    """A thing that is not there or not for us: the fix is a name to correct, or the statement."""
    if not hidden(error):
        return fail(check, error.message, error.fix or _advice(error))
    return fail(check, what, f"{or_else} {add(facts, permission)}".lstrip())


def unseen(facts: Facts, check: str, error: CloudError, permission: str, what: str) -> Finding:
    """Something that the doctor would like to know, and a run does without."""
    if not hidden(error):
        return warn(check, error.message, error.fix or _advice(error))
    return warn(check, what, f"A run does without. For the doctor: {add(facts, permission)}")


def _advice(error: CloudError) -> str:
    if error.status == 401:
        return "See the finding `credentials`."
    if error.status == 429:
        return "Oracle throttles this account now: look again in a minute."
    return "Look again in a while: is the service up in this region?" if error.status else _REACH
