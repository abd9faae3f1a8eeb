"""The words that a container is started with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster.images.tool import Tool
from muster.targets.local_containers import Site, gpu_words, mount_word

pytestmark = pytest.mark.unit

DOCKER, PODMAN = Tool("/usr/bin/docker", "docker"), Tool("/usr/bin/podman", "podman")


def site(tool: Tool, **info: object) -> Site:
    return Site(tool, info, {}, Path("/work"), Path("/scratch"), 5)


def test_a_path_is_one_value_whatever_is_in_it() -> None:
    assert mount_word("/a", "/b", True) == "type=bind,src=/a,dst=/b"
    assert mount_word('/a,readonly "x"', "/b", False) == 'type=bind,"src=/a,readonly ""x""",dst=/b,readonly'


def test_what_nodes_write_is_the_users_own() -> None:
    me = f"{os.getuid()}:{os.getgid()}"
    assert site(DOCKER).user == ["--user", me]
    assert site(DOCKER, SecurityOptions=["name=seccomp", "name=rootless"]).user == ["--user", "0:0"]
    assert site(PODMAN, host={"security": {"rootless": True}}).user == ["--userns", "keep-id", "--user", me]
    assert site(PODMAN, host={"security": {"rootless": False}}).user == ["--user", me]


def test_each_tool_is_told_of_gpus_in_its_own_way() -> None:
    assert gpu_words(DOCKER, []) == []
    assert gpu_words(DOCKER, ["0", "1"]) == ["--gpus", '"device=0,1"']
    assert gpu_words(PODMAN, ["0", "1"]) == ["--device", "nvidia.com/gpu=0", "--device", "nvidia.com/gpu=1"]
