"""A wheel of this very installation: what runs here is what an image gets, released or not."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import muster

from ..errors import MusterError

_FORM = "Wheel-Version: 1.0\nGenerator: muster\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_EPOCH = (2020, 1, 1, 0, 0, 0)
"""The same content is the same wheel, so that an image's layer of it is built once."""


def wheel_name() -> str:
    return f"musterpoint-{_installed().version}-py3-none-any.whl"


def wheel() -> bytes:
    """The package as pip installs it."""
    files = {**_package(), **_information()}
    record = f"musterpoint-{_installed().version}.dist-info/RECORD"
    lines = [f"{name},sha256={_hash(data)},{len(data)}" for name, data in sorted(files.items())]
    files[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, data)
    return out.getvalue()


def _package() -> dict[str, bytes]:
    root = Path(muster.__file__).parent
    found = (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {f"muster/{path.relative_to(root).as_posix()}": path.read_bytes() for path in found}


def _information() -> dict[str, bytes]:
    found = _installed()
    texts = {
        "WHEEL": _FORM,
        "METADATA": found.read_text("METADATA"),
        "entry_points.txt": found.read_text("entry_points.txt"),
    }
    return {f"musterpoint-{found.version}.dist-info/{name}": text.encode() for name, text in texts.items() if text}


def _installed() -> Distribution:
    try:
        return distribution("musterpoint")
    except PackageNotFoundError:
        raise MusterError(
            "this Muster was not installed, so an image cannot get it", "Install it: pip install musterpoint"
        ) from None


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
