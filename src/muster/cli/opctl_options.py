"""Options that several verbs of `muster opctl` share: how to sign in, and which run is meant."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..errors import MusterError

if TYPE_CHECKING:
    from ..launching import Run

Command = TypeVar("Command", bound=Callable[..., Any])

_VARIABLES = {"oci_config": "OCI_CONFIG_FILE", "oci_profile": "OCI_CONFIG_PROFILE", "auth": "OCI_IAM_TYPE"}


def _remembered(_ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Puts an option where all that signs in, the store of the work dir too, looks for it."""
    if value:
        os.environ[_VARIABLES[str(param.name)]] = value
    return value


def signs_in(command: Command) -> Command:
    """The options by which ADS is told who somebody is."""
    config = click.option(
        "--oci-config", metavar="FILE", callback=_remembered, expose_value=False, help="Instead of ~/.oci/config."
    )
    profile = click.option("--oci-profile", metavar="NAME", callback=_remembered, help="A profile of that file.")
    ways = click.Choice(["api_key", "security_token", "resource_principal", "instance_principal"])
    auth = click.option(
        "-a", "--auth", type=ways, metavar="WAY", callback=_remembered, help=f"{', '.join(ways.choices)}."
    )
    debug = click.option(
        "-d", "--debug", is_flag=True, expose_value=False, help="Not needed: errors say all they know."
    )
    return config(profile(auth(debug(command))))


def chosen_run(job: str | None, work_dir: str | None) -> Run:
    """The run of a job's OCID, of a job run's OCID, or of an id of Muster's own."""
    from ..cloud_runs import find_by_job
    from ..launching import Run
    from ..spec.oci_kinds import ocid_type

    kind = ocid_type(job or "")
    if kind is None:
        return Run.find(job or "", work_dir)
    return find_by_job(_job_of(job or "") if kind == "datasciencejobrun" else job or "", work_dir)


def _job_of(job_run: str) -> str:
    """The job that a job run belongs to, as the service tells it."""
    from ..clouds.oci import session
    from ..clouds.oci_services import Services

    return str(Services(session()).call("data_science", "get_job_run", job_run).data["jobId"])


def read_info(file: Path) -> tuple[str, str | None]:
    """Job and work dir of a file that holds what `run` printed."""
    import yaml

    fix = "Keep what is printed by `muster opctl run -f train.yaml > cluster.yaml`, and name that file."
    try:
        said = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise MusterError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}", fix) from error
    job = said.get("jobId") if isinstance(said, dict) else None
    if not isinstance(job, str):
        what = "says what to run, not what runs" if isinstance(said, dict) and "kind" in said else "has no jobId"
        raise MusterError(f"{file} {what}", fix)
    work_dir = said.get("workDir")
    return job, work_dir if isinstance(work_dir, str) else None


def named(job: str | None, work_dir: str | None, file: Path | None) -> tuple[str, str | None]:
    """The job that is meant, by its OCID or by a file, and where it is."""
    if (job is None) == (file is None):
        raise click.UsageError("name the run once: by -j JOB, or by -f FILE with what `run` printed")
    found, place = (job or "", None) if file is None else read_info(file)
    return found, work_dir or place
