"""Code that a work dir has seen before: a commit is the same for ever, so it need not be fetched and sent twice."""

from __future__ import annotations

import hashlib
import posixpath
import re

from ..errors import CodeError, NotFound
from ..spec.sources import code_source
from .bundle import CodeRef, read_code
from .code_reading import SOURCES
from .store import Store

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def known_code(store: Store, code: str, entry: str | None) -> CodeRef | None:
    """The bundle of a commit, if it is in the work dir and has the entry. One request where it is not."""
    if not _is_exact(code):
        return None
    try:
        manifest = read_code(store, store.get(_key(code)).decode("ascii", "replace"))
    except (NotFound, CodeError):
        return None
    if entry and not entry.startswith("/") and posixpath.normpath(entry) not in {file.path for file in manifest.files}:
        return None  # whoever fetches it tells what there is instead
    return CodeRef(manifest.digest, len(manifest.files), manifest.bytes)


def remember_code(store: Store, code: str, reference: CodeRef) -> None:
    """Says which bundle a commit is."""
    if _is_exact(code):
        store.put(_key(code), reference.digest.encode())


def _is_exact(code: str) -> bool:
    source = code_source(code)
    return source is not None and source.kind == "git" and bool(_COMMIT.fullmatch(source.mark or ""))


def _key(code: str) -> str:
    return f"{SOURCES}{hashlib.sha256(code.encode()).hexdigest()}"
