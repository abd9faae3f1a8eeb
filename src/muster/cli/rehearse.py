"""`muster rehearse`."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..rehearsal.rehearsing import Rehearsal
    from ..spec.config import Target
    from ..spec.job import Job


CALLS = (
    *("create_job", "get_job", "list_jobs", "delete_job"),
    *("create_run", "list_runs", "cancel_run", "get_subnet", "search_logs"),
    *("put", "get", "list", "delete"),
)
"""Of Data Science, the network and Logging; the last are object storage's."""


def _pairs(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> dict[str, float]:
    """`NAME=SECONDS`, any number of them."""
    from ..spec.units import seconds

    found = {}
    for one in given:
        name, _, text = one.partition("=")
        try:
            found[name] = seconds(text)
        except ValueError as error:
            raise click.BadParameter(f"expected NAME=SECONDS, such as worker-1=5s, found {one}") from error
    return found


@click.command(
    help="Run JOB against a cloud that lives on this machine: the real plan, the real SDK, real nodes, no account. "
    "The exit code is the script's; 1 if something is left that would cost."
)
@click.argument("job", type=click.Path(path_type=Path), default="job.yaml")
@click.option("--on", metavar="TARGET", default="oci", show_default=True, help="A target of muster.toml.")
@click.option("--refuse", type=click.IntRange(min=1), metavar="N", help="Refuse the N-th job run, for quota.")
@click.option(
    "--lose", multiple=True, metavar="CALL", type=click.Choice(CALLS), help="Lose a reply: of the first create_run, …"
)
@click.option("--delay", multiple=True, metavar="STEP=SECONDS", callback=_pairs, help="Let a step take so long.")
@click.option("--kill", multiple=True, metavar="NODE=SECONDS", callback=_pairs, help="Kill a node after so long.")
@click.option("--serve", is_flag=True, help="Only start the cloud, and say how other commands reach it.")
@click.option("--port", type=int, default=0, help="Of the cloud; by default any that is free.")
def command(
    job: Path,
    on: str,
    refuse: int | None,
    lose: tuple[str, ...],
    delay: dict[str, float],
    kill: dict[str, float],
    serve: bool,
    port: int,
) -> None:
    from ..clouds.oci import check_installed
    from ..rehearsal.rehearsing import Faults, rehearsed

    check_installed()
    signal.signal(signal.SIGTERM, _interrupt)  # what was made here is taken away on this way out, too
    read, target = _job_and_target(job, on)
    _check_faults(read, delay, kill)
    with rehearsed(read, target, Faults(refuse, lose, delay, kill), port=port) as cloud:
        if serve:
            _serve(cloud)
            return
        sys.exit(_run(read, target, job.parent, cloud))


def _check_faults(job: Job, delay: dict[str, float], kill: dict[str, float]) -> None:
    """A fault that waits for what never comes would look like a rehearsal that went well."""
    from ..rehearsal.data_science_settings import DELAYS
    from ..targets.local import node_names

    for option, given, known in (("--delay", delay, list(DELAYS)), ("--kill", kill, node_names(job))):
        if unknown := [name for name in given if name not in known]:
            raise click.BadParameter(f"{option}: there is no {unknown[0]}; known are {', '.join(known)}")


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _job_and_target(path: Path, on: str) -> tuple[Job, Target]:
    """The target as it is; a made-up one for who has none yet."""
    from dataclasses import replace

    from ..launching import load_both, target_of
    from ..rehearsal.rehearsing import IMAGE, TARGET
    from ..spec.config import load_config

    job, where = load_both(path)
    if where is None and on == "oci" and on not in load_config(path.parent).targets:
        return job, TARGET
    job, target = target_of(path, on)
    if target.kind != "oci":
        from ..errors import ConfigError, Problem

        raise ConfigError([Problem(f"a target of the kind {target.kind} needs no rehearsal", "Use `muster run`.")])
    return job, replace(target, options={"image": IMAGE, **target.options, "auth": "api_key", "profile": None})


def _serve(cloud: Rehearsal) -> None:
    click.echo("# Oracle's cloud on this machine. Ctrl-C ends it, and all that runs in it.")
    for name, value in cloud.environment.items():
        click.echo(f"export {name}={shlex.quote(value)}")
    sys.stdout.flush()
    import threading

    with suppress(KeyboardInterrupt):
        threading.Event().wait()


def _run(job: Job, target: Target, folder: Path, cloud: Rehearsal) -> int:
    from .. import launching
    from ..targets.registry import target as made
    from .run import follow
    from .screen import screen

    os.environ.update(cloud.environment)
    os.environ["OCI_IAM_TYPE"] = "api_key"
    # What is rehearsed is no run of the user's: it stands in no list of theirs.
    with tempfile.TemporaryDirectory(prefix="muster-home-") as home, screen(False) as shown:
        os.environ["MUSTER_HOME"] = home
        plan = made(target).plan(job)
        shown.say(f"rehearsing on {target.name}: {len(plan.resources)} resources in a cloud at {cloud.server.endpoint}")
        try:
            code = follow(launching.start(plan, say=shown.say, progress=shown.progress), shown)
        finally:
            calls = ", ".join(f"{name} {count}" for name, count in sorted(cloud.calls().items()) if name != "other")
            shown.say(f"Oracle's cloud was asked for: {calls}")
            left = cloud.left()
            shown.say(f"left behind: {', '.join(left)}" if left else "nothing is left behind")
    return code or (1 if left else 0)
