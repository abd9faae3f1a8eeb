"""The group of all verbs. Their one-line helps stand here, so that `--help` loads none of them."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import click

VERBS = {
    "init": "Write a commented job file and an example script.",
    "plan": "Show what a run would create. Nothing exists yet.",
    "run": "Run a job as one cluster; the exit code is the script's.",
    "rehearse": "Run a job against a cloud that lives on this machine.",
    "ps": "List runs.",
    "status": "Show one run: its state, nodes, last values and end.",
    "logs": "Show a run's lines, merged in time.",
    "scale": "Change the number of workers of an elastic run.",
    "stop": "Stop a run, and wait until it has ended.",
    "sweep": "End and delete what runs left behind in a cloud.",
    "outputs": "List or fetch what a run's script left.",
    "rm": "Delete runs and all they left, after showing what goes.",
    "prune": "Delete the runs that ended long ago.",
    "doctor": "Check all that a run needs, and say what mends it.",
    "policy": "Print the policy statements that a job needs in an Oracle account.",
    "ports": "Print what must be open between the nodes of a job.",
    "image": "Build and push the image that nodes run in.",
    "setup": "Build and install what a framework needs, such as Horovod.",
    "convert": "Print a job, Oracle ADS files included, in Muster's own format.",
    "opctl": "The commands of Oracle's ADS, each mapped to one of ours.",
    "schema": "Print the JSON Schema of job files.",
    "node": "Be one node of a run; all it needs is in its environment.",
}


class Verbs(click.Group):
    """Loads a verb's module when the verb is used, and turns Muster's errors into lines."""

    def __call__(self, *args: Any, **extra: Any) -> Any:
        """The command itself. It leaves as soon as its lines are out, without the interpreter's teardown.

        That is a good part of what lies between the end of a script and the end of `muster run`.
        """
        try:
            return super().__call__(*args, **extra)
        except SystemExit as wish:
            if not isinstance(wish.code, int):
                raise
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(wish.code)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(f"muster.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], VERBS, n=1)
            ctx.fail(f"no such command {args[0]!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))

    def invoke(self, ctx: click.Context) -> object:
        from ..errors import MusterError

        try:
            return super().invoke(ctx)
        except MusterError as error:
            click.echo(f"muster: {error}", err=True)
            sys.exit(error.exit_code)
        except KeyboardInterrupt:
            sys.exit(130)
        except BrokenPipeError:
            # Whoever read our lines has had enough, as `head` does. What is still buffered goes nowhere.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            sys.exit(141)


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        from .. import __version__

        click.echo(f"muster {__version__}")
        ctx.exit()


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def main() -> None:
    """Run a training script as one distributed cluster.

    \b
    muster init            make a job file and a script to start from
    muster run job.yaml    run it
    """
