"""`muster run`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .code_option import takes_code

if TYPE_CHECKING:
    from ..launching import Run
    from .screen import Screen


_DETACHED = 130
"""Who asked for the script's exit code and broke off has not got it."""


@click.command(help="Run JOB as one cluster. The exit code is the script's own (docs/exit-codes.md has the others).")
@click.argument("job", type=click.Path(path_type=Path), default="job.yaml")
@click.option("--on", metavar="TARGET", help="A target of muster.toml; by default its default, else local.")
@takes_code
@click.option("--containers", is_flag=True, help="On this machine: each node a container of the job's image.")
@click.option("--detach", is_flag=True, help="Print the run's id and return; the run needs no terminal.")
@click.option("--resume", metavar="RUN", help="Take up a run whose launcher died before all its nodes were started.")
@click.option("--work-dir", metavar="URL", help="With --resume: where the run is, if it was launched elsewhere.")
@click.option("--quiet", is_flag=True, help="Show nothing but errors.")
def command(
    job: Path,
    on: str | None,
    code: Path | None,
    containers: bool,
    detach: bool,
    resume: str | None,
    work_dir: str | None,
    quiet: bool,
) -> None:
    from .. import launching
    from .screen import screen

    if work_dir and not resume:
        raise click.UsageError("--work-dir goes with --resume; a job's own stands in its file or in muster.toml")
    with screen(quiet or detach) as shown:
        # A closed terminal ends the run as Ctrl-C does; whatever kills us outright ends it through the nodes' lifeline.
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
            signal.signal(signal.SIGHUP, _interrupt)
        signal.signal(signal.SIGTERM, _interrupt)
        if resume:
            run = launching.resume(resume, work_dir, detach, shown.say)
        else:
            read, where = launching.load_both(job)
            plan = launching.plan(read, on, job.parent, code, where, containers)
            if where and plan.kind != "oci":
                shown.say(where.unused(plan.kind))
            run = launching.start(plan, detach, shown.say, shown.progress)
        if detach:
            # The nodes of a cloud are all accepted by now; those of this machine have a launcher of their own.
            click.echo(run.id)
            return
        sys.exit(follow(run, shown))


def follow(run: Run, shown: Screen) -> int:
    """Shows the run until it has ended. The first Ctrl-C stops it, the second ends it at once."""
    from .following import Following

    shown.begin(run.id)
    watched = Following(run, shown)
    try:
        result = watched()
    except KeyboardInterrupt:
        if run.cloud and not _wants_end(run, shown):
            shown.say(f"run {run.id} goes on: `muster status {run.id}`, `muster stop {run.id}`")
            return _DETACHED
        shown.say("stopping; once more to end it at once")
        try:
            run.stop("stopped from its terminal", wait=False)
            result = watched()  # a script's last words are often where it saved
        except KeyboardInterrupt:
            run.end()
            result = run.poll()
    if result is None:
        shown.say(f"run {run.id} ended without a result")
        return 125
    shown.end(result)
    return result.exit_code


def _wants_end(run: Run, shown: Screen) -> bool:
    """Whether Ctrl-C is meant for the run itself, which a cloud goes on with. Who cannot be asked did not say so."""
    if not sys.stdin.isatty():
        return False
    shown.close()
    return click.confirm(f"Stop run {run.id} (else it goes on without this terminal)?", default=False, err=True)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt
