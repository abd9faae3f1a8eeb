"""What a node asks of Oracle's cloud beside its work dir, without the SDK: secrets, and the end of other job runs."""

from __future__ import annotations

import base64
import os
from functools import partial
from typing import Any
from urllib.parse import quote

from ..errors import CloudError
from .oci import Session, session
from .oci_again import PATIENCE, again
from .oci_bare import FAILURES, Caller, Response, answer_of

_ENDPOINT = "MUSTER_OCI_ENDPOINT"
"""One address for all services, as a rehearsal has it."""
_SCIENCE_ENDPOINT = "OCI_ODSC_SERVICE_ENDPOINT"


class Calls:
    """The services as one session sees them. Any thread may call, and connections are used again."""

    def __init__(self, who: Session | None = None, patience: float = PATIENCE) -> None:
        self._session, self._patience = who or session(bare=True), patience
        self._callers: dict[str, Caller] = {}

    def secret(self, ocid: str) -> bytes:
        """The current content of a secret in a Vault."""
        path = f"/20190301/secretbundles/{quote(ocid, safe='')}"
        told = self._call("read the secret", "secrets.vaults", "GET", path).data
        content = told.get("secretBundleContent") if isinstance(told, dict) else None
        if not isinstance(content, dict) or "content" not in content:
            raise CloudError(f"the secret {ocid} has no content", "Give it a current version in the Vault.")
        return base64.b64decode(content["content"])

    def cancel_run(self, ocid: str) -> None:
        """Asks for the end of a job run, and does not wait for it."""
        path = f"/20190101/jobRuns/{quote(ocid, safe='')}/actions/cancelJobRun"
        self._call("cancel the job run", "datascience", "POST", path)

    def list_runs(self, compartment: str, job: str) -> list[dict[str, Any]]:
        """All runs of a job, in the names of the wire: `id`, `lifecycleState` …"""
        found: list[dict[str, Any]] = []
        query: dict[str, Any] = {"compartmentId": compartment, "jobId": job, "limit": 100}
        while True:
            reply = self._call("list the job runs", "datascience", "GET", "/20190101/jobRuns", query)
            found += reply.data or []
            if not (page := reply.headers.get("opc-next-page")):
                return found
            query = {**query, "page": page}

    def get(self, what: str, service: str, path: str, query: dict[str, Any] | None = None) -> Any:
        """What a service has at this path."""
        return self._call(what, service, "GET", path, query).data

    def _call(self, what: str, service: str, method: str, path: str, query: dict[str, Any] | None = None) -> Response:
        if service not in self._callers:
            self._callers[service] = Caller(self._session, service, _endpoint(service))
        caller = self._callers[service]
        refused = partial(_refused, what)
        return again(lambda: caller.json(method, path, query), FAILURES, refused, self._session.signer, self._patience)


def secret(ocid: str) -> bytes:
    """The current content of a secret, as whoever this process is."""
    return Calls().secret(ocid)


def cancel_run(ocid: str) -> None:
    """Asks for the end of a job run, as whoever this process is."""
    Calls().cancel_run(ocid)


def list_runs(compartment: str, job: str) -> list[dict[str, Any]]:
    """All runs of a job, as whoever this process is."""
    return Calls().list_runs(compartment, job)


def _endpoint(service: str) -> str | None:
    own = os.environ.get(_SCIENCE_ENDPOINT) if service == "datascience" else None
    return own or os.environ.get(_ENDPOINT) or None


def _refused(what: str, error: Exception) -> CloudError:
    answer = answer_of(error)
    told = f"Oracle's cloud refused to {what}: {answer.status} {answer.code}: {answer.text}".rstrip(": ")
    if not answer.status:
        told = f"Oracle's cloud did not answer when it was asked to {what}: {answer.text}"
    request = getattr(error, "request_id", None) or ""
    return CloudError(told, status=answer.status, code=answer.code, told=answer.text, request=request)
