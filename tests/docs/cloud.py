"""An Oracle account for the pages that say they have one, and Oracle's own command line to reach it with."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from muster.launching import load_both, target_of
from muster.rehearsal import oracle
from muster.rehearsal.oracle import OracleServer
from muster.spec.config import Target, load_config
from tests.docs.markdown import ROOT, blocks
from tests.harness import MARK
from tests.needs import needs_file

_SAID = "<!-- cloud: oci -->"
_COMMAND = re.compile(r"(?:^|[\s(])oci [a-z]", re.MULTILINE)
_NAMED = ("compartment_id", "project_id", "subnet_id", "log_group_id", "log_id", "secrets")


def in_the_cloud(page: Path) -> bool:
    return _SAID in page.read_text(encoding="utf-8")


@contextmanager
def cloud_of(page: Path, folder: Path, env: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """How an account is reached that has all that the page's targets name.

    A page that shows no target makes everything itself. Its reader is an administrator, and whatever else is allowed
    there, the page's own commands have to allow.
    """
    if not in_the_cloud(page):
        yield {}
        return
    targets = list(_targets(folder))
    bucket, namespace = _bucket(targets[0]) if targets else ("", "acme")
    image = {name: env[name] for name in ("PATH", MARK) if name in env}
    with oracle.started(*([bucket] if bucket else []), namespace=namespace, environment=image) as server:
        for target in targets:
            images = [target.options["image"]] if target.options.get("image") else []
            named = {name: target.options[name] for name in _NAMED if target.options.get(name)}
            server.learn(**named, images=images)
        server.steering.ask("PUT", "strict", not targets)
        yield _reader(server, folder.parent / "reader", _programs(page, folder.parent), env)


def _targets(folder: Path) -> Iterator[Target]:
    """Those of each muster.toml and of each ADS file that the reader has."""
    for file in sorted(folder.rglob("muster.toml")):
        yield from (target for target in load_config(file.parent).targets.values() if target.kind == "oci")
    for file in sorted(folder.rglob("train.yaml")):
        if load_both(file)[1]:
            yield target_of(file, "oci")[1]


def _bucket(target: Target) -> tuple[str, str]:
    place = (target.work_dir or "").partition("://")[2].partition("/")[0]
    return place.partition("@")[0], place.partition("@")[2]


def _reader(server: OracleServer, home: Path, programs: Path, env: Mapping[str, str]) -> Mapping[str, str]:
    """A home with `~/.oci/config` in it, as `oci setup config` leaves it."""
    user = server.make_user(home / ".oci", groups=("Administrators",))
    reached = {name: value for name, value in server.environment(user).items() if name != "OCI_CONFIG_FILE"}
    quiet = {"SUPPRESS_LABEL_WARNING": "True"}
    return {"HOME": str(home), "PATH": f"{programs}{os.pathsep}{env['PATH']}", **reached, **quiet}


def _programs(page: Path, folder: Path) -> Path:
    """A folder with Oracle's `oci`, for a page that uses it; it has no variable that says where the cloud is."""
    place = folder / "programs"
    place.mkdir()
    if any(block.language == "console" and _COMMAND.search(block.text) for block in blocks(page)):
        found = next((ROOT / ".venv").glob("*/bin/oci"), ROOT / ".venv" / "peers" / "bin" / "oci")
        program = place / "oci"
        program.write_text(
            f'#!/bin/sh\nexec {shlex.quote(str(needs_file(found)))} --endpoint "$MUSTER_OCI_ENDPOINT" "$@"\n'
        )
        program.chmod(0o755)
    return place


def put_image(image: str) -> str:
    """The command that puts an image into the account's registry, into the compartment of the page."""
    said: Any = '{"compartment_id": os.environ["COMPARTMENT"], "images": sys.argv[1:]}'
    asked = f'Steering(os.environ["MUSTER_OCI_ENDPOINT"]).ask("POST", "things", {said})'
    code = f"import os, sys; from muster.rehearsal.steering import Steering; {asked}"
    return f"python -c {shlex.quote(code)} {image}"
