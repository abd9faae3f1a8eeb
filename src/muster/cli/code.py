"""The code of a run, as it was when it was launched."""

from __future__ import annotations

from pathlib import Path

from ..errors import CodeError
from ..workdir.bundle import fetch_code
from ..workdir.run import RunFolder


def list_code_of(folder: RunFolder) -> dict[str, int]:
    manifest = folder.code()
    return {entry.path: entry.size for entry in manifest.files} if manifest else {}


def fetch_code_of(folder: RunFolder, to: Path) -> dict[str, int]:
    document = folder.read_job()
    if document.code is None:
        raise CodeError(f"run {folder.run} brought no code: it was on its nodes already")
    if to.exists():
        raise CodeError(f"{to} exists already", "Name a new folder, so that nothing of yours is written over.")
    fetch_code(folder.store, document.code.digest, to)
    return list_code_of(folder)
