"""Images as users of ADS name them: by registry and tag, remembered in `config.ini`, built from their Dockerfile."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import MusterError
from ..spec.ads_image import FILE, BuiltImage, read_built, write_built

if TYPE_CHECKING:
    from ..spec.job import Job

_PROXIES = ("http_proxy", "https_proxy", "no_proxy")


@dataclass(frozen=True)
class Wish:
    """What the options say; the rest is in `config.ini`, or in the file that is run."""

    tag: str | None = None
    registry: str | None = None
    dockerfile: str | None = None
    source_folder: str | None = None

    @property
    def names_image(self) -> bool:
        return bool(self.tag or self.registry)


def wanted(wish: Wish, folder: Path, image: str | None = None) -> BuiltImage:
    """The image that is meant, as in ADS: an option goes before the file that is run, and that before `config.ini`."""
    known = read_built(folder) or BuiltImage()
    if image and "@sha256:" not in image:
        known = replace(known, **_parts(image))
    said = {name: value for name, value in vars(wish).items() if value is not None}
    return replace(known, **said)


def _parts(image: str) -> dict[str, str]:
    registry, colon, tag = image.rpartition(":")
    # A colon before a slash is a port's.
    return {"registry": image, "tag": "latest"} if not colon or "/" in tag else {"registry": registry, "tag": tag}


def build(
    wish: Wish, folder: Path, job: Job | None = None, image: str | None = None, count: bool = False
) -> BuiltImage:
    """Builds the image of a folder and remembers it there. `count` gives it the next tag."""
    built = wanted(wish, folder, image)
    lacking = [f"-{short}" for name, short in (("tag", "t"), ("registry", "reg")) if not getattr(built, name)]
    if lacking:
        raise MusterError(
            f"{' and '.join(lacking)} missing: the image needs a name", f"{folder / FILE} has none either."
        )
    if not built.dockerfile and job is None:
        fix = "Name it with -df, or build without one: `muster image build train.yaml` has a recipe for each framework."
        raise MusterError("-df is missing: there is no Dockerfile to build from", fix)
    built = built.next() if count else built
    _build(built, folder, job)
    write_built(folder, built)
    return built


def _build(built: BuiltImage, folder: Path, job: Job | None) -> None:
    from ..images import building
    from ..images.tool import find_tool
    from ..spec.job import Job

    job = job or Job(name="image", framework="dask", code=None)
    proxies = tuple(name for name in _PROXIES if os.environ.get(name))
    with _context(built.dockerfile, folder) as dockerfile:
        wish = building.Wish(
            tag=built.name,
            dockerfile=dockerfile,
            build_args=(f"CODE_DIR={built.source_folder}", *proxies) if dockerfile else (),
        )
        building.build(job, (folder / built.source_folder).absolute(), wish, find_tool(), _say)


@contextmanager
def _context(dockerfile: str, folder: Path) -> Iterator[Path | None]:
    """The Dockerfile in the folder that its build sees: in ADS that is where the command is typed, wherever it lies."""
    place = folder / dockerfile
    if not dockerfile or place.absolute().parent == folder.absolute():
        yield place if dockerfile else None
        return
    if not place.is_file():
        raise MusterError(f"there is no Dockerfile {place}", "Name it from the folder that its COPY lines start in.")
    handle, name = tempfile.mkstemp(prefix=".Dockerfile-", dir=folder)
    os.close(handle)
    try:
        shutil.copyfile(place, name)
        yield Path(name)
    finally:
        Path(name).unlink()


def publish(name: str) -> str:
    """Pushes an image; its name with the digest, which no later push can move."""
    from ..images.pushing import push
    from ..images.tool import find_tool
    from .image import _layers

    with _layers(False) as layers:
        pinned = push(name, None, find_tool(), _say, layers)
    _say(f"pushed {pinned}")
    return pinned


def _say(text: str) -> None:
    import click

    if text.strip():
        click.echo(f"muster: {text}", err=True)
