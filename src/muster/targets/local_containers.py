"""`muster run --on local --containers`: the plan of a cluster of containers of the job's image, on this machine."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import LaunchError, MusterError
from ..frameworks.base import Framework
from ..frameworks.registry import framework
from ..images.pushing import local_digest
from ..images.records import last_built
from ..images.registry import digest
from ..images.tool import Tool, find_tool
from ..node.boot import COMMAND, ENTRYPOINT
from ..spec.ads_image import LAST_BUILT
from ..spec.code_paths import image_folder
from ..spec.config import Target as TargetConfig
from ..spec.job import Job
from ..spec.locations import local_path
from ..spec.sources import code_source
from ..workdir.home import default_work_dir, home, nodes_folder
from ..workdir.records import PROTOCOL
from .base import RUN, CodePlan, NodePlan, Plan, Resource
from .bundling import check_inputs, code_plan
from .container_nodes import FILES, LABEL, ContainerStarter, container_name
from .local import gpu_share, node_names

OPTION = "containers"
"""The setting of a plan that says so."""
WORK_DIR, FOLDER, CODE = "/muster/runs", "/muster/node", "/code"
"""Where a container has the work dir, its node's own folder, and the code."""
NETWORK = f"muster-{RUN}"


@dataclass(frozen=True)
class Site:
    """What is the same for all containers of a run."""

    tool: Tool
    info: Mapping[str, Any]
    images: Mapping[str, str]
    """By role, pinned."""
    work_dir: Path
    scratch: Path
    main_grace: int

    @cached_property
    def user(self) -> list[str]:
        """Whoever runs Muster owns what the nodes write into the work dir."""
        ids = f"{os.getuid()}:{os.getgid()}"
        if self.tool.name == "podman":
            rootless = bool(self.info.get("host", {}).get("security", {}).get("rootless"))
            return ["--userns", "keep-id", "--user", ids] if rootless else ["--user", ids]
        rootless = any("rootless" in str(option) for option in self.info.get("SecurityOptions") or ())
        return ["--user", "0:0" if rootless else ids]


def plan(config: TargetConfig, job: Job, main_grace: int) -> Plan:
    """Asks the container tool what it has, and changes nothing."""
    made = framework(job.framework)
    work_dir = _work_dir(job.work_dir or config.work_dir or str(default_work_dir()))
    check_inputs(job)
    _check_code(job)
    tool = find_tool()
    # What the image has is what the script gets: requirements go in when it is built.
    running = replace(job, python=job.python or "python3", requirements=None)
    roles = ("main", *(["worker"] if job.workers.max else []), *(["ps"] if job.ps else []))
    site = Site(
        tool,
        tool.check(),
        {role: _pinned(tool, job, role) for role in roles},
        work_dir,
        Path(config.options.get("scratch") or nodes_folder()),
        main_grace,
    )
    code = code_plan(job, (work_dir, home()))
    nodes = tuple(node_plan(site, running, made, name, code) for name in node_names(job))
    return Plan(
        target=config.name,
        kind="local",
        job=running,
        work_dir=str(work_dir),
        code=code,
        python=f"{running.python} of the image",
        requirements=None,
        nodes=nodes,
        network=f"one of its own, that the containers alone are in: {made.open_ports(job)}",
        notes=tuple(_notes(job)),
        resources=(
            Resource("network", NETWORK, {"displayName": NETWORK, "labels": {LABEL: RUN}}),
            *(_resource(site, running, node, code) for node in nodes),
        ),
        settings={OPTION: "1", "tool": tool.program, "scratch": str(site.scratch), "images": site.images},
    )


def _check_code(job: Job) -> None:
    if job.code and (source := code_source(job.code)) and source.kind == "bucket":
        raise LaunchError(
            f"code: {job.code} is fetched by each node, and containers here have no login for it",
            "Copy it to this machine first, or leave --containers out.",
        )


def starter(plan: Plan, run: str) -> ContainerStarter:
    return ContainerStarter(plan, run, find_tool(plan.settings["tool"]))


def node_again(plan: Plan, name: str, main_grace: int) -> NodePlan:
    """A node that was not there at first, as the plan's others are."""
    tool, scratch = find_tool(plan.settings["tool"]), Path(plan.settings["scratch"])
    site = Site(tool, tool.check(), plan.settings["images"], Path(plan.work_dir), scratch, main_grace)
    return node_plan(site, plan.job, framework(plan.job.framework), name, plan.code)


