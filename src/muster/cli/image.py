"""`muster image`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click


@click.group(help="Build the container image of a job, and bring it to a registry.")
def command() -> None:
    pass


_tool = click.option("--tool", metavar="NAME", help="docker, podman or nerdctl; by default the first that is found.")
_quiet = click.option("--quiet", is_flag=True, help="Show nothing but the result and errors.")


@command.command(
    help="Build the image of JOB: its framework, its requirements, the node program and, where it lies in the image, "
    "its code. What is built last is what `image: '@image'` means."
)
@click.argument("job", type=click.Path(path_type=Path), default="job.yaml")
@click.option("--tag", metavar="NAME", help="Its name; by default the job's `image`, else the job's name.")
@click.option("--platform", default="linux/amd64", show_default=True, help="What it is to run on; `native`: as here.")
@click.option("--base", metavar="IMAGE", default="", help="Start from this image; a digest in it pins it.")
@click.option("--apt", metavar="PACKAGE", multiple=True, help="Install a Debian package. May be given again.")
@click.option("--requirements", type=click.Path(path_type=Path), help="Instead of the job's: for pip, or an env.yaml.")
@click.option("--bake-code/--no-bake-code", "code", default=None, help="Whether the code is in it, or comes later.")
@click.option("--code", "source", type=click.Path(path_type=Path), help="Where code that lies in the image is now.")
@click.option("--extra", "extras", metavar="NAME", multiple=True, help="An extra of the node program, such as aws.")
@click.option("--write", is_flag=True, help="Write the Dockerfile beside the job file, and build nothing.")
@click.option("--force", is_flag=True, help="With --write: also over another Dockerfile.")
@click.option("--dockerfile", type=click.Path(path_type=Path), help="Build this one instead of the recipe's.")
@click.option("--build-arg", "build_args", metavar="NAME=VALUE", multiple=True, help="Handed to the container tool.")
@click.option("--network", metavar="NAME", default="", help="The network of the build's steps, such as host.")
@click.option("--pip-config", type=click.Path(path_type=Path), help="pip's settings for the build; not in the image.")
@click.option("--pull", is_flag=True, help="Look for a newer base image.")
@click.option("--no-cache", is_flag=True, help="Build every layer anew.")
@_tool
@_quiet
def build(
    job: Path,
    tag: str | None,
    platform: str,
    base: str,
    apt: tuple[str, ...],
    requirements: Path | None,
    code: bool | None,
    source: Path | None,
    extras: tuple[str, ...],
    write: bool,
    force: bool,
    dockerfile: Path | None,
    build_args: tuple[str, ...],
    network: str,
    pip_config: Path | None,
    pull: bool,
    no_cache: bool,
    tool: str | None,
    quiet: bool,
) -> None:
    from ..images.building import Wish, dockerfile_of
    from ..images.building import build as build_image
    from ..images.tool import find_tool
    from ..launching import load

    read = load(job)
    wish = Wish(
        tag=tag or "",
        platform=platform,
        base=base,
        apt=apt,
        requirements=requirements,
        code=code,
        extras=extras,
        dockerfile=dockerfile,
        build_args=build_args,
        network=network,
        pip_config=pip_config,
        pull=pull,
        cache=not no_cache,
    )
    if write:
        _write(job.parent / "Dockerfile", dockerfile_of(read, wish), force)
        return
    built = build_image(read, (source or job.parent).absolute(), wish, find_tool(tool), _said(quiet))
    click.echo(f"{built.tag} {built.id}")


@command.command(
    help="Push IMAGE, by default the one that was built last, to its registry: Oracle's or any other. "
    "Prints it with its digest, which is what a plan pins."
)
@click.argument("image", required=False)
@click.option("--to", metavar="NAME", help="The name that it gets there: registry/repository:tag.")
@_tool
@_quiet
def push(image: str | None, to: str | None, tool: str | None, quiet: bool) -> None:
    from ..images.pushing import push as push_image
    from ..images.tool import find_tool

    with _layers(quiet) as layers:
        pinned = push_image(image, to, find_tool(tool), _said(quiet), layers)
    click.echo(pinned)


def _said(quiet: bool) -> Callable[[str], None]:
    def say(text: str) -> None:
        if not quiet and text.strip():
            click.echo(f"muster: {text}", err=True)

    return say


def _write(path: Path, text: str, force: bool) -> None:
    from ..errors import MusterError

    if path.exists() and not force and path.read_text(encoding="utf-8", errors="replace") != text:
        raise MusterError(f"{path} is there already, and says something else", "Take it away, or give --force.")
    path.write_text(text, encoding="utf-8")
    click.echo(f"wrote {path}; build it with: muster image build --dockerfile {path}")


@contextmanager
def _layers(quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """How many layers have arrived: a bar in a terminal, a line for each change in a pipe."""
    if quiet:
        yield lambda _done, _known: None
        return
    if not sys.stderr.isatty():
        yield _changes()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("  layers"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("layers", total=None)
        yield lambda done, known: shown.update(task, completed=done, total=known)


def _changes() -> Callable[[int, int], None]:
    last = [0]

    def tell(done: int, known: int) -> None:
        if done > last[0]:
            last[0] = done
            click.echo(f"muster: {done} of {known} layers are there", err=True)

    return tell
