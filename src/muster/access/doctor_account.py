"""Who we are to Oracle's cloud, and whether the places that the target names are there."""

from __future__ import annotations

import base64
import json
import os
import stat
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from ..clouds.oci import Session
from ..clouds.oci_profile import Profile, read_profile
from ..errors import CloudError, MusterError
from ..spec.problems import nearest
from .doctor_facts import Facts, hidden
from .doctor_policies import refused, unseen
from .findings import Finding, fail, ok, skipped, warn

_SKEW_WARN, _SKEW_MOST = 60.0, 300.0
"""Seconds. Oracle takes no request whose date is more than five minutes off."""
_KEYS = ("api_key", "security_token")


def tenancy(session: Session, profile: str | None) -> str:
    """The tenancy that we are in; empty where nothing here says so."""
    if session.way in _KEYS:
        return read_profile(profile).values.get("tenancy", "")
    claims = _claims(os.environ.get("OCI_RESOURCE_PRINCIPAL_RPST", ""))
    return str(claims.get("res_tenant") or claims.get("tenant") or "")


def _claims(token: str) -> dict[str, Any]:
    """What a token says of its bearer. It is not checked: whoever issued it does that."""
    try:
        text = Path(token).read_text(encoding="utf-8") if token.startswith("/") else token
        body = text.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (OSError, IndexError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def credentials(facts: Facts) -> Iterator[Finding]:
    """Which way we are somebody, and whether the cloud knows us. Anybody may ask for the namespace."""
    yield from key_files(facts.session.way, facts.options.get("profile"))
    who = _who(facts)
    try:
        reply = facts.ask("object_storage", "get_namespace")
    except CloudError as error:
        yield from _unknown(facts, who, error)
        return
    yield ok("credentials", f"{who}; its namespace is {reply.data}")
    yield from clock(reply.headers.get("date"))


def _who(facts: Facts) -> str:
    if facts.session.way not in _KEYS:
        return facts.session.way.replace("_", " ")
    profile = read_profile(facts.options.get("profile"))
    who = profile.values.get("user") or "whoever logged in"
    return f"{facts.session.way.replace('_', ' ')} of {who}, by {profile}"


def _unknown(facts: Facts, who: str, error: CloudError) -> Iterator[Finding]:
    from ..clouds.oci import words
    from ..clouds.refusals import Answer, Asked

    if error.status == 401:
        fix = words(facts.session.way).login(Asked("read", "", ""), Answer(401, error.code, error.told))
        region = f" Is the tenancy subscribed to {facts.session.region}?" if facts.session.region else ""
        yield fail("credentials", f"Oracle does not know {who}: {error.code}", f"{fix}{region}")
    else:
        yield fail(
            "credentials", error.message, error.fix or "Can this machine reach Oracle's cloud? Is there a proxy?"
        )
    headers = getattr(error.__cause__, "headers", None) or {}
    yield from clock(headers.get("date"))


def clock(date: str | None, now: float | None = None) -> Iterator[Finding]:
    """How far this machine's clock is off, by the date of an answer."""
    if not date:
        yield skipped("clock", "the answer had no date to compare with")
        return
    off = (time.time() if now is None else now) - parsedate_to_datetime(date).timestamp()
    told = f"this machine's clock is {abs(off):.0f} s {'ahead of' if off > 0 else 'behind'} Oracle's"
    fix = "Set it right, such as with `timedatectl set-ntp true`: Oracle refuses what is 5 minutes off."
    if abs(off) >= _SKEW_MOST:
        yield fail("clock", told, fix)
    elif abs(off) >= _SKEW_WARN:
        yield warn("clock", told, fix)
    else:
        yield ok("clock", "right to the minute")


def key_files(way: str, name: str | None) -> Iterator[Finding]:
    """Whether others of this machine may read the key."""
    if way not in _KEYS:
        return
    profile = read_profile(name)
    for file in _files(profile):
        if not file.exists():
            continue
        mode = stat.S_IMODE(file.stat().st_mode)
        if mode & 0o077:
            told = f"{file} can be read by others on this machine (mode {mode:03o})"
            yield warn("key-file", told, f"chmod 600 {file}")
        else:
            yield ok("key-file", f"{file} is for its owner alone")


def _files(profile: Profile) -> list[Path]:
    named = [profile.values.get(setting) for setting in ("key_file", "security_token_file")]
    return [profile.file, *(Path(path).expanduser() for path in named if path)]


def region(facts: Facts) -> Iterator[Finding]:
    """Whether the tenancy is subscribed to the region."""
    wanted = facts.session.region
    if not wanted:
        yield fail("region", "nothing says in which region this is", 'Write `region = "us-ashburn-1"` into the target.')
        return
    if not facts.tenancy:
        yield skipped("region", f"{wanted}; which regions the tenancy has cannot be told with {facts.session.way}")
        return
    try:
        found = facts.ask("identity", "list_region_subscriptions", facts.tenancy).data
    except CloudError as error:
        yield _answering(facts, wanted, error)
        return
    states = {row["regionName"]: row.get("status", "READY") for row in found}
    if states.get(wanted) == "READY":
        yield ok("region", f"the tenancy is subscribed to {wanted}")
        return
    guess = nearest(wanted, states)
    meant = f"Did you mean {guess}? " if guess else ""
    fix = f"{meant}The tenancy has {', '.join(states)}; an administrator subscribes to another in the console."
    yield fail("region", f"the tenancy is not subscribed to {wanted}", fix)


def _answering(facts: Facts, wanted: str, error: CloudError) -> Finding:
    """Who may not see the list can still ask: a region that the tenancy is not subscribed to knows nobody of it."""
    try:
        facts.ask("object_storage", "get_namespace")
    except CloudError:
        return unseen(facts, "region", error, "TENANCY_INSPECT", f"{wanted}; may not see which regions the tenancy has")
    return ok("region", f"{wanted} knows the tenancy")


def compartment(facts: Facts) -> Iterator[Finding]:
    """Whether it is there. Who may not look at it may still use it."""
    if not facts.compartment:
        yield fail("compartment", "the target names no compartment", "Write `compartment_id` into the target.")
        return
    try:
        found = facts.ask("identity", "get_compartment", facts.compartment).data
    except CloudError as error:
        yield _unseen_compartment(facts, error)
        return
    if (state := found.get("lifecycleState", "ACTIVE")) != "ACTIVE":
        yield fail("compartment", f"the compartment {found['name']} is {state}", "Name one that is active.")
    else:
        yield ok("compartment", f"{found['name']}")


def _unseen_compartment(facts: Facts, error: CloudError) -> Finding:
    if not hidden(error):
        return refused(facts, "compartment", error, "COMPARTMENT_INSPECT", "")
    try:
        facts.ask("data_science", "list_jobs", facts.compartment, limit=1)
    except CloudError as another:
        told = f"there is no compartment {facts.compartment}, or none that you may use"
        return refused(
            facts, "compartment", another, "DATA_SCIENCE_JOB_INSPECT", told, "Correct `compartment_id` of the target."
        )
    return ok("compartment", "you may list its jobs, though not look at the compartment itself")


def project(facts: Facts) -> Iterator[Finding]:
    if not (wanted := facts.option("project_id")):
        yield fail("project", "the target names no project", "Write `project_id` into the target.")
        return
    try:
        found = facts.ask("data_science", "get_project", wanted).data
    except CloudError as error:
        told = f"there is no project {wanted}, or none that you may read"
        yield refused(facts, "project", error, "DATA_SCIENCE_PROJECT_READ", told, "Correct `project_id` of the target.")
        return
    if found.get("lifecycleState", "ACTIVE") != "ACTIVE":
        yield fail("project", f"the project is {found['lifecycleState']}", "Name one that is active.")
    else:
        yield ok("project", str(found.get("displayName") or wanted))


def logs(facts: Facts) -> Iterator[Finding]:
    """The log group, and the log in it."""
    group, log = facts.option("log_group_id"), facts.option("log_id")
    if not group:
        if log:
            yield fail("log-group", "the target names a log, and no log group", "Write `log_group_id` into the target.")
        else:
            yield skipped("log-group", "none is named: the nodes' lines are in the work dir alone")
        return
    try:
        found = facts.ask("logging", "get_log_group", group).data
    except CloudError as error:
        told = f"there is no log group {group}, or none that you may use"
        yield refused(facts, "log-group", error, "LOG_GROUP_READ", told, "Correct `log_group_id` of the target.")
        return
    yield ok("log-group", str(found.get("displayName") or group))
    if log:
        yield _log(facts, group, log)


def _log(facts: Facts, group: str, log: str) -> Finding:
    try:
        found = facts.ask("logging", "get_log", group, log).data
    except CloudError as error:
        told = f"there is no log {log} in the group"
        return refused(
            facts, "log", error, "LOG_GROUP_READ", told, "Correct `log_id`, or take it out: each run makes its own."
        )
    if found.get("isEnabled") is False:
        return warn("log", "the log is switched off", "Enable it in the console (Logging, Logs).")
    return ok("log", str(found.get("displayName") or log))


def session_of(facts_options: Any) -> Session | MusterError:
    """A session by the target's settings, or why there is none."""
    from ..clouds.oci import session

    try:
        return session(facts_options.get("auth"), facts_options.get("profile"), facts_options.get("region"))
    except MusterError as error:
        return error
