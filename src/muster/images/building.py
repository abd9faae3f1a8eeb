"""Building the image of a job: with its own recipe or a Dockerfile of the user's, for the platform it will run on."""

from __future__ import annotations

import platform as machines
import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from ..errors import MusterError
from ..spec.code_paths import image_folder
from ..spec.job import Job
from .context import FILE, foreign_context, own_context, read_dockerfile
from .names import ImageName
from .recipe import CODE, COPIES_CODE, PLATFORM, PYTHON, Recipe, recipe
from .records import Built, remember_built
from .requirements import Listed, read_listed
from .tool import Say, Tool

_EXTRA = {"horovod": "pytorch"}
"""Which of our own extras lists a framework's packages, where it is not called as the framework is."""
NATIVE = "native"


@dataclass(frozen=True)
class Wish:
    """How an image is to be built. What is left out is found out."""

    tag: str = ""
    platform: str = PLATFORM
    base: str = ""
    apt: tuple[str, ...] = ()
    requirements: Path | None = None
    code: bool | None = None
    """Whether the code is baked in; None: where the job says that its code lies in its image."""
    extras: tuple[str, ...] = ()
    dockerfile: Path | None = None
    build_args: tuple[str, ...] = ()
    network: str = ""
    pip_config: Path | None = None
    pull: bool = False
    cache: bool = True


def dockerfile_of(job: Job, wish: Wish) -> str:
    """The Dockerfile that the recipe makes for a job."""
    return recipe(_recipe(job, wish, _listed(job, wish)))


def build(job: Job, folder: Path, wish: Wish, tool: Tool, say: Say) -> Built:
    """Builds it, and remembers it as the last one built."""
    tag = wish.tag or job.image or f"{job.name}:latest"
    name = ImageName.read(tag)
    if name.digest:
        raise MusterError(f"image: {tag} is pinned by its digest, and cannot be built anew", "Give a tag with --tag.")
    _check_arguments(wish)
    tool.check()
    listed = _listed(job, wish)
    text, ours = read_dockerfile(wish.dockerfile) if wish.dockerfile else (recipe(_recipe(job, wish, listed)), True)
    say(f"building {tag} for {platform_of(wish)} with {tool.name}")
    if ours:
        code = _bakes(job, wish) if wish.dockerfile is None else COPIES_CODE in text
        context = own_context(text, listed, job, folder, code, say)
    else:
        context = foreign_context(wish.dockerfile or Path())
    with context as place:
        _run(tool, wish, tag, place, say)
    found = tool.look(tag)
    if found is None:
        raise MusterError(
            f"{tool.name} built {tag}, but did not keep it on this machine",
            "Its builder keeps images elsewhere. Choose the usual one: docker buildx use default",
        )
    return remember_built(tag, str(found.get("Id", "")), platform_of(wish))


def platform_of(wish: Wish) -> str:
    if wish.platform != NATIVE:
        return wish.platform
    known = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
    return f"linux/{known.get(machines.machine().lower(), machines.machine().lower())}"


def _run(tool: Tool, wish: Wish, tag: str, place: Path, say: Say) -> None:
    words = ["build", "--platform", platform_of(wish), "--tag", tag, "--file", str(place / FILE)]
    words += [word for argument in wish.build_args for word in ("--build-arg", argument)]
    words += ["--network", wish.network] if wish.network else []
    words += ["--secret", f"id=pip,src={wish.pip_config.absolute()}"] if wish.pip_config else []
    words += ["--pull"] if wish.pull else []
    words += [] if wish.cache else ["--no-cache"]
    # Secrets of a build are BuildKit's; older dockers have it and do not use it by themselves.
    env = {"DOCKER_BUILDKIT": "1"} if wish.pip_config else {}
    tool.follow([*words, str(place)], say, wish.base, env)


def _check_arguments(wish: Wish) -> None:
    if wish.pip_config and ("," in str(wish.pip_config) or not wish.pip_config.is_file()):
        raise MusterError(f"--pip-config: {wish.pip_config} is no file that a build can take", "Name pip's pip.conf.")
    if not re.fullmatch(r"native|[a-z0-9]+/[a-z0-9]+(/[a-z0-9]+)?", wish.platform):
        raise MusterError(f"--platform: {wish.platform!r} is no platform", f"Write {PLATFORM}, linux/arm64 or native.")


def _bakes(job: Job, wish: Wish) -> bool:
    return image_folder(job) is not None if wish.code is None else wish.code


def _listed(job: Job, wish: Wish) -> Listed:
    path = wish.requirements or (Path(job.requirements) if job.requirements else None)
    return read_listed(path) if path else Listed()


def _recipe(job: Job, wish: Wish, listed: Listed) -> Recipe:
    return Recipe(
        framework=job.framework,
        base=wish.base,
        python=PYTHON if listed.conda else listed.python or PYTHON,
        apt=wish.apt,
        packages=_packages(job.framework, listed),
        requirements=bool(listed.content),
        conda=listed.conda,
        code=(image_folder(job) or CODE) if _bakes(job, wish) else None,
        extras=wish.extras,
        pip_config=wish.pip_config is not None,
    )


def _packages(framework: str, listed: Listed) -> tuple[str, ...]:
    """The framework's own, unless the user lists it: then its version and company are theirs to choose."""
    extra = _EXTRA.get(framework, framework)
    try:
        declared = requires("musterpoint") or []
    except PackageNotFoundError:
        declared = []
    own = [line.partition(";") for line in declared if re.search(rf"extra == ['\"]{re.escape(extra)}['\"]", line)]
    packages = tuple(line[0].strip().replace(" ", "") for line in own)
    known = {re.split(r"[<>=!~\[]", package, maxsplit=1)[0].lower() for package in packages} - {"numpy", "bokeh"}
    return () if known & listed.names else packages
