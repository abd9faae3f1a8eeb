"""The calls that a run makes to Oracle's cloud, by whom, and the permissions that Oracle's reference asks for each.

This is the one list that policies are measured by: each of these must be allowed, and a statement that none of them
needs must not be there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from .policies import LAUNCHER, RUN, SERVICE, WITH_KEY
from .policy_needs import ANY, Needs

_JOB, _JOB_RUN = "DATA_SCIENCE_JOB", "DATA_SCIENCE_JOB_RUN"


@dataclass(frozen=True)
class Call:
    """One operation, as the policies of an account see it."""

    who: str
    operation: str
    """As the SDK calls it."""
    permissions: tuple[str, ...]
    about: Mapping[str, str] = field(default_factory=dict)
    """The variables that the service knows of it."""
    in_tenancy: bool = False


def calls(needs: Needs) -> Iterator[Call]:
    """All calls of this job's launcher, its nodes, and the service in their name."""
    yield from _launchers(needs)
    yield from _runs(needs)
    if needs.subnet:
        plug = ("SUBNET_READ", "SUBNET_ATTACH", "VNIC_CREATE", "VNIC_ATTACH")
        yield Call(SERVICE, "start a run in the subnet", plug)
        yield Call(SERVICE, "end a run in the subnet", ("SUBNET_DETACH", "VNIC_DETACH", "VNIC_DELETE"))


def _launchers(needs: Needs) -> Iterator[Call]:
    yield Call(LAUNCHER, "get_compartment", ("COMPARTMENT_INSPECT",))
    yield Call(LAUNCHER, "get_resource_availability", ("RESOURCE_AVAILABILITY_READ",))
    yield Call(LAUNCHER, "get_project", ("DATA_SCIENCE_PROJECT_READ",))
    yield Call(LAUNCHER, "create_job", (f"{_JOB}_CREATE", "DATA_SCIENCE_PROJECT_READ"))
    yield Call(LAUNCHER, "list_jobs", (f"{_JOB}_INSPECT",))
    yield Call(LAUNCHER, "get_job", (f"{_JOB}_READ",))
    if needs.deletes_jobs:
        yield Call(LAUNCHER, "delete_job", (f"{_JOB}_DELETE", f"{_JOB_RUN}_DELETE"))
    create = (f"{_JOB_RUN}_CREATE", f"{_JOB}_READ", "DATA_SCIENCE_PROJECT_READ")
    yield Call(LAUNCHER, "create_job_run", create)
    yield from _watching(LAUNCHER)
    if needs.bucket:
        yield from _writing(LAUNCHER, needs.bucket)
    if needs.git_secret:
        yield Call(LAUNCHER, "get_secret_bundle", ("SECRET_BUNDLE_READ",), {"target.secret.id": needs.git_secret})
    if needs.code_bucket:
        yield from _reading(LAUNCHER, needs.code_bucket)
    yield from _launchers_network(needs)
    yield from _launchers_others(needs)


def _watching(who: str) -> Iterator[Call]:
    yield Call(who, "list_job_runs", (f"{_JOB_RUN}_INSPECT",))
    yield Call(who, "get_job_run", (f"{_JOB_RUN}_READ",))
    yield Call(who, "cancel_job_run", (f"{_JOB_RUN}_UPDATE",))


def _reading(who: str, bucket: str) -> Iterator[Call]:
    here = {"target.bucket.name": bucket}
    yield Call(who, "list_objects", ("OBJECT_INSPECT",), here)
    yield Call(who, "head_object", ("OBJECT_INSPECT",), here)
    yield Call(who, "get_object", ("OBJECT_READ",), here)


def _writing(who: str, bucket: str) -> Iterator[Call]:
    here = {"target.bucket.name": bucket}
    yield from _reading(who, bucket)
    yield Call(who, "put_object", ("OBJECT_CREATE", "OBJECT_OVERWRITE"), here)
    yield Call(who, "create_multipart_upload", ("OBJECT_CREATE", "OBJECT_OVERWRITE"), here)
    yield Call(who, "abort_multipart_upload", ("OBJECT_DELETE",), here)
    yield Call(who, "delete_object", ("OBJECT_DELETE",), here)


