"""Every command, job file and link in the README and the docs: run, loaded, followed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from muster.frameworks.registry import Known
from muster.spec.load import load_text
from tests.docs.cloud import cloud_of, in_the_cloud
from tests.docs.markdown import PAGES, ROOT, Block, Command, anchors, blocks, commands, links, matches
from tests.docs.shell import Done, run
from tests.harness import Muster

NAMES = [page.name for page in PAGES]


def write_files(page: Path, folder: Path) -> None:
    """Lays out what a reader has: the files that the page shows, and the examples where it speaks of them."""
    if "examples/" in page.read_text(encoding="utf-8"):
        shutil.copytree(ROOT / "examples", folder / "examples")
    for block in blocks(page):
        if block.file:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.text, encoding="utf-8")


@contextmanager
def bucket_of(page: Path) -> Iterator[Mapping[str, str]]:
    """How the bucket `training` is reached, for pages that say they have one."""
    if "<!-- bucket: s3 -->" not in page.read_text(encoding="utf-8"):
        yield {}
        return
    from muster.rehearsal import s3

    with s3.started("training") as server:
        yield server.environment


def environment(muster: Muster) -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), muster.env.get("PATH", "")])
    own = {
        "PATH": path,
        "XDG_CONFIG_HOME": str(muster.home.parent / "config"),
        "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),
    }
    plain = {name: value for name, value in muster.env.items() if name != "PYTHONPATH"}
    return {**plain, **own}


LONGER = 540.0
"""Seconds for a page that makes a whole account, with machines that may be busy."""


def with_commands() -> Iterator[Any]:
    for page in PAGES:
        if "```console" in page.read_text(encoding="utf-8"):
            marks = [pytest.mark.timeout(LONGER + 60)] if in_the_cloud(page) else []
            yield pytest.param(page, marks=marks, id=page.name)


@pytest.mark.slow
@pytest.mark.parametrize("page", list(with_commands()))
def test_the_commands_of_a_page_do_what_it_says(page: Path, muster: Muster, tmp_path: Path) -> None:
    write_files(page, muster.folder)
    typed = [command for block in blocks(page) if block.language == "console" for command in commands(block)]
    env = environment(muster)
    with bucket_of(page) as reached, cloud_of(page, muster.folder, env) as cloud:
        patience = {"patience": LONGER} if cloud else {}
        done = run(typed, muster.folder, {**env, **reached, **cloud}, tmp_path / "notes", **patience)
    for place, (command, result) in enumerate(zip(typed, done, strict=True)):
        told = f"{page.name}: $ {command.text}\nended with {result.code} and printed\n{result.printed}"
        asked = place + 1 < len(typed) and typed[place + 1].text == "echo $?"
        assert result.code == 0 or asked, told
        assert not command.shown or matches(command.shown, result.printed), f"{told}\ninstead of\n{command.shown}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_job_files_of_a_page_have_no_mistake(page: Path, tmp_path: Path) -> None:
    write_files(page, tmp_path)
    (tmp_path / "train.py").touch()
    for block in (block for block in blocks(page) if is_job(block)):
        folder = (tmp_path / block.file).parent if block.file else tmp_path
        make_interpreter(block, folder)
        # The page about plugins runs a framework that only its reader has.
        known = None if page.name == "plugins.md" else Known()
        load_text(whole_job(block), f"{page.name}:{block.line}", folder, known)


def is_job(block: Block) -> bool:
    """A composition file is none, and one is called after the mistakes that it is there to show."""
    return block.language == "yaml" and "services:" not in block.text and block.file != "mistakes.yaml"


def whole_job(block: Block) -> str:
    """A part of a job file with what every job needs around it."""
    around = {"name": "a", "framework": "pytorch", "entry": "train.py"}
    given = yaml.safe_load(block.text)
    absent = {} if "name" in given else {key: text for key, text in around.items() if key not in given}
    return block.text + "".join(f"{key}: {text}\n" for key, text in absent.items())


def make_interpreter(block: Block, folder: Path) -> None:
    """The environment that the page's commands make before the job file is used."""
    python = str(yaml.safe_load(block.text).get("python", ""))
    if "/" in python:
        (folder / python).parent.mkdir(parents=True)
        (folder / python).symlink_to(sys.executable)


@pytest.mark.unit
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for link in links(page):
        assert "://" not in link, f"{page.name} sends its reader away: {link}"
        file, _, anchor = link.partition("#")
        place = page.parent / file if file else page
        assert place.exists(), f"{page.name}: {link} leads nowhere"
        assert not anchor or anchor in anchors(place), f"{page.name}: {link} names no heading"


@pytest.mark.unit
def test_every_page_is_found_from_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    found = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
    assert {page for page in PAGES if page.parent.name == "docs" and page != index} <= found


@pytest.mark.unit
def test_no_block_of_a_page_is_of_a_kind_that_nobody_checks() -> None:
    for page in PAGES:
        for block in blocks(page):
            checked = block.language in ("console", "yaml") or block.file or block.language in ("text", "json")
            assert checked, f"{page.name}:{block.line}: a {block.language} block without a file marker"


@pytest.mark.unit
def test_a_shown_output_is_compared_line_by_line() -> None:
    printed = "one 1\ntwo\nthree\n"
    assert matches("one ...\n...\nthree\n", printed)
    assert matches("one 1\ntwo\n...\nthree\n", printed)
    assert not matches("one ...\nthree\n", printed)
    assert not matches("one\n...\n", printed)


@pytest.mark.unit
def test_the_reference_is_what_the_table_says() -> None:
    made = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "make_reference.py"), "--check"], capture_output=True, text=True
    )
    assert made.returncode == 0, made.stdout + made.stderr


@pytest.mark.unit
def test_the_picture_of_the_live_view_needs_nothing_from_elsewhere() -> None:
    picture = (ROOT / "docs" / "live-view.svg").read_text(encoding="utf-8")
    assert ElementTree.fromstring(picture).tag.endswith("svg")  # noqa: S314 - a file of our own
    assert "worker-3" in picture
    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", picture)


def test_a_command_that_fails_is_noticed(tmp_path: Path) -> None:
    typed = [Command("cd /", ""), Command("pwd", "/\n"), Command("(exit 3)", ""), Command("echo $?", "3\n")]
    assert run(typed, tmp_path, dict(os.environ), tmp_path / "notes") == [
        Done("", 0),
        Done("/\n", 0),
        Done("", 3),
        Done("3\n", 0),
    ]
