"""`muster opctl`: the words that users of Oracle's ADS know, each for a verb of Muster's own."""

from __future__ import annotations

from importlib import import_module

import click

from ..errors import MusterError

VERBS = {
    "run": ("muster.cli.opctl_run:command", "Run the cluster of an ADS file (muster run)."),
    "check": ("muster.cli.opctl_look:check", "Check all that an ADS file needs in the cloud (muster doctor)."),
    "watch": ("muster.cli.opctl_look:watch", "Follow the lines of a run (muster logs --follow)."),
    "distributed-training": (
        "muster.cli.opctl_training:command",
        "init, build-image, publish-image, show-config, cancel.",
    ),
}

_TRAINING = "muster opctl distributed-training"
INSTEAD = {
    "activate": "",
    "build-image": f"An image of a cluster is built by `{_TRAINING} build-image`, or by `muster image build`.",
    "cancel": f"`{_TRAINING} cancel -j OCID` stops a cluster, as `muster stop RUN` does.",
    "conda": "What a script needs stands in the job's `requirements`, a list for pip or a conda-style env.yaml; "
    "`muster image build` puts it into an image.",
    "configure": "Nothing has to be configured: a target stands in muster.toml, and ~/.ads_ops is read as it is.",
    "deactivate": "",
    "delete": "`muster rm RUN` deletes a run and what it left; the job in the cloud goes with the run's end.",
    "init": "`muster init FOLDER -f FRAMEWORK` writes a job to start from.",
    "init-vscode": "",
    "model": "",
    "operator": "",
    "predict": "",
    "publish-image": f"`{_TRAINING} publish-image` does it, as `muster image push` does.",
    "spark": "",
}
"""Other verbs of `ads opctl`, and what Muster has in their place."""


class Opctl(click.Group):
    """Loads a verb's module when the verb is used, and knows the verbs that it does not have."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, _, attribute = VERBS[cmd_name][0].partition(":")
        found: click.Command = getattr(import_module(module), attribute)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] in INSTEAD:
            raise NoSuchVerb(f"there is no `muster opctl {args[0]}`", INSTEAD[args[0]] or "Muster has nothing for it.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, told) for name, (_, told) in VERBS.items()])


class NoSuchVerb(MusterError):
    """A verb of ADS that Muster does not have under this name."""

    exit_code = 2


@click.group(
    cls=Opctl, help="The words of Oracle's `ads opctl` for distributed training. docs/from-oracle-ads.md tells more."
)
def command() -> None:
    pass
