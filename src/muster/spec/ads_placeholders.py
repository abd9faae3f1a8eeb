"""What a template left to be filled in."""

from __future__ import annotations

import re

from .nodes import shortened
from .problems import Problems

_WORDS = "TODO|FIXME|TBD|CHANGE_?ME|REPLACE_?ME"
_ANYWHERE = re.compile(rf"<[^<>\n]*>|\{{[^{{}}\n]*\}}|\$\w+|(?:^|\.)[xX]{{3,}}(?:$|\.)|\b(?:{_WORDS})\b|\.\.\.|…")
_WHOLE = re.compile(rf"<[^<>\n]+>|\{{\{{[^{{}}\n]+\}}\}}|{_WORDS}", re.IGNORECASE)


def filled(text: str, path: str, problems: Problems, what: str, anywhere: bool = True) -> bool:
    """Whether no placeholder is left in a text; notes one that is.

    A text of the user's own may hold such signs with a meaning: it is judged as a whole, not `anywhere`.
    """
    found = _ANYWHERE.search(text) if anywhere else _WHOLE.fullmatch(text.strip())
    if found:
        part = shortened(found[0].strip(".") or found[0])
        problems.add(path, f"{part!r} is a placeholder that was not filled in", f"Write {what}.")
    return found is None
