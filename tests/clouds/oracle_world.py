"""A world in which Oracle's cloud is a server on loopback, and nothing of this machine's own is seen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.rehearsal.oracle import OracleServer

_LONG = 8192


def forget_oracle(patch: pytest.MonkeyPatch, home: Path) -> None:
    """No setting, no config file, and no instance: nothing listens on the port of its metadata."""
    for name in [name for name in os.environ if name.startswith("OCI_")]:
        patch.delenv(name)
    patch.setenv("HOME", str(home))
    patch.setenv("OCI_METADATA_BASE_URL", "http://127.0.0.1:1/opc/v2")


def at(server: OracleServer, prefix: str = "", bucket: str = "training", **options: str) -> str:
    """The URL of a work dir on the server."""
    settings = "&".join(f"{name}={value}" for name, value in {"endpoint": server.endpoint, **options}.items())
    return f"oci://{bucket}@{server.namespace}/{prefix}?{settings}"


def padded(*files: Path) -> None:
    """Makes files as long as any that `replace_unseen` may put in their place."""
    for file in files:
        file.write_text(file.read_text(encoding="utf-8").ljust(_LONG, "\n"), encoding="utf-8")


def replace_unseen(file: Path, source: Path) -> None:
    """Another content that the file's time and size do not tell from the one before."""
    before = file.stat()
    assert before.st_size == _LONG
    file.write_text(source.read_text(encoding="utf-8").ljust(_LONG, "\n"), encoding="utf-8")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
