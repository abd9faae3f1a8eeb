"""`@image`: the image that was built last, as `config.ini` beside the file names it."""

from __future__ import annotations

import configparser
import re
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import ConfigError, Problem
from .problems import Problems

LAST_BUILT = "@image"
FILE = "config.ini"
_SECTION = "main"


@dataclass(frozen=True)
class BuiltImage:
    """What `config.ini` says: the image, and what it is built from."""

    registry: str = ""
    tag: str = ""
    dockerfile: str = ""
    source_folder: str = "."

    @property
    def name(self) -> str:
        return f"{self.registry}:{self.tag}"

    def next(self) -> BuiltImage:
        """The image under the next tag: `1` is followed by `1_v_1`, and `1_v_09` by `1_v_10`."""
        counted = re.fullmatch(r"(.*_v_)([0-9]+)", self.tag, re.DOTALL)
        if not counted:
            return replace(self, tag=f"{self.tag}_v_1")
        return replace(self, tag=counted[1] + str(int(counted[2]) + 1).zfill(len(counted[2])))


def read_built(folder: Path) -> BuiltImage | None:
    """What the folder's `config.ini` says; None where there is none."""
    file = folder / FILE
    if not file.is_file():
        return None
    try:
        said = _parsed(file)[_SECTION]
    except (OSError, ValueError, KeyError, configparser.Error):
        fix = f"It has a section [{_SECTION}] with `registry` and `tag`. Write it so, or move it away."
        raise ConfigError([Problem("cannot be read as what was built last", fix, file=str(file))]) from None
    own = {name: said.get(name) or "" for name in ("registry", "tag", "dockerfile")}
    # ADS writes this word where an image was only named, not built.
    dockerfile = "" if own["dockerfile"] == "DUMMY_PATH" else own["dockerfile"]
    return BuiltImage(own["registry"], own["tag"], dockerfile, said.get("source_folder") or ".")


def write_built(folder: Path, built: BuiltImage) -> None:
    """Writes `config.ini` so that both ADS and Muster read it. What else it says is kept."""
    file = folder / FILE
    ini = _parsed(file) if file.is_file() else _parser()
    if not ini.has_section(_SECTION):
        ini.add_section(_SECTION)
    for name, value in vars(built).items():
        ini.set(_SECTION, name, value)
    with file.open("w", encoding="utf-8") as lines:
        ini.write(lines)


def _parser() -> configparser.ConfigParser:
    return configparser.ConfigParser(interpolation=None, allow_no_value=True)


def _parsed(file: Path) -> configparser.ConfigParser:
    ini = _parser()
    ini.read_string(file.read_text(encoding="utf-8"))
    return ini


def named_image(image: str | None, folder: Path, path: str, problems: Problems) -> str | None:
    """An image by its full name. `@image` stays as it is where nothing says what was built."""
    if image != LAST_BUILT:
        return image
    try:
        built = read_built(folder)
    except ConfigError:
        built = BuiltImage()
    if built is None:
        return image
    if not (built.registry and built.tag):
        fix = "It has a section [main] with `registry` and `tag`. Write it so, or write the image's own name here."
        problems.add(path, f"{LAST_BUILT} is looked up in {folder / FILE}, which does not name it", fix)
        return None
    return built.name
