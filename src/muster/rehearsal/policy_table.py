"""Which permissions a verb gives on a resource type: the tables of Oracle's policy reference, for what a run touches.

A row has what `inspect`, `read`, `use` and `manage` add, in this order; each verb holds those before it. Where a verb
adds nothing it says so with an empty text, as the reference does with "no extra": `use repos` gives no more than
`read repos`, and `use objects` may overwrite an object but not create one.
"""

from __future__ import annotations

from functools import cache

VERBS = ("inspect", "read", "use", "manage")
EVERYTHING = "all-resources"

_ROWS: dict[str, tuple[str, str, str, str]] = {
    # Object storage
    "objectstorage-namespaces": ("", "", "", "OBJECTSTORAGE_NAMESPACE_READ OBJECTSTORAGE_NAMESPACE_UPDATE"),
    "buckets": (
        "BUCKET_INSPECT",
        "BUCKET_READ",
        "BUCKET_UPDATE",
        "BUCKET_CREATE BUCKET_DELETE PAR_MANAGE RETENTION_RULE_MANAGE RETENTION_RULE_LOCK",
    ),
    "objects": (
        "OBJECT_INSPECT",
        "OBJECT_READ",
        "OBJECT_OVERWRITE",
        "OBJECT_CREATE OBJECT_DELETE OBJECT_VERSION_DELETE OBJECT_RESTORE OBJECT_UPDATE_TIER",
    ),
    # Networking
    "vcns": ("VCN_READ", "", "", "VCN_ATTACH VCN_DETACH VCN_UPDATE VCN_CREATE VCN_DELETE VCN_MOVE"),
    "subnets": (
        "SUBNET_READ",
        "",
        "SUBNET_ATTACH SUBNET_DETACH",
        "SUBNET_CREATE SUBNET_UPDATE SUBNET_DELETE SUBNET_MOVE",
    ),
    "route-tables": (
        "ROUTE_TABLE_READ",
        "",
        "",
        "ROUTE_TABLE_ATTACH ROUTE_TABLE_DETACH ROUTE_TABLE_UPDATE ROUTE_TABLE_CREATE ROUTE_TABLE_DELETE "
        "ROUTE_TABLE_MOVE",
    ),
    "network-security-groups": (
        "NETWORK_SECURITY_GROUP_INSPECT",
        "NETWORK_SECURITY_GROUP_READ",
        "NETWORK_SECURITY_GROUP_LIST_SECURITY_RULES NETWORK_SECURITY_GROUP_LIST_MEMBERS "
        "NETWORK_SECURITY_GROUP_UPDATE_MEMBERS",
        "NETWORK_SECURITY_GROUP_UPDATE NETWORK_SECURITY_GROUP_CREATE NETWORK_SECURITY_GROUP_DELETE "
        "NETWORK_SECURITY_GROUP_MOVE NETWORK_SECURITY_GROUP_UPDATE_SECURITY_RULES",
    ),
    "security-lists": (
        "SECURITY_LIST_READ",
        "",
        "",
        "SECURITY_LIST_ATTACH SECURITY_LIST_DETACH SECURITY_LIST_UPDATE SECURITY_LIST_CREATE SECURITY_LIST_DELETE "
        "SECURITY_LIST_MOVE",
    ),
    "dhcp-options": ("DHCP_READ", "", "", "DHCP_ATTACH DHCP_DETACH DHCP_UPDATE DHCP_CREATE DHCP_DELETE DHCP_MOVE"),
    "private-ips": (
        "PRIVATE_IP_READ",
        "",
        "PRIVATE_IP_UPDATE PRIVATE_IP_ASSIGN PRIVATE_IP_UNASSIGN PRIVATE_IP_CREATE PRIVATE_IP_DELETE "
        "PRIVATE_IP_ASSIGN_PUBLIC_IP PRIVATE_IP_UNASSIGN_PUBLIC_IP",
        "PRIVATE_IP_ROUTE_TABLE_ATTACH PRIVATE_IP_ROUTE_TABLE_DETACH",
    ),
    "internet-gateways": (
        "INTERNET_GATEWAY_READ",
        "",
        "",
        "INTERNET_GATEWAY_ATTACH INTERNET_GATEWAY_DETACH INTERNET_GATEWAY_UPDATE INTERNET_GATEWAY_CREATE "
        "INTERNET_GATEWAY_DELETE INTERNET_GATEWAY_MOVE",
    ),
    "nat-gateways": (
        "",
        "NAT_GATEWAY_READ",
        "NAT_GATEWAY_ATTACH NAT_GATEWAY_DETACH",
        "NAT_GATEWAY_UPDATE NAT_GATEWAY_CREATE NAT_GATEWAY_DELETE NAT_GATEWAY_MOVE",
    ),
    "service-gateways": (
        "SERVICE_GATEWAY_READ",
        "",
        "SERVICE_GATEWAY_ATTACH SERVICE_GATEWAY_DETACH",
        "SERVICE_GATEWAY_UPDATE SERVICE_GATEWAY_CREATE SERVICE_GATEWAY_DELETE SERVICE_GATEWAY_ADD_SERVICE "
        "SERVICE_GATEWAY_DELETE_SERVICE SERVICE_GATEWAY_MOVE",
    ),
    "vnics": (
        "VNIC_READ",
        "",
        "VNIC_ATTACH VNIC_DETACH VNIC_CREATE VNIC_DELETE VNIC_UPDATE VNIC_ASSOCIATE_NETWORK_SECURITY_GROUP "
        "VNIC_DISASSOCIATE_NETWORK_SECURITY_GROUP",
        "",
    ),
    "vnic-attachments": ("VNIC_ATTACHMENT_READ", "", "", ""),
    # Logging
    "log-groups": ("LOG_GROUP_INSPECT", "LOG_GROUP_READ", "LOG_GROUP_UPDATE", "LOG_GROUP_CREATE LOG_GROUP_DELETE"),
    "log-content": ("", "LOG_CONTENT_READ", "LOG_CONTENT_PUSH UNIFIED_AGENT_CONFIG_GENERATE", ""),
    "unified-configuration": (
        "UNIFIED_AGENT_CONFIG_INSPECT",
        "UNIFIED_AGENT_CONFIG_READ",
        "UNIFIED_AGENT_CONFIG_UPDATE",
        "UNIFIED_AGENT_CONFIG_CREATE UNIFIED_AGENT_CONFIG_DELETE",
    ),
    # Container registry
    "repos": (
        "REPOSITORY_INSPECT",
        "REPOSITORY_READ",
        "",
        "REPOSITORY_CREATE REPOSITORY_DELETE REPOSITORY_UPDATE REPOSITORY_MANAGE",
    ),
    # Vault
    "vaults": (
        "VAULT_INSPECT",
        "VAULT_READ",
        "VAULT_CREATE_KEY VAULT_IMPORT_KEY VAULT_CREATE_SECRET",
        "VAULT_CREATE VAULT_UPDATE VAULT_DELETE VAULT_MOVE VAULT_BACKUP VAULT_RESTORE VAULT_REPLICATE",
    ),
    "keys": (
        "KEY_INSPECT",
        "KEY_READ",
        "KEY_ENCRYPT KEY_DECRYPT KEY_EXPORT KEY_SIGN KEY_VERIFY",
        "KEY_CREATE KEY_UPDATE KEY_ROTATE KEY_DELETE KEY_MOVE KEY_IMPORT KEY_BACKUP KEY_RESTORE",
    ),
    "key-delegate": ("", "", "KEY_ASSOCIATE KEY_DISASSOCIATE", ""),
    "secrets": ("SECRET_INSPECT", "SECRET_READ", "SECRET_UPDATE", "SECRET_CREATE SECRET_DELETE SECRET_MOVE"),
    "secret-versions": ("SECRET_VERSION_INSPECT", "SECRET_VERSION_READ", "", "SECRET_VERSION_DELETE"),
    "secret-bundles": ("SECRET_BUNDLE_INSPECT", "SECRET_BUNDLE_READ", "", ""),
    # Certificates
    "leaf-certificates": (
        "CERTIFICATE_INSPECT",
        "CERTIFICATE_READ",
        "CERTIFICATE_UPDATE",
        "CERTIFICATE_CREATE CERTIFICATE_DELETE CERTIFICATE_MOVE",
    ),
    "leaf-certificate-versions": (
        "CERTIFICATE_VERSION_INSPECT",
        "CERTIFICATE_VERSION_READ",
        "",
        "CERTIFICATE_VERSION_REVOKE CERTIFICATE_VERSION_DELETE",
    ),
    "leaf-certificate-bundles": ("CERTIFICATE_BUNDLE_INSPECT", "CERTIFICATE_BUNDLE_READ", "", ""),
    "certificate-authorities": (
        "CERTIFICATE_AUTHORITY_INSPECT",
        "CERTIFICATE_AUTHORITY_READ",
        "CERTIFICATE_AUTHORITY_UPDATE",
        "CERTIFICATE_AUTHORITY_CREATE CERTIFICATE_AUTHORITY_DELETE CERTIFICATE_AUTHORITY_MOVE",
    ),
    "certificate-authority-bundles": (
        "CERTIFICATE_AUTHORITY_BUNDLE_INSPECT",
        "CERTIFICATE_AUTHORITY_BUNDLE_READ",
        "",
        "",
    ),
    "cabundles": (
        "CABUNDLE_INSPECT",
        "CABUNDLE_READ",
        "CABUNDLE_UPDATE",
        "CABUNDLE_CREATE CABUNDLE_DELETE CABUNDLE_MOVE",
    ),
    # Monitoring and limits
    "metrics": ("METRIC_INSPECT", "METRIC_READ", "METRIC_WRITE", ""),
    "resource-availability": ("RESOURCE_AVAILABILITY_INSPECT", "RESOURCE_AVAILABILITY_READ", "", ""),
    "limits": ("LIMITS_INSPECT", "", "", ""),
    # Identity
    "compartments": (
        "COMPARTMENT_INSPECT",
        "",
        "COMPARTMENT_UPDATE COMPARTMENT_READ",
        "COMPARTMENT_CREATE COMPARTMENT_DELETE COMPARTMENT_RECOVER",
    ),
    "dynamic-groups": (
        "DYNAMIC_GROUP_INSPECT",
        "",
        "DYNAMIC_GROUP_UPDATE",
        "DYNAMIC_GROUP_CREATE DYNAMIC_GROUP_DELETE",
    ),
    "groups": ("GROUP_INSPECT", "", "GROUP_UPDATE", "GROUP_CREATE GROUP_DELETE"),
    "policies": ("POLICY_READ", "", "", "POLICY_UPDATE POLICY_CREATE POLICY_DELETE"),
    "tenancies": ("TENANCY_INSPECT", "", "TENANCY_UPDATE", ""),
    "users": ("USER_INSPECT", "USER_READ", "USER_UPDATE", "USER_CREATE USER_DELETE USER_UNBLOCK USER_APIKEY_ADD"),
    "tag-namespaces": (
        "TAG_NAMESPACE_INSPECT",
        "",
        "TAG_NAMESPACE_USE",
        "TAG_NAMESPACE_UPDATE TAG_NAMESPACE_CREATE TAG_NAMESPACE_MOVE TAG_NAMESPACE_DELETE",
    ),
}

