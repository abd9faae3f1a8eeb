"""Which image was built last: what `@image` stands for. Kept in Muster's home, so that every later command knows it."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..workdir.home import home


@dataclass(frozen=True)
class Built:
    """An image that `muster image build` made, and where it was pushed since."""

    tag: str
    id: str
    """By which the container tool of this machine knows it."""
    at: float
    platform: str = ""
    digest: str = ""
    """`repository@sha256:…`; empty until it was pushed."""

    @property
    def name(self) -> str:
        """By which others find it: exactly where that is known."""
        return self.digest or self.tag


def last_built() -> Built | None:
    """The image that was built last from this account."""
    try:
        return Built(**json.loads(_file().read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None  # none yet, or another version's note: the next build writes it anew


def remember_built(tag: str, image: str, platform: str) -> Built:
    built = Built(tag, image, time.time(), platform)
    _write(built)
    return built


def remember_pushed(tag: str, image: str, digest: str) -> None:
    """Notes where the last built image can be had, if it is the one that was pushed."""
    built = last_built()
    if built and built.id == image:
        _write(replace(built, tag=tag, digest=digest))


def _file() -> Path:
    return home() / "images" / "last.json"


def _write(built: Built) -> None:
    file = _file()
    file.parent.mkdir(parents=True, exist_ok=True)
    arriving = file.with_name(f".{os.urandom(6).hex()}")
    arriving.write_text(json.dumps(asdict(built)), encoding="utf-8")
    arriving.replace(file)
