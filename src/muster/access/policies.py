"""The dynamic groups and policy statements that one job needs in an Oracle account, and why.

>>> made = policy(needs_of(job, target))
>>> print("\\n".join(statement.text for statement in made.statements))

Least privilege: a verb where it says what is meant, a condition on the very bucket, repository, log group or secret.
What each statement is for is in `gives`, in the permissions of Oracle's reference; `policy_calls.py` has the calls
that ask for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .policy_needs import ANY, Needs, needs_of

__all__ = ["DynamicGroup", "Needs", "Policy", "Statement", "needs_of", "policy"]

LAUNCHER, RUN, SERVICE = "launcher", "run", "service"
_JOB, _JOB_RUN = "DATA_SCIENCE_JOB", "DATA_SCIENCE_JOB_RUN"
WITH_KEY = "CERTIFICATE_CONTENT_WITH_PRIVATE_KEY"


@dataclass(frozen=True)
class DynamicGroup:
    """Resources that policies speak of as one."""

    name: str
    rule: str
    why: str


@dataclass(frozen=True)
class Statement:
    """One line of a policy."""

    who: str
    """`launcher`, `run` or `service`."""
    text: str
    why: str
    gives: tuple[str, ...]
    """The permissions that it is there for."""


@dataclass(frozen=True)
class Policy:
    """All that an administrator has to create, once."""

    name: str
    description: str
    dynamic_groups: tuple[DynamicGroup, ...]
    statements: tuple[Statement, ...]

    def mending(self, who: str, permission: str) -> str:
        """The statement that gives this; empty where none is meant to."""
        return next((each.text for each in self.statements if each.who == who and permission in each.gives), "")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Policy:
        """Reads what `to_json` wrote, also after it has been JSON."""
        groups = tuple(DynamicGroup(**each) for each in value["dynamic_groups"])
        statements = tuple(Statement(**{**each, "gives": tuple(each["gives"])}) for each in value["statements"])
        return cls(value["name"], value["description"], groups, statements)


def policy(needs: Needs, proof_of_concept: bool = False) -> Policy:
    """What a job needs; as a proof of concept, the few wide statements that hold for any job of the compartment."""
    statements = _wide(needs) if proof_of_concept else [*_launcher(needs), *_runs(needs), *_service(needs)]
    description = f"What runs of {needs.framework} with Muster need"
    if proof_of_concept:
        description = "All that any run with Muster could need, for a proof of concept"
    return Policy("muster", description, tuple(_groups(needs)), tuple(statements))


def _groups(needs: Needs) -> Iterator[DynamicGroup]:
    where = f"resource.compartment.id = '{needs.compartment_id}'"
    rule = f"all {{resource.type = 'datasciencejobrun', {where}}}"
    yield DynamicGroup(needs.runs, rule, "the job runs of the compartment: the nodes")
    if needs.launcher == "notebook":
        rule = f"all {{resource.type = 'datasciencenotebooksession', {where}}}"
        yield DynamicGroup(needs.users, rule, "the notebook sessions that launch")
    if needs.launcher == "instance":
        rule = f"all {{instance.compartment.id = '{needs.compartment_id}'}}"
        yield DynamicGroup(needs.users, rule, "the instances that launch")


@dataclass(frozen=True)
class _Writer:
    """Writes the statements of one subject."""

    who: str
    subject: str
    place: str

    def __call__(self, action: str, why: str, gives: str, condition: str = "", place: str = "") -> Statement:
        text = f"Allow {self.subject} to {action} in {place or self.place}"
        return Statement(self.who, f"{text} where {condition}" if condition else text, why, tuple(gives.split()))


def _place(needs: Needs) -> str:
    if needs.in_root:
        return "tenancy"
    return f"compartment {needs.compartment}" if needs.compartment else f"compartment id {needs.compartment_id}"


def _for_launcher(needs: Needs) -> _Writer:
    kind = "group" if needs.launcher == "user" else "dynamic-group"
    return _Writer(LAUNCHER, f"{kind} {_in_domain(needs.users)}", _place(needs))


def _for_runs(needs: Needs) -> _Writer:
    return _Writer(RUN, f"dynamic-group {_in_domain(needs.runs)}", _place(needs))


def _in_domain(name: str) -> str:
    """A group of an identity domain has both in quotation marks."""
    domain, slash, own = name.partition("/")
    return f"'{domain}'/'{own}'" if slash else name


def _one_of(variable: str, values: Iterable[str]) -> str:
    clauses = [f"{variable} = '{value}'" for value in values]
    return clauses[0] if len(clauses) == 1 else f"any {{{', '.join(clauses)}}}"


def _launcher(needs: Needs) -> Iterator[Statement]:
    write = _for_launcher(needs)
    yield write("inspect compartments", "`muster doctor` looks whether the compartment is there", "COMPARTMENT_INSPECT")
    yield write("read data-science-projects", "every job and job run is made in a project", "DATA_SCIENCE_PROJECT_READ")
    if needs.deletes_jobs:
        gives = f"{_JOB}_INSPECT {_JOB}_READ {_JOB}_CREATE {_JOB}_DELETE"
        yield write("manage data-science-jobs", "one job is made for a run, and deleted when it is over", gives)
    else:
        gives = f"{_JOB}_INSPECT {_JOB}_READ {_JOB}_CREATE"
        yield write(f"{{{', '.join(gives.split())}}}", "one job is made for a run, and left", gives)
    yield write(
        "manage data-science-job-runs",
        "one job run is made for each node, watched, cancelled when it is no longer needed, deleted with its job",
        f"{_JOB_RUN}_INSPECT {_JOB_RUN}_READ {_JOB_RUN}_CREATE {_JOB_RUN}_UPDATE {_JOB_RUN}_DELETE",
    )
    yield write(
        "read resource-availability", "`muster doctor` asks for the quota of the shapes", "RESOURCE_AVAILABILITY_READ"
    )
    yield from _launchers_storage(needs, write)
    yield from _launchers_others(needs, write)


def _launchers_storage(needs: Needs, write: _Writer) -> Iterator[Statement]:
    if needs.bucket:
        here = _one_of("target.bucket.name", [needs.bucket])
        yield write(
            "manage objects", "the work dir: code and records go up, logs and outputs come down", _OBJECTS, here
        )
    if needs.git_secret:
        here = _one_of("target.secret.id", [needs.git_secret])
        yield write("read secret-bundles", "the key that git fetches the code with", "SECRET_BUNDLE_READ", here)
    if needs.code_bucket:
        here = _one_of("target.bucket.name", [needs.code_bucket])
        yield write("read objects", "the version of the code that a run gets", "OBJECT_INSPECT OBJECT_READ", here)


_OBJECTS = "OBJECT_INSPECT OBJECT_READ OBJECT_CREATE OBJECT_OVERWRITE OBJECT_DELETE"
_NETWORK = (
    "SUBNET_READ SUBNET_ATTACH SUBNET_DETACH VNIC_READ VNIC_CREATE VNIC_DELETE VNIC_ATTACH VNIC_DETACH "
    "VCN_READ ROUTE_TABLE_READ SECURITY_LIST_READ NAT_GATEWAY_READ SERVICE_GATEWAY_READ INTERNET_GATEWAY_READ "
    "NETWORK_SECURITY_GROUP_READ NETWORK_SECURITY_GROUP_LIST_SECURITY_RULES"
)
_PLUG = "SUBNET_READ SUBNET_ATTACH SUBNET_DETACH VNIC_READ VNIC_CREATE VNIC_DELETE VNIC_ATTACH VNIC_DETACH"


def _launchers_others(needs: Needs, write: _Writer) -> Iterator[Statement]:
    if needs.subnet:
        why = (
            "the runs are put into the subnet in the launcher's name, and `muster doctor` looks at its rules and routes"
        )
        yield write("use virtual-network-family", why, _NETWORK)
    if needs.log_group:
        here = _one_of("target.loggroup.id", [needs.log_group])
        if needs.log:
            gives = "LOG_GROUP_INSPECT LOG_GROUP_READ"
            yield write("read log-groups", "the log that the runs write to", gives, here)
        else:
            gives = "LOG_GROUP_INSPECT LOG_GROUP_READ LOG_GROUP_CREATE"
            yield write("manage log-groups", "a log is made for the job, since the target names none", gives, here)
        yield write("read log-content", "`muster logs` searches it", "LOG_CONTENT_READ", here)
    if needs.repositories:
        here = _repositories(needs)
        if here:
            yield write("inspect repos", "`muster doctor` finds the repository in the list", "REPOSITORY_INSPECT")
        gives = "REPOSITORY_READ REPOSITORY_CREATE REPOSITORY_UPDATE"
        gives = gives if here else f"REPOSITORY_INSPECT {gives}"
        yield write("manage repos", "`muster image push`, which no lesser verb allows", gives, here)
    if needs.tag_namespaces:
        here = _one_of("target.tag-namespace.name", needs.tag_namespaces)
        yield write("use tag-namespaces", "the defined tags of the job", "TAG_NAMESPACE_USE", here, "tenancy")


def _repositories(needs: Needs) -> str:
    return "" if ANY in needs.repositories else _one_of("target.repo.name", needs.repositories)


def _runs(needs: Needs) -> Iterator[Statement]:
    write = _for_runs(needs)
    written = [name for name in (needs.bucket, *needs.written_buckets) if name]
    if written:
        here = _one_of("target.bucket.name", written)
        yield write(
            "manage objects", "the work dir, where the nodes meet, and what is mounted or synced", _OBJECTS, here
        )
    if needs.read_buckets:
        here = _one_of("target.bucket.name", needs.read_buckets)
        yield write("read objects", "the inputs and the code", "OBJECT_INSPECT OBJECT_READ", here)
    if needs.ends_others:
        why = (
            "main's last act cancels the other runs, wherever the launcher is; it reaches every run of the compartment"
        )
        yield write("use data-science-job-runs", why, f"{_JOB_RUN}_INSPECT {_JOB_RUN}_READ {_JOB_RUN}_UPDATE")
    if needs.repositories:
        yield write("read repos", "each run pulls its image", "REPOSITORY_READ", _repositories(needs))
    if needs.log_group:
        here = _one_of("target.loggroup.id", [needs.log_group])
        yield write("use log-content", "the lines of each run go to the log", "LOG_CONTENT_PUSH", here)
    yield from _runs_secrets(needs, write)


def _runs_secrets(needs: Needs, write: _Writer) -> Iterator[Statement]:
    if needs.secrets:
        here = _one_of("target.secret.id", needs.secrets)
        yield write("read secret-bundles", "the values of the job's secrets", "SECRET_BUNDLE_READ", here)
    if needs.certificate:
        # Without the type, the service hands out the public half alone.
        here = f"target.leaf-certificate.id = '{needs.certificate}'"
        here = f"all {{{here}, target.leaf-certificate.bundle-type = '{WITH_KEY}'}}"
        why = "the certificate of the cluster, with its key"
        yield write("read leaf-certificate-bundles", why, "CERTIFICATE_BUNDLE_READ", here)
    if needs.authority:
        here = _one_of("target.certificate-authority.id", [needs.authority])
        why, gives = "the authority that the nodes trust", "CERTIFICATE_AUTHORITY_BUNDLE_READ"
        yield write("read certificate-authority-bundles", why, gives, here)


def _service(needs: Needs) -> Iterator[Statement]:
    if needs.subnet:
        write = _Writer(SERVICE, "service datascience", _place(needs))
        yield write("use virtual-network-family", "the service gives each run its address in the subnet", _PLUG)


def _wide(needs: Needs) -> Iterator[Statement]:
    launcher, run = _for_launcher(needs), _for_runs(needs)
    wide = "for a proof of concept: everything in the compartment"
    yield launcher("manage all-resources", wide, _every(_launcher(needs), but="TAG_NAMESPACE_USE"))
    yield run("manage all-resources", wide, _every(_runs(needs)))
    if needs.tag_namespaces:
        yield launcher("use tag-namespaces", "the defined tags of the job", "TAG_NAMESPACE_USE", place="tenancy")
    service = _Writer(SERVICE, "service datascience", "tenancy")
    yield service("use virtual-network-family", "the service gives each run its address in a subnet", _PLUG)


def _every(statements: Iterable[Statement], but: str = "") -> str:
    found = dict.fromkeys(gives for each in statements for gives in each.gives if gives != but)
    return " ".join(found)
