"""Names that no bucket keeps, written so that every bucket does, and read back.

Control characters become `%0A` and the like, and so does the backslash, which Azure takes for a slash. So that nothing
is lost, a percent sign that would read as such an escape is escaped itself. Every other name stays as it is, for other
people's clients to find.
"""

from __future__ import annotations

import re

_UNKEPT = re.compile(r"[\x00-\x1f\x7f\\]|%(?=(?:[01][0-9A-F]|7F|25|5C))")
_ESCAPES = re.compile(r"%([01][0-9A-F]|7F|25|5C)")


def escaped(key: str) -> str:
    """A key as a bucket keeps it."""
    return _UNKEPT.sub(lambda found: f"%{ord(found.group()):02X}", key)


def unescaped(name: str) -> str:
    """What `escaped` made it of."""
    return _ESCAPES.sub(lambda found: chr(int(found.group(1), 16)), name)
