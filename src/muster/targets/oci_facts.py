"""What of a job and its target a plan for Oracle's cloud has to know, from what is on this machine alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import LaunchError, MusterError
from ..spec.job import Job
from ..spec.locations import local_path
from .bundling import check_inputs

_BOOT = ("MUSTER_BOOT_PYTHON", "SSL_CERT_FILE", "SSL_CERT_DIR")
_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")


def for_boot(env: Mapping[str, str]) -> dict[str, str]:
    """What of the job's own variables the boot needs, before it has read the job."""
    return {name: value for name, value in env.items() if name in _BOOT or name.lower() in _PROXIES}


def region(options: Mapping[str, Any]) -> str:
    """As far as it is known here without asking anybody; a plan needs no credentials."""
    from ..clouds.oci_profile import is_meant, read_profile

    said, profile = options.get("region") or os.environ.get("OCI_REGION"), options.get("profile")
    if str(options.get("auth") or os.environ.get("OCI_IAM_TYPE")).endswith("_principal"):
        # A config file that lies here is somebody else's.
        return str(said or os.environ.get("OCI_RESOURCE_PRINCIPAL_REGION", ""))
    if said or not is_meant(profile):
        return str(said or "")
    with suppress(MusterError):
        return read_profile(profile).values.get("region", "")
    return ""


def storage(region: str) -> str:
    """Where the nodes' boot finds object storage; empty for Oracle's first realm, whose hosts it knows by itself."""
    from ..clouds.oci_bare_regions import in_full, service_host

    host = service_host("objectstorage", in_full(region)) if region else ""
    return "" if not host or host.endswith(".oraclecloud.com") else f"https://{host}"


def last_image() -> str:
    from ..images import last_built

    found = last_built()
    if found is None:
        raise LaunchError("image: @image is the last built image, and none was built here", "muster image build")
    # With its tag, which the service wants beside the digest.
    digest = found.digest.partition("@")[2]
    return f"{found.tag}@{digest}" if digest else found.tag


def check_far_inputs(job: Job) -> None:
    """Nodes elsewhere do not see the folders of this machine."""

    check_inputs(job)
    for name, one in job.inputs.items():
        if local_path(one.source, Path("/")):
            raise LaunchError(
                f"inputs.{name}: {one.source} is on this machine, and the nodes are not",
                f"Put it into a bucket first, such as: oci os object bulk-upload --src-dir {one.source} …",
            )


def notes(job: Job, options: Mapping[str, Any]) -> Iterator[str]:
    images = {job.role(role).image or job.image or options.get("image") for role in ("main", "worker", "ps")}
    if any(image and "@sha256:" not in image for image in images):
        yield "image: named by a tag, which may move; `muster image push` tells its digest"
    if job.ttl is None:
        yield "ttl: none; Oracle ends the runs after 30 days"
    if options.get("workspace"):
        yield f"workspace: {options['workspace']} is not used; outputs come to the work dir (`muster outputs`)"
    if not options.get("log_group_id"):
        yield "log_group_id: none; what a node says before it reaches the work dir is seen nowhere"
