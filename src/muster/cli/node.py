"""`muster node`."""

from __future__ import annotations

import sys

import click


@click.command(help="Be one node of a run; all it needs is in its environment (docs/nodes-by-hand.md).")
def command() -> None:
    from ..node.start import main

    sys.exit(main())
