"""The node program as one file, for images that have a Python and nothing of ours: it lies in the work dir, once.

The boot of a node fetches and unpacks it; `boot/` tells how.
"""

from __future__ import annotations

import hashlib
import io
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..errors import AlreadyExists
from ..workdir.programs import REFRESHED, program_key
from ..workdir.store import Store

_PACKAGE = Path(__file__).parent.parent
_FILES = ("__init__.py", "errors.py", "report.py")
_FOLDERS = ("clouds", "frameworks", "node", "spec", "workdir")
_LEFT_OUT = ("frameworks/horovod_build",)
"""What only a launcher does."""
_MAIN = """\
import os, shutil, sys

from muster.node.start import main

code = main()
sys.stdout.flush()
sys.stderr.flush()
if os.environ.get("MUSTER_UNPACKED") == os.path.dirname(os.path.abspath(__file__)):
    shutil.rmtree(os.environ["MUSTER_UNPACKED"], ignore_errors=True)
os._exit(code)
"""
_MOMENT = (1980, 1, 1, 0, 0, 0)
"""The oldest that the format knows. With real times no two archives would be the same."""


@dataclass(frozen=True)
class Program:
    """The archive, and the SHA-256 of it in hexadecimal."""

    digest: str
    data: bytes


@cache
def program() -> Program:
    """The program of this very Muster: the same bytes for the same sources."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in sorted(_contents()):
            entry = zipfile.ZipInfo(name, _MOMENT)
            entry.compress_type, entry.external_attr, entry.create_system = zipfile.ZIP_DEFLATED, 0o644 << 16, 3
            archive.writestr(entry, content)
    data = made.getvalue()
    return Program(hashlib.sha256(data).hexdigest(), data)


def store_program(store: Store) -> Program:
    """Puts the program into a work dir, unless it is there: then one listing is all that is asked.

    One that is there for long is put again: its age tells `muster prune` how long nobody has wanted it.
    """
    wanted = program()
    key = program_key(wanted.digest)
    found = next(iter(store.list(key)), None)
    if found and found.size == len(wanted.data):
        if found.modified < time.time() - REFRESHED:
            store.put(key, wanted.data)
        return wanted
    try:
        store.create(key, wanted.data)
    except AlreadyExists:
        if found:
            store.put(key, wanted.data)  # what lay there was not whole
    return wanted


def _contents() -> Iterator[tuple[str, bytes]]:
    yield "__main__.py", _MAIN.encode()
    paths = [_PACKAGE / name for name in _FILES]
    for folder in _FOLDERS:
        paths += (_PACKAGE / folder).rglob("*.py")
    for path in paths:
        inside = path.relative_to(_PACKAGE).as_posix()
        if not inside.startswith(_LEFT_OUT):
            yield f"muster/{inside}", path.read_bytes()
