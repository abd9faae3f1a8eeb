"""A certificate, its key and the authority behind it, as the texts that programs read. The key is never shown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\n.+?\n-----END \1-----\n?", re.DOTALL)


@dataclass(frozen=True)
class Pems:
    """Each is one block or, for a chain, several."""

    authority: str
    certificate: str
    key: str = field(repr=False)

    def bundle(self) -> str:
        """All of them in one file, which programs take for each of the three."""
        return "".join(_ended(text) for text in (self.key, self.certificate, self.authority))

    @classmethod
    def of_bundle(cls, text: str) -> Pems:
        """Reads what `bundle` made of one key, one certificate and one authority; ValueError for anything else."""
        blocks = [(found[1], _ended(found[0])) for found in _BLOCK.finditer(text)]
        if [kind.rpartition(" ")[2] for kind, _ in blocks] != ["KEY", "CERTIFICATE", "CERTIFICATE"]:
            raise ValueError("expected a key, its certificate and the authority's")
        key, certificate, authority = (block for _, block in blocks)
        return cls(authority, certificate, key)


def joined(*texts: str | None) -> str:
    """Blocks behind one another, each once."""
    found: dict[str, None] = {}
    for text in texts:
        found |= dict.fromkeys(_ended(match[0]) for match in _BLOCK.finditer((text or "").replace("\r\n", "\n")))
    return "".join(found)


def _ended(text: str) -> str:
    return text.rstrip("\n") + "\n"
