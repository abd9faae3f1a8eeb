"""Asking a service of Oracle's again: after it was busy, and once after a token was renewed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from ..errors import CloudError
from .refusals import BUSY

T = TypeVar("T")
PATIENCE = 60.0
"""Seconds that a service which is busy is asked again."""


class Renewing(Protocol):
    """Whoever signs, and may have become another since."""

    renewals: int

    def renew(self, seen: int) -> bool: ...


def again(
    ask: Callable[[], T],
    failures: tuple[type[Exception], ...],
    refused: Callable[[Exception], CloudError],
    signer: Renewing,
    patience: float,
) -> T:
    """What `ask` gives. A failure that no other attempt can mend is raised as what `refused` makes of it."""
    until, pause, renewed = time.monotonic() + patience, 0.5, False
    while True:
        seen = signer.renewals
        try:
            return ask()
        except failures as error:
            refusal = refused(error)
            if refusal.status == 401 and not renewed and signer.renew(seen):
                renewed = True
                continue
            late = time.monotonic() + pause > until
            if late or (refusal.status and refusal.status not in BUSY):
                raise refusal from error
        time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - many callers must not come back at once
        pause = min(2 * pause, 8.0)