_DATA_SCIENCE = {
    "projects": "PROJECT",
    "notebook-sessions": "NOTEBOOK_SESSION",
    "models": "MODEL",
    "modelversionsets": "MODEL_VERSION_SET",
    "model-deployments": "MODEL_DEPLOYMENT",
    "jobs": "JOB",
    "job-runs": "JOB_RUN",
    "pipelines": "PIPELINE",
    "pipeline-runs": "PIPELINE_RUN",
    "private-endpoint": "PRIVATE_ENDPOINT",
    "schedules": "SCHEDULE",
    "work-requests": "WORK_REQUEST",
}
"""All of the same form: update, which cancels a run too, comes with `use`; create and delete with `manage`."""


def _data_science(noun: str) -> tuple[str, str, str, str]:
    name = f"DATA_SCIENCE_{noun}"
    return f"{name}_INSPECT", f"{name}_READ", f"{name}_UPDATE", f"{name}_CREATE {name}_DELETE {name}_MOVE"


_ROWS |= {f"data-science-{kind}": _data_science(noun) for kind, noun in _DATA_SCIENCE.items()}

_LEAF = ("leaf-certificates", "leaf-certificate-versions", "leaf-certificate-bundles", "cabundles")
FAMILIES: dict[str, tuple[str, ...]] = {
    "data-science-family": tuple(kind for kind in _ROWS if kind.startswith("data-science-")),
    "object-family": ("objectstorage-namespaces", "buckets", "objects"),
    "virtual-network-family": (
        *("vcns", "subnets", "route-tables", "network-security-groups", "security-lists", "dhcp-options"),
        *("private-ips", "internet-gateways", "nat-gateways", "service-gateways", "vnics", "vnic-attachments"),
    ),
    "logging-family": ("log-groups", "log-content", "unified-configuration"),
    "secret-family": ("secrets", "secret-versions", "secret-bundles"),
    "leaf-certificate-family": _LEAF,
    "certificate-authority-family": ("certificate-authorities", "certificate-authority-bundles", *_LEAF),
    EVERYTHING: tuple(_ROWS),
}
KINDS = (*_ROWS, *FAMILIES)


@cache
def permissions(verb: str, kind: str) -> frozenset[str]:
    """What this verb gives on this resource type or family of them."""
    if kind in FAMILIES:
        return frozenset().union(*(permissions(verb, each) for each in FAMILIES[kind]))
    return frozenset(" ".join(_ROWS[kind][: VERBS.index(verb) + 1]).split())
