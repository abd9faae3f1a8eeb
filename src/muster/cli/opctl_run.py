"""`muster opctl run`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .opctl_images import Wish
from .opctl_options import signs_in

if TYPE_CHECKING:
    from ..spec.ads_where import Where
    from ..spec.job import Job
    from ..targets.base import Plan

_LONGEST = 200


@click.command(
    help="Run the cluster of an ADS file on the infrastructure that it names, and print its OCIDs. "
    "With -b local all its nodes run here."
)
@click.option("-f", "--file", type=click.Path(path_type=Path), required=True, help="An ADS file, or a job file.")
@click.option("-b", "--backend", type=click.Choice(["job", "local"]), default="job", help="job (default) or local.")
@click.option("-r", "--dry-run", is_flag=True, help="Show all that would be created. Nothing is, and nobody is asked.")
@click.option("-nobuild", "--nobuild", is_flag=True, help="Take the image as it is.")
@click.option("-nopush", "--nopush", is_flag=True, help="Build the image, and push it to no registry.")
@click.option("--auto_increment", "count", is_flag=True, help="Build it under the next tag: 1, 1_v_1, 1_v_2, …")
@click.option("-t", "--tag", metavar="TAG", help="The tag of the image.")
@click.option("-reg", "--registry", metavar="NAME", help="Its registry and repository.")
@click.option("-df", "--dockerfile", metavar="FILE", help="What it is built from.")
@click.option("-s", "--source-folder", metavar="DIR", help="The code, which the image has at /code.")
@click.option("--job-name", metavar="NAME", help="What the job is called in the console.")
@click.option("--ads-config", type=click.Path(path_type=Path), metavar="DIR", help="Instead of ~/.ads_ops.")
@signs_in
def command(
    file: Path,
    backend: str,
    dry_run: bool,
    nobuild: bool,
    nopush: bool,
    count: bool,
    tag: str | None,
    registry: str | None,
    dockerfile: str | None,
    source_folder: str | None,
    job_name: str | None,
    ads_config: Path | None,
    oci_profile: str | None,
    auth: str | None,
) -> None:
    wish = Wish(tag, registry, dockerfile, source_folder)
    if count and nobuild:
        raise click.UsageError("--auto_increment counts builds, and --nobuild wants none")
    if backend == "local":
        _here(file, wish, dry_run)
        return
    own = {"display_name": job_name, "profile": oci_profile, "auth": auth}
    asked = Asked(file, wish, dry_run, not nobuild, not nopush, count, ads_config, own)
    _in_the_cloud(asked)


@dataclass(frozen=True)
class Asked:
    """What the command line says of a run in the cloud."""

    file: Path
    wish: Wish
    dry: bool
    build: bool
    push: bool
    count: bool
    ads_config: Path | None
    own: dict[str, str | None]

    @property
    def folder(self) -> Path:
        return self.file.parent


def _here(file: Path, wish: Wish, dry: bool) -> None:
    """All nodes on this machine. They are processes, so that no image has to be built for them."""
    from ..launching import load
    from ..spec.ads_image import read_built
    from ..spec.code_paths import image_folder

    built = read_built(file.parent)
    source = wish.source_folder or (built.source_folder if built else None)
    words = [str(file), "--on", "local"]
    if source and image_folder(load(file)) is not None:
        words += ["--code", str(file.parent / source)]
    if dry:
        from .plan import command as plan

        plan.main(words, prog_name="muster plan", standalone_mode=False)
        return
    from .run import command as run

    run.main(words, prog_name="muster run", standalone_mode=False)


def _in_the_cloud(asked: Asked) -> None:
    from .. import launching
    from ..cloud_runs import cloud_ids

    job, where = launching.load_both(asked.file)
    where = _completed(where, asked)
    if image := _image(asked, job):
        job, where = replace(job, image=image), where and where.without("image")
    plan = launching.plan(job, "oci", asked.folder, None, where)
    if asked.dry:
        click.echo(_told(plan))
        return
    run = launching.start(plan, detach=True, say=_say)
    click.echo(_ids(cloud_ids(run)), nl=False)


def _completed(where: Where | None, asked: Asked) -> Where | None:
    """What the file says of where it runs, with what ADS's own settings and the command line add to it."""
    if where is None:
        return None
    from ..spec.ads_config import read_home

    said = {name: value for name, value in asked.own.items() if value}
    home = read_home(asked.ads_config, said.get("profile"))
    return home.complete(replace(where, settings={**where.settings, **said}))


def _image(asked: Asked, job: Job) -> str | None:
    """The image of the run, built and pushed as the options say; None where the file says all of it."""
    from .opctl_images import build, publish, wanted

    meant = wanted(asked.wish, asked.folder, job.image)
    name = meant.name if meant.registry and meant.tag else None
    if not asked.build or not meant.dockerfile:
        if asked.build and name:
            _say(f"no Dockerfile is named with -df, so that {name} is taken as it is")
        return name if asked.wish.names_image else None
    if asked.dry:
        meant = meant.next() if asked.count else meant
        _say(f"would build {meant.name} from {meant.dockerfile}" + (", and push it" if asked.push else ""))
        return meant.name
    built = build(asked.wish, asked.folder, job, job.image, asked.count)
    return publish(built.name) if asked.push else built.name


def _told(plan: Plan) -> str:
    """The plan in words, and behind it just what would be sent."""
    import yaml

    from .show_plan import lines

    payloads = [
        f"# {one.kind} {one.name}\n" + yaml.safe_dump(_plain(one.payload), sort_keys=False, allow_unicode=True)
        for one in plan.resources
    ]
    return "\n".join([*lines(plan), "", *payloads]).rstrip()


def _plain(value: Any) -> Any:
    """A payload as a reader can take it: what is long is cut. `muster plan --json` has all of it."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, str) and len(value) > _LONGEST:
        return f"{value[:40]}… ({len(value):,} characters)"
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _ids(ids: dict[str, Any]) -> str:
    """As ADS prints them: YAML, with the next command as a comment."""
    import yaml

    return (
        f"{yaml.safe_dump(ids, sort_keys=False)}"
        f"# To follow the lines of all nodes:\n# $ muster opctl watch {ids['jobId']}\n"
    )


def _say(text: str) -> None:
    click.echo(f"muster: {text}", err=True)
