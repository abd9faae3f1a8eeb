"""`muster opctl check` and `muster opctl watch`."""

from __future__ import annotations

from pathlib import Path

import click

from .opctl_options import chosen_run, signs_in


@click.command(help="Check all that the cluster of FILE needs in the cloud, as `muster doctor` does.")
@click.option("-f", "--file", type=click.Path(path_type=Path), required=True, help="An ADS file.")
@signs_in
def check(file: Path, oci_profile: str | None, auth: str | None) -> None:
    from .doctor import command

    command.main([str(file), "--on", "oci"], prog_name="muster doctor", standalone_mode=False)


@click.command(help="Follow the lines of a run, of all its nodes, until it ends. OCID is a job's or a job run's.")
@click.argument("ocid")
@click.option("--work-dir", metavar="URL", help="Where the run is, if it was launched elsewhere.")
@signs_in
def watch(ocid: str, work_dir: str | None, oci_profile: str | None, auth: str | None) -> None:
    from .logs import command

    run = chosen_run(ocid, work_dir)
    words = [run.id, "--work-dir", run.work_dir, "--follow"]
    command.main(words, prog_name="muster logs", standalone_mode=False)