def _launchers_network(needs: Needs) -> Iterator[Call]:
    if not needs.subnet:
        return
    yield Call(LAUNCHER, "create_job_run in the subnet", ("SUBNET_READ", "SUBNET_ATTACH", "VNIC_CREATE", "VNIC_ATTACH"))
    for operation, permission in {
        "get_subnet": "SUBNET_READ",
        "get_vcn": "VCN_READ",
        "get_route_table": "ROUTE_TABLE_READ",
        "get_security_list": "SECURITY_LIST_READ",
        "list_nat_gateways": "NAT_GATEWAY_READ",
        "list_service_gateways": "SERVICE_GATEWAY_READ",
        "list_internet_gateways": "INTERNET_GATEWAY_READ",
        "get_network_security_group": "NETWORK_SECURITY_GROUP_READ",
        "list_network_security_group_security_rules": "NETWORK_SECURITY_GROUP_LIST_SECURITY_RULES",
    }.items():
        yield Call(LAUNCHER, operation, (permission,))


def _launchers_others(needs: Needs) -> Iterator[Call]:
    if needs.log_group:
        here = {"target.loggroup.id": needs.log_group}
        yield Call(LAUNCHER, "list_logs", ("LOG_GROUP_INSPECT",), here)
        yield Call(LAUNCHER, "get_log_group", ("LOG_GROUP_READ",), here)
        if not needs.log:
            yield Call(LAUNCHER, "create_job with a log of its own", ("LOG_GROUP_CREATE",), here)
        yield Call(LAUNCHER, "search_logs", ("LOG_CONTENT_READ",), here)
    if needs.repositories:
        yield Call(LAUNCHER, "list_container_repositories", ("REPOSITORY_INSPECT",))
    for name in _repositories(needs):
        here = {"target.repo.name": name}
        yield Call(LAUNCHER, "get_container_repository", ("REPOSITORY_READ",), here)
        yield Call(LAUNCHER, "push an image", ("REPOSITORY_UPDATE", "REPOSITORY_CREATE"), here)
    for name in needs.tag_namespaces:
        here = {"target.tag-namespace.name": name}
        yield Call(LAUNCHER, "create_job with defined tags", ("TAG_NAMESPACE_USE",), here, in_tenancy=True)


def _runs(needs: Needs) -> Iterator[Call]:
    for bucket in (needs.bucket, *needs.written_buckets):
        if bucket:
            yield from _writing(RUN, bucket)
    for bucket in needs.read_buckets:
        yield from _reading(RUN, bucket)
    if needs.ends_others:
        yield from _watching(RUN)
    for name in _repositories(needs):
        yield Call(RUN, "pull an image", ("REPOSITORY_READ",), {"target.repo.name": name})
    if needs.log_group:
        yield Call(RUN, "put_logs", ("LOG_CONTENT_PUSH",), {"target.loggroup.id": needs.log_group})
    for ocid in needs.secrets:
        yield Call(RUN, "get_secret_bundle", ("SECRET_BUNDLE_READ",), {"target.secret.id": ocid})
    if needs.certificate:
        here = {"target.leaf-certificate.id": needs.certificate, "target.leaf-certificate.bundle-type": WITH_KEY}
        yield Call(RUN, "get_certificate_bundle", ("CERTIFICATE_BUNDLE_READ",), here)
    if needs.authority:
        here = {"target.certificate-authority.id": needs.authority}
        yield Call(RUN, "get_certificate_authority_bundle", ("CERTIFICATE_AUTHORITY_BUNDLE_READ",), here)


def _repositories(needs: Needs) -> tuple[str, ...]:
    return ("any/repository",) if ANY in needs.repositories else needs.repositories
