"""What an object store answered instead of doing what it was asked, and what mends that."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..errors import AccessDenied, NotFound, StoreBusy, StoreError

BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})


class Asked(NamedTuple):
    """What was asked of which bucket: `read`, `write`, `list` or `delete`, and of which object."""

    verb: str
    bucket: str
    name: str


class Answer(NamedTuple):
    """What came back: the status of HTTP (0 where nothing did), the service's own word for it, and its text."""

    status: int
    code: str
    text: str


Fix = Callable[[Asked, Answer], str]


class Words(NamedTuple):
    """How one service talks."""

    service: str
    no_bucket: frozenset[str]
    credentials: frozenset[str]
    """Words that say: you are nobody to me."""
    missing_bucket: Fix
    login: Fix
    permission: Fix
    hides: bool = False
    """Whether it says that there is no bucket to those who may not use it, too."""


def refusal(words: Words, asked: Asked, answer: Answer) -> StoreError:
    """The error for an answer: whether it may pass, what it means, what mends it."""
    place = f"{asked.name!r} in the bucket {asked.bucket}" if asked.name else f"the bucket {asked.bucket}"
    told = f"{words.service} said {answer.code or answer.status or 'nothing'}"
    if answer.code in words.no_bucket and words.hides:
        missing = f"there is no bucket {asked.bucket}, or none that you may {asked.verb}"
        return AccessDenied(f"{missing}: {told}", words.missing_bucket(asked, answer))
    if answer.code in words.no_bucket:
        return StoreError(f"there is no bucket {asked.bucket}: {told}", words.missing_bucket(asked, answer))
    if answer.code in words.credentials or answer.status == 401:
        return AccessDenied(f"cannot {asked.verb} {place}: {told}", words.login(asked, answer))
    if answer.status == 403:
        return AccessDenied(f"may not {asked.verb} {place}: {told}", words.permission(asked, answer))
    if answer.status == 404:
        return NotFound(f"there is no {place}")
    if answer.status in BUSY or not answer.status:
        return StoreBusy(f"cannot {asked.verb} {place} now: {told} ({answer.text[:200]})")
    return StoreError(f"cannot {asked.verb} {place}: {told} ({answer.text[:200]})")
