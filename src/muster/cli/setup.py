"""`muster setup`."""

from __future__ import annotations

import time
from pathlib import Path

import click


@click.group(help="Build and install what a framework needs and no package index has ready.")
def command() -> None:
    pass


@command.command(
    help="Build Horovod for the frameworks that a Python has, and install it there. "
    "The wheel is kept, so that the next environment with the same versions takes seconds."
)
@click.option("--python", metavar="PATH", help="Install into this Python instead of the one that runs Muster.")
@click.option(
    "--with", "flavours", metavar="NAMES", help="Build for these alone: pytorch, tensorflow, or both with a comma."
)
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Compilers at a time; by default as many as processors and memory allow."
)
@click.option("--rebuild", is_flag=True, help="Build it even if a fitting wheel is kept.")
def horovod(python: str | None, flavours: str | None, jobs: int | None, rebuild: bool) -> None:
    from ..frameworks.horovod_build.building import default_jobs
    from ..frameworks.horovod_build.installing import install, try_out, wheel
    from ..frameworks.horovod_build.interpreter import check_pip, choose, look, told
    from ..frameworks.horovod_build.recipe import VERSION
    from ..node.python import interpreter

    began = time.monotonic()
    _end_by_exception()
    found = look(str(Path(interpreter(python)).absolute()))
    wanted = None if flavours is None else [name.strip() for name in flavours.split(",")]
    chosen = choose(found, wanted)
    check_pip(found)
    made = wheel(found, chosen, jobs or default_jobs(), rebuild, _say)
    install(found, made, _say)
    try_out(found, chosen, _say)
    click.echo(f"Horovod {VERSION} for {told(chosen)} is in {found.path}, after {time.monotonic() - began:.0f} s")


def _say(text: str) -> None:
    click.echo(f"muster: {text}", err=True)


def _end_by_exception() -> None:
    """A signal ends the compilers and takes the temporary folder away, as Ctrl-C does by itself."""
    import signal
    import sys

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda number, _frame: sys.exit(128 + number))
