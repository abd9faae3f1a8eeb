"""The work dir: something is written there, read back, and taken away."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

from ..errors import MusterError
from ..workdir.opening import open_store
from ..workdir.store import Store
from .findings import Finding, fail, ok, warn

Mend = Callable[[MusterError], str]
NAME = "muster-doctor-"
"""How a key of the doctor's begins."""


def work_dir(url: str | None, check: str = "bucket", mend: Mend = lambda error: error.fix) -> Iterator[Finding]:
    """Whether the nodes can meet there, as far as that can be seen from here. `mend` says what to do about an error."""
    if not url:
        yield fail(check, "no work dir is named", "Write `work_dir` into the target: oci://BUCKET@NAMESPACE/PREFIX.")
        return
    key, content = NAME + secrets.token_hex(8), secrets.token_bytes(64)
    try:
        store = open_store(url)
        store.put(key, content)
        same = store.get(key) == content
    except MusterError as error:
        yield fail(check, error.message, mend(error))
        return
    left = _delete(store, key)
    if not same:
        yield fail(check, f"{url}: what was written there is read back otherwise", "Does something else write there?")
    elif left:
        told = f"{url}: written and read back, but it cannot be deleted: {left.message}"
        yield warn(check, told, mend(left) or f"Let it be deleted; {key} is left behind.")
    else:
        yield ok(check, f"{url}: written, read back and deleted")


def _delete(store: Store, key: str) -> MusterError | None:
    try:
        store.delete(key)
    except MusterError as error:
        return error
    return None
