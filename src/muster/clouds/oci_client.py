"""Clients of Oracle's SDK as Muster wants them: many threads, no patience of their own. Import it late."""

from __future__ import annotations

from typing import Any, TypeVar

from oci._vendor.requests.exceptions import SSLError
from oci.base_client import OCIHTTPAdapter
from oci.circuit_breaker import NoCircuitBreakerStrategy
from oci.exceptions import RequestException, ServiceError
from oci.retry import NoneRetryStrategy
from urllib3.exceptions import HTTPError

from ..errors import StoreError
from .oci import Session, check_endpoint
from .refusals import Answer

Client = TypeVar("Client")

FAILURES = (ServiceError, RequestException, HTTPError)
"""All that a call may end with, the reading of a stream included."""
CONNECT_SECONDS, READ_SECONDS = 5.0, 60.0
_CONNECTIONS = 32
_BLOCK = 256 << 10


def opened(kind: type[Client], session: Session, endpoint: str | None = None) -> Client:
    """A client that asks once, so that whoever calls decides whether to ask again."""
    if not endpoint and not session.region:
        raise StoreError(
            "nothing says in which region of Oracle's cloud this is",
            "Set `region` in the profile or OCI_REGION; in a work dir, write ?region=us-ashburn-1 behind it.",
        )
    if endpoint:
        check_endpoint(endpoint)
    client: Any = kind(
        session.config,  # type: ignore[call-arg]
        signer=session.signer,
        service_endpoint=endpoint,
        retry_strategy=NoneRetryStrategy(),
        circuit_breaker_strategy=NoCircuitBreakerStrategy(),
        timeout=(CONNECT_SECONDS, READ_SECONDS),
        skip_deserialization=True,
    )
    transport = _Transport(pool_connections=_CONNECTIONS, pool_maxsize=_CONNECTIONS)
    client.base_client.session.mount("https://", transport)
    client.base_client.session.mount("http://", transport)
    return client  # type: ignore[no-any-return]


def object_storage(session: Session, endpoint: str | None) -> Any:
    """The client of object storage."""
    from oci.object_storage import ObjectStorageClient

    return opened(ObjectStorageClient, session, endpoint)


def answer_of(error: Exception) -> Answer:
    """What came back, from what the SDK made of it."""
    if isinstance(error, ServiceError):
        return Answer(error.status, error.code or "", error.message or "")
    cause = error.args[0] if error.args and isinstance(error.args[0], Exception) else error
    if isinstance(cause, SSLError):
        raise StoreError(
            "the certificate of Oracle's server was refused", "Behind a proxy, set REQUESTS_CA_BUNDLE to its authority."
        ) from error
    return Answer(0, "", type(cause).__name__)


class _Transport(OCIHTTPAdapter):  # type: ignore[misc]
    """Connections for many threads."""

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **settings: Any) -> None:
        super().init_poolmanager(connections, maxsize, block, **{"blocksize": _BLOCK, **settings})

    def add_headers(self, request: Any, **_settings: Any) -> None:
        """No `Expect`: the SDK would send it with every put and wait for the answer, a round trip more."""
        request.headers.pop("expect", None)

    def close(self) -> None:
        """Not at all: the SDK does so after each create that finds its key taken, amid the requests of others."""
