"""What one job needs of an Oracle account: read from the job and its target, each name checked.

Every name ends up inside a policy statement, so none may hold more than names are made of: a quotation mark or a new
line in one is refused here, and cannot end a statement early.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import MusterError
from ..spec.config import Target
from ..spec.job import Job

USERS = "muster-users"
RUNS = "muster-runs"
ANY = "*"
"""A repository whose name is not known yet."""

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")
_PATTERNS = {
    "OCID": re.compile(r"ocid1(?:\.[A-Za-z0-9_\-]*)+"),
    "bucket": _PLAIN,
    "compartment": re.compile(rf"{_PLAIN.pattern}(?::{_PLAIN.pattern})*"),
    "group": re.compile(rf"(?:{_PLAIN.pattern}/)?{_PLAIN.pattern}"),
    "dynamic group": re.compile(rf"(?:{_PLAIN.pattern}/)?{_PLAIN.pattern}"),
    "repository": re.compile(rf"{_PLAIN.pattern}(?:/{_PLAIN.pattern})*"),
    "tag namespace": _PLAIN,
}
LAUNCHERS = {"resource_principal": "notebook", "instance_principal": "instance"}
"""What launches, by the target's `auth`; with a key or a token it is a user."""


@dataclass(frozen=True)
class Needs:
    """A job, as far as an account's policies care."""

    compartment_id: str
    bucket: str = ""
    """Of the work dir; empty where that is elsewhere."""
    namespace: str = ""
    compartment: str = ""
    """By name, `A:B` for B in A; its OCID stands in the statements where it is empty."""
    read_buckets: tuple[str, ...] = ()
    """Inputs and code lie in these."""
    written_buckets: tuple[str, ...] = ()
    """Mounted into the runs, or synced to by them."""
    code_bucket: str = ""
    repositories: tuple[str, ...] = ()
    framework: str = "pytorch"
    users: str = USERS
    launcher: str = "user"
    """`user`, or `notebook` or `instance` where a resource launches: its dynamic group is called `users` too."""
    runs: str = RUNS
    """The dynamic group of the job runs."""
    subnet: bool = False
    log_group: str = ""
    log: bool = False
    """Whether the log is there already; if not, it is made in the group."""
    secrets: tuple[str, ...] = ()
    git_secret: str = ""
    """The key that the launcher fetches the code with."""
    authority: str = ""
    certificate: str = ""
    tag_namespaces: tuple[str, ...] = ()
    ends_others: bool = True
    """Main's last act cancels the other runs."""
    deletes_jobs: bool = True

    def __post_init__(self) -> None:
        for kind, name in _names(self):
            if not _PATTERNS[kind].fullmatch(name):
                fix = "Use the name that Oracle's console shows for it."
                raise MusterError(f"{name!r} cannot be the {'name of a ' if kind != 'OCID' else ''}{kind}", fix)

    @property
    def in_root(self) -> bool:
        """Whether the compartment is the tenancy's root."""
        return self.compartment_id.startswith("ocid1.tenancy.")


def _names(needs: Needs) -> Iterator[tuple[str, str]]:
    """Every text that goes into a statement, and what it must be."""
    buckets = (needs.bucket, needs.code_bucket, *needs.read_buckets, *needs.written_buckets)
    ocids = (needs.log_group, needs.authority, needs.certificate, *needs.secrets, needs.git_secret)
    yield "OCID", needs.compartment_id
    yield "group" if needs.launcher == "user" else "dynamic group", needs.users
    yield "dynamic group", needs.runs
    for kind, names in (
        ("bucket", buckets),
        ("compartment", (needs.compartment,)),
        ("repository", (each for each in needs.repositories if each != ANY)),
        ("OCID", ocids),
        ("tag namespace", needs.tag_namespaces),
    ):
        yield from ((kind, name) for name in names if name)


def needs_of(job: Job, target: Target, **chosen: Any) -> Needs:
    """What this job needs on this target. `chosen` are settings that neither of them says, such as `users`."""
    options: Mapping[str, Any] = target.options
    if not options.get("compartment_id"):
        fix = 'Write compartment_id = "ocid1.compartment.…" into it: the runs\' dynamic group is made of its members.'
        raise MusterError(f"target {target.name!r} has no compartment_id", fix)
    bucket, namespace = _bucket(job.work_dir or target.work_dir or "")
    code, _ = _bucket(job.code or "")
    written = _others(_mounts(options), (bucket,))
    secrets = options.get("secrets") or {}
    found: dict[str, Any] = {
        "compartment_id": str(options["compartment_id"]),
        "bucket": bucket,
        "namespace": namespace,
        "read_buckets": _others([code, *(_bucket(each.source)[0] for each in job.inputs.values())], (bucket, *written)),
        "written_buckets": written,
        "code_bucket": code if code not in (bucket, *written) else "",
        "repositories": _repositories(job, options),
        "framework": job.framework,
        "launcher": LAUNCHERS.get(str(options.get("auth", "")), "user"),
        "subnet": bool(options.get("subnet_id")),
        "log_group": str(options.get("log_group_id") or ""),
        "log": bool(options.get("log_id")),
        "secrets": _others(secrets[name] for name in job.secrets if name in secrets),
        "git_secret": str(options.get("git_secret_id") or ""),
        "authority": str(options.get("ca_cert_id") or ""),
        "certificate": str(options.get("cert_id") or ""),
        "tag_namespaces": _others(options.get("defined_tags") or {}),
    }
    return Needs(**{**found, **{name: value for name, value in chosen.items() if value is not None}})


def _bucket(url: str) -> tuple[str, str]:
    """The bucket and the namespace of `oci://bucket@namespace/prefix`; nothing where it is elsewhere."""
    if not url.lower().startswith("oci://"):
        return "", ""
    name, _, namespace = url[len("oci://") :].partition("?")[0].partition("/")[0].partition("@")
    return name, namespace


def _mounts(options: Mapping[str, Any]) -> Iterator[str]:
    for mount in options.get("storage_mount") or ():
        if isinstance(mount, Mapping):
            yield str(mount.get("bucket") or "")
        else:
            yield _bucket(str(mount))[0]


def _repositories(job: Job, options: Mapping[str, Any]) -> tuple[str, ...]:
    images = [job.image or options.get("image"), *(role.image for role in job.roles.values())]
    return _others(ANY if image.startswith("@") else _repository(image) for image in map(str, filter(None, images)))


def _repository(image: str) -> str:
    """`team/train` of `iad.ocir.io/namespace/team/train:1`; nothing for an image of another registry."""
    host, _, path = image.partition("/")
    if "ocir." not in f"{host}.":
        return ""
    return path.partition("/")[2].partition("@")[0].rpartition(":")[0] or path.partition("/")[2].partition("@")[0]


def _others(names: Iterable[Any], but: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Each name once, in order, without empty ones and these."""
    return tuple(dict.fromkeys(str(name) for name in names if name and name not in but))
