"""obstore's clients of one bucket: one for each way in which a request may be repeated, and waited for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import StoreError
from .obstore_errors import first_line

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, S3Store

    AnyStore = S3Store | GCSStore | AzureStore

_SILENCE = timedelta(seconds=60)
"""Without a byte of an answer."""
_LONGEST = timedelta(minutes=10)
"""Of one request, body and all."""


class Clients(NamedTuple):
    """While a body is on its way nothing comes back, so that over a slow line the silence of a writer says nothing."""

    reader: AnyStore
    writer: AnyStore
    """Repeats nothing behind our back."""
    patient: AnyStore
    """Sends each part of many again that was refused."""


def opened(kind: str, bucket: str, settings: Mapping[str, Any]) -> Clients:
    # One object is deleted as one, so that a refusal says what was refused.
    singly = {"disable_bulk_delete": True} if kind == "S3Store" else {}
    reader = _client(kind, bucket, {**settings, **singly}, retries=0, silence=_SILENCE)
    writer = _client(kind, bucket, settings, retries=0, silence=_LONGEST)
    return Clients(reader, writer, _client(kind, bucket, settings, retries=6, silence=_LONGEST))


def _client(kind: str, bucket: str, settings: Mapping[str, Any], retries: int, silence: timedelta) -> AnyStore:
    import obstore

    backoff = {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=4), "base": 2}
    options = {
        "allow_http": str(settings.get("endpoint", "")).startswith("http://"),
        "connect_timeout": timedelta(seconds=5),
        "read_timeout": silence,
        "timeout": _LONGEST,
    }
    retry = {"max_retries": retries, "retry_timeout": timedelta(minutes=2), "backoff": backoff}
    try:
        made: AnyStore = getattr(obstore.store, kind)(bucket, client_options=options, retry_config=retry, **settings)
    except Exception as error:
        raise StoreError(f"cannot open the bucket {bucket}: {first_line(error)}") from error
    return made
