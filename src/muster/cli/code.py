"""The code of a run, as it was when it was launched."""

from __future__ import annotations

from pathlib import Path

from ..errors import CodeError
from ..workdir.bundle import Manifest, fetch_code, read_code
from ..workdir.run import RunFolder


def list_code_of(folder: RunFolder) -> dict[str, int]:
    document = folder.read_job()
    return _sizes(read_code(folder.store, document.code.digest)) if document.code else {}


def fetch_code_of(folder: RunFolder, to: Path) -> dict[str, int]:
    document = folder.read_job()
    if document.code is None:
        raise CodeError(f"run {folder.run} brought no code: it was on its nodes already")
    if to.exists():
        raise CodeError(f"{to} exists already", "Name a new folder, so that nothing of yours is written over.")
    return _sizes(fetch_code(folder.store, document.code.digest, to))


def _sizes(manifest: Manifest) -> dict[str, int]:
    return {entry.path: entry.size for entry in manifest.files}
