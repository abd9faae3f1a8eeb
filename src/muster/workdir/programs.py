"""Node programs in a work dir: under their digests, for as long as a run may start a node by them."""

from __future__ import annotations

from .store import Entry, Store

PROGRAMS = "programs/"
REFRESHED = 12 * 3600.0
"""Seconds after which a launcher that finds its program in the work dir puts it there anew."""


def program_key(digest: str) -> str:
    return f"{PROGRAMS}{digest}.pyz"


def unused_programs(store: Store, before: float) -> list[Entry]:
    """Those that no launcher has wanted since, give or take `REFRESHED`. One listing."""
    return [entry for entry in store.list(PROGRAMS) if entry.modified < before - REFRESHED]
