"""`muster opctl distributed-training`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ..errors import MusterError, NotFound
from .opctl_options import chosen_run, named, signs_in

_FRAMEWORKS = {
    "dask": "dask",
    "horovod-pytorch": "horovod",
    "horovod-tensorflow": "horovod",
    "pytorch": "pytorch",
    "tensorflow": "tensorflow",
}


@click.group(help="Write, build, look at and end distributed training, in the words of ADS.")
def command() -> None:
    pass


@command.command(help="Write a job and an example script into FOLDER, as `muster init` does.")
@click.option("-f", "--framework", required=True, type=click.Choice([*_FRAMEWORKS, "ray"]), metavar="NAME")
@click.option("--version", default="v1", metavar="NAME", help="Muster's own, which is called v1.")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
def init(framework: str, version: str, folder: Path) -> None:
    from . import init as own

    if framework not in _FRAMEWORKS:
        raise MusterError("Ray is not among the frameworks of Muster", f"There are: {', '.join(_FRAMEWORKS)}.")
    if version != "v1":
        raise MusterError(f"there is no version {version!r} of the files to start from", "Leave --version out.")
    words = [str(folder), "-f", _FRAMEWORKS[framework]]
    own.command.main(words, prog_name="muster init", standalone_mode=False)


@command.command("build-image", help="Build the image of a cluster, as `muster image build` does, and remember it.")
@click.option("-t", "--tag", metavar="TAG", help="The tag of the image.")
@click.option("-reg", "--registry", metavar="NAME", help="Where it is pushed, such as region.ocir.io/namespace/name.")
@click.option("-df", "--dockerfile", metavar="FILE", help="What it is built from.")
@click.option("-s", "--source-folder", "--source", metavar="DIR", help="The code, which images have at /code.")
@click.option(
    "--type",
    "framework",
    type=click.Choice(list(_FRAMEWORKS)),
    metavar="NAME",
    help="Without -df: for which framework.",
)
@click.option("--image-name", metavar="NAME", help="Registry and tag in one.")
@click.option("--entrypoint", metavar="SCRIPT", help="The script in the code.")
@click.option("--backend", type=click.Choice(["distributed-job"]), expose_value=False, hidden=True)
@click.option("-p", "--push", is_flag=True, help="Push it too.")
@click.option("-d", "--debug", is_flag=True, expose_value=False, help="Not needed: errors say all they know.")
def build_image(
    tag: str | None,
    registry: str | None,
    dockerfile: str | None,
    source_folder: str | None,
    framework: str | None,
    image_name: str | None,
    entrypoint: str | None,
    push: bool,
) -> None:
    from ..spec.job import Job
    from .opctl_images import Wish, build, publish

    job = None
    if framework:
        job = Job(name="image", framework=_FRAMEWORKS[framework], code="image:/code", entry=entrypoint)
    made = build(Wish(tag, registry, dockerfile, source_folder), Path.cwd(), job, image_name)
    click.echo(publish(made.name) if push else made.name)


@command.command("publish-image", help="Push IMAGE, or the one built last, as `muster image push` does.")
@click.argument("image", required=False)
@click.option("-d", "--debug", is_flag=True, expose_value=False, help="Not needed: errors say all they know.")
def publish_image(image: str | None) -> None:
    from ..spec.ads_image import FILE, read_built
    from .opctl_images import publish

    built = None if image else read_built(Path.cwd())
    if image is None and not (built and built.registry and built.tag):
        raise MusterError(f"no image is named, and there is no {FILE} here that names one", "Build one: build-image.")
    click.echo(publish(image or (built.name if built else "")))


@command.command("show-config", help="Show what main wrote down for the other nodes: where it is, and how to reach it.")
@click.option("-j", "--job-id", "job", metavar="OCID", help="The job, or a run by Muster's id.")
@click.option("--work-dir", metavar="URL", help="Its work dir, if it was launched elsewhere.")
@click.option("-f", "--file", type=click.Path(path_type=Path), help="A file with what `run` printed.")
@click.option("--worker-info", is_flag=True, help="What the other nodes wrote down too.")
@signs_in
def show_config(
    job: str | None,
    work_dir: str | None,
    file: Path | None,
    worker_info: bool,
    oci_profile: str | None,
    auth: str | None,
) -> None:
    from ..workdir.records import dump
    from ..workdir.run import MAIN_CONFIG

    run = chosen_run(*named(job, work_dir, file))
    try:
        main = run.folder.store.get(run.folder.at(MAIN_CONFIG))
    except NotFound:
        fix = f"It is there once main runs: see `muster status {run.id}`."
        raise MusterError(f"main of {run.id} has written nothing down yet", fix) from None
    click.echo(f"Main Info:\n{_text(json.loads(main))}")
    for node in run.folder.nodes() if worker_info else ():
        if node.role != "main":
            click.echo(f"Worker Info from {node.node}.json\n{_text(json.loads(dump(node)))}")


def _text(value: dict[str, Any]) -> str:
    import yaml

    return str(yaml.safe_dump(value, sort_keys=True, allow_unicode=True))


@command.command(help="Stop a cluster and all its job runs at once, as `muster stop` does.")
@click.option("-j", "--job-id", "job", metavar="OCID", help="The job, or a run by Muster's id.")
@click.option("--work-dir", metavar="URL", help="Its work dir, if it was launched elsewhere.")
@click.option("-f", "--file", type=click.Path(path_type=Path), help="A file with what `run` printed.")
@signs_in
def cancel(job: str | None, work_dir: str | None, file: Path | None, oci_profile: str | None, auth: str | None) -> None:
    from .stop import command as stop

    run = chosen_run(*named(job, work_dir, file))
    stop.main([run.id, "--work-dir", run.work_dir], prog_name="muster stop", standalone_mode=False)
