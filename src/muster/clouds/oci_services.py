"""The services of Oracle's cloud that Muster asks, each through the SDK's own client, opened when it is first used.

>>> services = Services(session())
>>> services.call("data_science", "create_job", details, opc_retry_token=token).data["id"]

Bodies and answers are plain values in the names of the wire (`lifecycleState`), which spares the SDK's models.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from ..errors import CloudError
from .oci import Session, check_endpoint, check_installed
from .oci_again import PATIENCE, again
from .oci_bare_regions import service_host

CLIENTS = {
    "artifacts": "oci.artifacts:ArtifactsClient",
    "certificates": "oci.certificates:CertificatesClient",
    "data_science": "oci.data_science:DataScienceClient",
    "identity": "oci.identity:IdentityClient",
    "limits": "oci.limits:LimitsClient",
    "log_search": "oci.loggingsearch:LogSearchClient",
    "logging": "oci.logging:LoggingManagementClient",
    "network": "oci.core:VirtualNetworkClient",
    "object_storage": "oci.object_storage:ObjectStorageClient",
    "secrets": "oci.secrets:SecretsClient",
    "vaults": "oci.vault:VaultsClient",
}
ENDPOINT = "MUSTER_OCI_ENDPOINT"
"""One address for all services, as a rehearsal has it."""
_OWN_ENDPOINTS = {
    "data_science": "OCI_ODSC_SERVICE_ENDPOINT",
    "object_storage": "OCI_OBJECTSTORAGE_SERVICE_ENDPOINT",
}


@dataclass(frozen=True)
class Reply:
    """What came back."""

    data: Any
    headers: Mapping[str, str]

    @property
    def next_page(self) -> str | None:
        return self.headers.get("opc-next-page")


class Services:
    """All services as one session sees them. Any thread may call."""

    def __init__(self, session: Session, patience: float = PATIENCE) -> None:
        check_installed()
        self.session = session
        self._patience = patience
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()

    def call(self, service: str, operation: str, *values: Any, **settings: Any) -> Reply:
        """Calls an operation of the SDK's client. What is busy is asked again; a refusal is a `CloudError`.

        A create must carry an `opc_retry_token`: it may be asked for a second time after a reply was lost.
        """
        return self._again(service, operation, lambda client: getattr(client, operation)(*values, **settings))

    def get(self, service: str, host: str, path: str) -> Reply:
        """A plain GET, for one answer of a service whose client is slow to load: that of the network takes half a
        second of CPU."""
        from oci._vendor.requests.exceptions import RequestException as Broken
        from oci.exceptions import RequestException

        http = self._client("data_science").base_client.session
        place = endpoint(service) or f"https://{service_host(host, self.session.region)}"

        def ask(_client: Any) -> Any:
            try:
                found = http.get(check_endpoint(place) + path, auth=self.session.signer, timeout=(5.0, 60.0))
            except Broken as error:
                raise RequestException(error) from error  # as the SDK's own clients do
            return _Answer(found.json(), found.headers) if found.ok else _raise(found)

        return self._again("data_science", f"GET {path.rpartition('/')[0]}", ask)

    def pages(self, service: str, operation: str, *values: Any, **settings: Any) -> Iterator[Any]:
        """Each item of a list, page by page."""
        page: str | None = None
        while True:
            reply = self.call(service, operation, *values, **{**settings, **({"page": page} if page else {})})
            found = reply.data
            yield from found.get("items", []) if isinstance(found, dict) else found
            if not (page := reply.next_page):
                return

    def _again(self, service: str, operation: str, ask: Callable[[Any], Any]) -> Reply:
        from .oci_client import FAILURES

        client = self._client(service)
        refused = partial(_refused, service, operation)
        reply = again(lambda: ask(client), FAILURES, refused, self.session.signer, self._patience)
        return Reply(reply.data, reply.headers)

    def _client(self, service: str) -> Any:
        with self._lock:
            if service not in self._clients:
                from .oci_client import opened

                module, _, name = CLIENTS[service].partition(":")
                self._clients[service] = opened(getattr(import_module(module), name), self.session, endpoint(service))
            return self._clients[service]


class _Answer(NamedTuple):
    data: Any
    headers: Mapping[str, str]


def _raise(found: Any) -> NoReturn:
    """What the SDK's own clients make of an error."""
    from oci.exceptions import ServiceError

    try:
        said = found.json()
    except ValueError:
        said = {}
    raise ServiceError(found.status_code, said.get("code"), found.headers, said.get("message") or found.reason)


def endpoint(service: str) -> str | None:
    """Where a service is, if not where the region has it."""
    return os.environ.get(_OWN_ENDPOINTS.get(service, "")) or os.environ.get(ENDPOINT) or None


def _refused(service: str, operation: str, error: Exception) -> CloudError:
    from .oci_client import answer_of

    answer = answer_of(error)
    what = f"{operation.replace('_', ' ')} ({service.replace('_', ' ')})"
    told = f"Oracle's cloud refused {what}: {answer.status} {answer.code}: {answer.text}".rstrip(": ")
    if not answer.status:
        told = f"Oracle's cloud did not answer {what}: {answer.text}"
    request = getattr(error, "request_id", None) or ""
    return CloudError(told, status=answer.status, code=answer.code, told=answer.text, request=request)
