"""`muster policy`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..access.policies import Policy


@click.command(
    help="Print the dynamic groups and policy statements that JOB needs in an Oracle account, each with its reason. "
    "Nothing is created, and nothing is asked of the cloud."
)
@click.argument("job", type=click.Path(path_type=Path), default="job.yaml")
@click.option("--on", metavar="TARGET", help="A target of muster.toml, of the kind oci.")
@click.option("--group", metavar="NAME", help="The group of the users who launch.  [muster-users]")
@click.option("--dynamic-group", metavar="NAME", help="What the runs' dynamic group is to be called.  [muster-runs]")
@click.option("--compartment", metavar="NAME", help="The compartment by its name, A:B where it lies in another.")
@click.option("--proof-of-concept", is_flag=True, help="Few wide statements, for any job of the compartment.")
@click.option("--json", "form", flag_value="json", help="For programs.")
@click.option("--terraform", "form", flag_value="terraform", help="As resources of Terraform.")
@click.option("--cli", "form", flag_value="cli", help="As commands of Oracle's own command line, oci.")
def command(
    job: Path,
    on: str | None,
    group: str | None,
    dynamic_group: str | None,
    compartment: str | None,
    proof_of_concept: bool,
    form: str | None,
) -> None:
    from ..access.policies import needs_of, policy
    from ..errors import ConfigError, Problem
    from ..launching import target_of

    read, target = target_of(job, on)
    if target.kind != "oci":
        fix = "Name a target of the kind oci: `muster policy --on NAME`."
        raise ConfigError([Problem(f"target {target.name!r} is of the kind {target.kind}, which has no policies", fix)])
    needs = needs_of(read, target, users=group, runs=dynamic_group, compartment=compartment)
    click.echo(_shown(policy(needs, proof_of_concept), form), nl=False)


def _shown(made: Policy, form: str | None) -> str:
    from ..access.policy_texts import as_commands, as_terraform, as_text

    if form == "json":
        return json.dumps(made.to_json(), indent=2, ensure_ascii=False) + "\n"
    return {"terraform": as_terraform, "cli": as_commands}.get(form or "", as_text)(made)
