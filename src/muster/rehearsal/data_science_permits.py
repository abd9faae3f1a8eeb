"""The permissions that each operation of Data Science, Logging and Vault asks for.

The names are those of Oracle's policy reference. Where the reference leaves open what an operation asks of others
(the network, the registry, the log group), the comment says what was assumed.
"""

from __future__ import annotations

from collections.abc import Mapping

from .identity import Principal
from .permits import Permit, Wish, check

NEEDED: Mapping[str, tuple[str, ...]] = {
    "create_job": ("DATA_SCIENCE_JOB_CREATE",),
    "get_job": ("DATA_SCIENCE_JOB_READ",),
    "list_jobs": ("DATA_SCIENCE_JOB_INSPECT",),
    "update_job": ("DATA_SCIENCE_JOB_UPDATE",),
    "delete_job": ("DATA_SCIENCE_JOB_DELETE",),
    "create_artifact": ("DATA_SCIENCE_JOB_CREATE",),
    "get_artifact": ("DATA_SCIENCE_JOB_READ",),
    "head_artifact": ("DATA_SCIENCE_JOB_READ",),
    "list_shapes": ("DATA_SCIENCE_JOB_INSPECT",),
    "create_run": ("DATA_SCIENCE_JOB_RUN_CREATE", "DATA_SCIENCE_JOB_READ"),
    "get_run": ("DATA_SCIENCE_JOB_RUN_READ",),
    "list_runs": ("DATA_SCIENCE_JOB_RUN_INSPECT",),
    "update_run": ("DATA_SCIENCE_JOB_RUN_UPDATE",),
    "cancel_run": ("DATA_SCIENCE_JOB_RUN_UPDATE",),
    "delete_run": ("DATA_SCIENCE_JOB_RUN_DELETE",),
    "create_project": ("DATA_SCIENCE_PROJECT_CREATE",),
    "get_project": ("DATA_SCIENCE_PROJECT_READ",),
    "list_projects": ("DATA_SCIENCE_PROJECT_INSPECT",),
    # Of the caller, for a job or a run in a subnet: `use subnets` has both, and so has `use virtual-network-family`.
    "use_subnet": ("SUBNET_READ", "SUBNET_ATTACH"),
    # Of the service itself: `allow service datascience to use virtual-network-family`.
    "attach_node": ("VNIC_CREATE", "SUBNET_ATTACH"),
    # Of the run's own principal, before its image is pulled.
    "pull_image": ("REPOSITORY_READ",),
    # Of the caller, for a run that logs into this group; CreateLog is among the operations of `manage log-groups`.
    "use_log_group": ("LOG_GROUP_READ",),
    "create_log": ("LOG_GROUP_CREATE",),
    "push_logs": ("LOG_CONTENT_PUSH",),
    "search_logs": ("LOG_CONTENT_READ",),
    "create_log_group": ("LOG_GROUP_CREATE",),
    "get_log_group": ("LOG_GROUP_READ",),
    "list_log_groups": ("LOG_GROUP_INSPECT",),
    "delete_log_group": ("LOG_GROUP_DELETE",),
    "get_log": ("LOG_GROUP_READ",),
    "list_logs": ("LOG_GROUP_INSPECT",),
    "delete_log": ("LOG_GROUP_DELETE",),
    "get_secret_bundle": ("SECRET_BUNDLE_READ",),
    "create_secret": ("SECRET_CREATE",),
    "get_secret": ("SECRET_READ",),
    "list_secrets": ("SECRET_INSPECT",),
    "update_secret": ("SECRET_UPDATE",),
    "delete_secret": ("SECRET_DELETE",),
}


def wishes(operation: str, compartment: str, about: Mapping[str, str] | None = None) -> tuple[Wish, ...]:
    """What an operation asks for."""
    return tuple(Wish(permission, compartment, about or {}) for permission in NEEDED[operation])


def demand(
    permit: Permit, principal: Principal, operation: str, compartment: str, about: Mapping[str, str] | None = None
) -> None:
    """All that the operation asks for, or the service's 404."""
    check(permit, principal, *wishes(operation, compartment, about))


def has(
    permit: Permit, principal: Principal, operation: str, compartment: str, about: Mapping[str, str] | None = None
) -> bool:
    """Whether all of it is there."""
    return all(permit(principal, wish) for wish in wishes(operation, compartment, about))
