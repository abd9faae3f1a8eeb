"""`@image`: the image that ADS built last, as `config.ini` beside the file names it."""

from __future__ import annotations

import configparser
from pathlib import Path

from .problems import Problems

LAST_BUILT = "@image"


def named_image(image: str | None, folder: Path, path: str, problems: Problems) -> str | None:
    """An image by its full name. `@image` stays as it is where nothing says what was built."""
    file = folder / "config.ini"
    if image != LAST_BUILT or not file.is_file():
        return image
    ini = configparser.ConfigParser(interpolation=None)
    try:
        ini.read_string(file.read_text(encoding="utf-8"))
        registry, tag = ini["main"]["registry"], ini["main"]["tag"]
    except (OSError, ValueError, KeyError, configparser.Error):
        fix = "It has a section [main] with `registry` and `tag`. Write it so, or write the image's own name here."
        problems.add(path, f"{LAST_BUILT} is looked up in {file}, which does not name it", fix)
        return None
    return f"{registry}:{tag}"
