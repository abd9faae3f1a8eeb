"""What a process said last, as far as it tells why it ended."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile, takewhile


def last_words(tail: Sequence[str]) -> list[str]:
    """What the last exception says. A traceback's frames quote code, which may hold any word, and libraries tell of
    closed connections in their own logs while a rank ends for whatever reason.
    """
    begins = [i for i, line in enumerate(tail) if line.startswith(("Traceback (most recent", "terminate called"))]
    if not begins:
        return []
    after = list(tail[begins[-1] :])
    if after[0].startswith("Traceback"):
        after = list(dropwhile(lambda line: not line or line[0].isspace(), after[1:]))
    return list(takewhile(lambda line: not line.startswith("["), after))