def node_plan(site: Site, job: Job, made: Framework, name: str, code: CodePlan | None) -> NodePlan:
    role = name.partition("-")[0]
    environment = {
        "MUSTER_LAUNCHED": "1",
        "MUSTER_PROTOCOL": str(PROTOCOL),
        "MUSTER_WORK_DIR": WORK_DIR,
        "MUSTER_RUN_ID": RUN,
        "MUSTER_MODE": role.upper(),
        "MUSTER_NODE": name,
        "MUSTER_FOLDER": FOLDER,
        "MUSTER_HOME": f"{FOLDER}/home",
        "HOME": f"{FOLDER}/home",
        "MUSTER_MAIN_GRACE": str(site.main_grace),
    }
    share = gpu_share(job, made, name)
    environment["MUSTER_GPUS"] = share["MUSTER_GPUS"]
    # A container counts from 0 whatever it was given, so that the numbers of this machine mean nothing inside.
    gpus = share["CUDA_VISIBLE_DEVICES"].split(",") if "CUDA_VISIBLE_DEVICES" in share else []
    if code:
        environment["MUSTER_CODE"] = code.digest
    elif place := image_folder(job):
        environment["MUSTER_CODE_DIR"] = place
    return NodePlan(
        name=name,
        role=role,
        command=tuple(_command(site, job, name, code, gpus)),
        environment=environment,
        folder=str(site.scratch / RUN / name),
        ports={port.name: str(port) for port in made.ports(job, role)},
    )


def _command(site: Site, job: Job, name: str, code: CodePlan | None, gpus: list[str]) -> list[str]:
    words = [site.tool.program, "run", "--rm", "--interactive", "--name", container_name(RUN, name)]
    words += ["--hostname", name, "--network", NETWORK, "--label", f"{LABEL}={RUN}", "--label", f"muster.node={name}"]
    # Ranks of one node share memory through files there; docker's own 64 MB end most loaders of data.
    words += [*site.user, "--security-opt", "label=disable", "--shm-size", str(_memory() // 2)]
    words += gpu_words(site.tool, gpus)
    for source, target, writable in _mounts(site, job, name, code):
        words += ["--mount", mount_word(source, target, writable)]
    words += ["--env", "MUSTER_BOOT", "--entrypoint", ENTRYPOINT[0]]
    return [*words, site.images[name.partition("-")[0]], *ENTRYPOINT[1:], *COMMAND]


def _mounts(site: Site, job: Job, name: str, code: CodePlan | None) -> Iterator[tuple[str, str, bool]]:
    """What a container sees of this machine: where, as what, and whether it may write there."""
    folder = site.scratch / RUN / name
    yield str(site.work_dir), WORK_DIR, True
    yield str(folder), FOLDER, True
    if code:
        yield str(folder / FILES), CODE, True
    for one in job.inputs.values():
        if path := local_path(one.source, Path("/")):
            yield str(path), str(path), False


def mount_word(source: str, target: str, writable: bool) -> str:
    """One line of comma-separated values, as the tools read it: a comma in a path is quoted."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(
        ["type=bind", f"src={source}", f"dst={target}", *([] if writable else ["readonly"])]
    )
    return line.getvalue()


def _resource(site: Site, job: Job, node: NodePlan, code: CodePlan | None) -> Resource:
    name, image = container_name(RUN, node.name), site.images[node.role]
    mounts = [f"{source}:{target}{'' if may else ':ro'}" for source, target, may in _mounts(site, job, node.name, code)]
    return Resource("container", node.name, {"displayName": name, "image": image, "network": NETWORK, "mounts": mounts})


def gpu_words(tool: Tool, gpus: list[str]) -> list[str]:
    if not gpus:
        return []
    if tool.name == "podman":
        return [word for gpu in gpus for word in ("--device", f"nvidia.com/gpu={gpu}")]
    return ["--gpus", f'"device={",".join(gpus)}"']


def _pinned(tool: Tool, job: Job, role: str) -> str:
    """The exact content: of the image that is here, else of the one that its registry has now."""
    image = job.role(role).image or job.image
    built = last_built()
    if (image is None or image == LAST_BUILT) and built is None:
        raise LaunchError(
            f"image: {role} has none, and none was built here",
            "Build one with `muster image build`, or name one: `image: REGISTRY/REPOSITORY:TAG` in the job.",
        )
    try:
        if built and (image is None or image == LAST_BUILT):
            return local_digest(tool, built.id) or digest(built.name)
        return local_digest(tool, str(image)) or digest(str(image))
    except MusterError as error:
        raise LaunchError(error.message, error.fix) from error


def _work_dir(place: str) -> Path:
    path = local_path(place, Path.cwd())
    if path is None:
        raise LaunchError(
            f"containers of this machine cannot meet in {place}",
            "They see folders of this machine alone: leave `work_dir` out, or name a folder.",
        )
    return path


def _notes(job: Job) -> Iterator[str]:
    if job.requirements:
        yield f"requirements: {job.requirements} is not installed now; `muster image build` puts it into the image"
    host = os.environ.get("DOCKER_HOST", "")
    if host.startswith(("tcp://", "ssh://")):
        yield f"DOCKER_HOST is {host.partition('@')[2] or host}: its containers must see the folders of this machine"
    if sys.platform == "darwin":
        yield "containers see folders of your home alone, unless your container tool was told to share others"


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
