"""Where a work dir keeps code, and how its bundles are read."""

from __future__ import annotations

import struct
import zlib

from ..errors import CodeError, NotFound
from .code_contents import Contents
from .code_format import BaseOf, decode
from .store import Store

BUNDLES = "code/"
LATEST = "code/latest/"
SOURCES = f"{BUNDLES}sources/"
DAMAGE = (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, zlib.error, struct.error)
"""What reading something raises that is not what it should be."""


class NoSuchCode(CodeError):
    """No bundle has this digest."""


def is_digest(text: str) -> bool:
    return len(text) == 64 and not set(text) - set("0123456789abcdef")


def code_key(digest: str) -> str:
    """Where a work dir keeps a bundle, for all runs that use it."""
    if not is_digest(digest):
        raise CodeError(f"not the digest of a bundle: {digest!r}", "Expected 64 hexadecimal digits.")
    return BUNDLES + digest


def latest_key(job: str) -> str:
    """Names the bundle that a job of this name used last: the next will differ little from it."""
    return LATEST + job


def read_contents(store: Store, digest: str) -> Contents:
    """The bundle of a digest. One request, and a second if it was written as a difference."""
    return _read(store, digest, lambda base: _read(store, base, _no_base))


def _no_base(_digest: str) -> Contents:
    """A base has none, so that nobody is led round in circles."""
    raise ValueError("it is a base, and a difference itself")


def _read(store: Store, digest: str, base_of: BaseOf) -> Contents:
    try:
        data = store.get(code_key(digest))
    except NotFound:
        raise NoSuchCode(
            f"the code {digest[:12]}… is not in the work dir {store.url}",
            "Launch the job again, which brings it.",
        ) from None
    try:
        return decode(data, digest, base_of)
    except (*DAMAGE, RecursionError) as error:
        raise damaged(digest, error) from error


def damaged(digest: str, error: BaseException | str) -> CodeError:
    """The error for code that is not what its digest stands for."""
    return CodeError(
        f"the code {digest[:12]}… is damaged: {error}",
        f"Delete code/{digest} from the work dir, and launch the job again from a folder with the right code.",
    )


def latest(store: Store, job: str) -> Contents | None:
    """The bundle that a job of this name used last; None if there is none, or none that can be read."""
    try:
        return read_contents(store, store.get(latest_key(job)).decode())
    except (NotFound, CodeError, UnicodeDecodeError):
        return None
