"""`muster init`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click

from ..errors import MusterError

_TEMPLATES = Path(__file__).with_name("templates")
_WORDS = {
    "dask": {
        "workers": 3,
        "main": ", which runs the scheduler and the script",
        "retries": "a failed worker starts again",
    },
    "horovod": {
        "workers": 1,
        "main": ", which computes too",
        "retries": "a failed rank starts all again, from the last checkpoint",
    },
    "pytorch": {
        "workers": 1,
        "main": ", which computes too",
        "retries": "a failed rank starts all again, from the last checkpoint",
    },
    "tensorflow": {
        "workers": 1,
        "main": ", which is the chief and computes too",
        "retries": "a failed node starts all again, from the last checkpoint",
    },
}


@click.command(help="Write a commented job file and an example script into FOLDER, for a framework of your choice.")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option(
    "-f", "--framework", type=click.Choice(list(_WORDS)), metavar="NAME", default="dask", help=f"{', '.join(_WORDS)}."
)
def command(folder: Path, framework: str) -> None:
    from ..spec.schema import schema
    from ..spec.table import slug

    words = {"name": slug(folder.absolute().name) or "job", "framework": framework, **_WORDS[framework]}
    files = {
        "job.yaml": (_TEMPLATES / "job.yaml").read_text(encoding="utf-8").format(**words),
        "train.py": (_TEMPLATES / framework / "train.py").read_text(encoding="utf-8"),
        "job.schema.json": json.dumps(schema(), indent=2, ensure_ascii=False) + "\n",
    }
    taken = [name for name in files if (folder / name).exists()]
    if taken:
        raise MusterError(f"{folder} has {', '.join(taken)} already", "Name another folder: muster init my-job")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
        click.echo(f"wrote {folder / name}")
    click.echo(f"next: muster run {shlex.quote(str(folder / 'job.yaml'))}")
