"""`muster convert`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .code_option import takes_code

if TYPE_CHECKING:
    from ..spec.ads_where import Where
    from ..spec.job import Job

_PATHS = ("code", "requirements", "python", "work_dir")


@click.command(
    help="Print the job of FILE in Muster's own format, and what an Oracle ADS file says of its target as comments. "
    "With --code the job takes its code from DIR instead of its image."
)
@click.argument("file", type=click.Path(path_type=Path))
@takes_code
@click.option("--toml", is_flag=True, help="Print the target instead, as a table for muster.toml.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write it there.")
def command(file: Path, code: Path | None, toml: bool, output: Path | None) -> None:
    from ..launching import load_both

    job, where = load_both(file)
    if toml and where is None:
        raise click.UsageError(f"{file} is a job file: it says nothing of a target")
    if code is not None:
        job = _with_code(job, code)
    folder = (output or file).absolute().parent
    text = where.toml() if toml and where else as_text(job, where, folder)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{output} cannot be written: {error.strerror}") from error


def as_text(job: Job, where: Where | None, folder: Path) -> str:
    """The job file, to be put into `folder`; behind it, as comments, the target."""
    import yaml

    from ..spec.table import show

    text = yaml.safe_dump(_from(folder, show(job)), sort_keys=False, allow_unicode=True, width=110)
    if where:
        text += "\n# Where its nodes run in Oracle's cloud, as a target for muster.toml:\n"
        text += "".join(f"# {line}\n" for line in where.toml().splitlines())
    return text


def _with_code(job: Job, code: Path) -> Job:
    from ..errors import JobError, Problem
    from ..spec.code_paths import from_image, image_folder

    if image_folder(job) is None:
        message = f"--code stands for code that lies in an image, and the job's code is {job.code}"
        raise JobError([Problem(message, "Leave --code out.")])
    return from_image(job, code)


def _from(folder: Path, shown: dict[str, Any]) -> dict[str, Any]:
    """A job's settings with the paths inside `folder` as a file of that folder says them."""
    moved = {name: _inner(value, folder) if name in _PATHS else value for name, value in shown.items()}
    if "inputs" in moved:
        moved["inputs"] = {name: _inner_input(place, folder) for name, place in moved["inputs"].items()}
    return {name: value for name, value in moved.items() if (name, value) != ("code", ".")}


def _inner_input(place: Any, folder: Path) -> Any:
    return {**place, "from": _inner(place["from"], folder)} if isinstance(place, dict) else _inner(place, folder)


def _inner(text: Any, folder: Path) -> Any:
    path = Path(text) if isinstance(text, str) and text.startswith("/") else None
    return str(path.relative_to(folder)) if path and path.is_relative_to(folder) else text
