"""Ignore rules mean what they mean to git: the real git is the judge."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.workdir.ignore import ALWAYS, Rules

FOLDERS = [
    "a",
    "a/b",
    "a/b/c",
    "ab",
    "b",
    "b/a",
    "foo",
    "foo/bar",
    "foo/x",
    "foo/x/bar",
    "d e",
    "fox",
    "fox/y",
]
NAMES = [
    "a",
    "b",
    "c.py",
    "foo",
    "bar",
    "a b",
    "a ",
    "#x",
    "!y",
    "é",
    "x*y",
    "[z]",
    "B",
    "a\\b",
    "]",
    "-",
    "0",
    "\t",
]
FILES = sorted(
    {f"{folder}/{name}" for folder in ["", *FOLDERS] for name in NAMES if f"{folder}/{name}".lstrip("/") not in FOLDERS}
)
PATHS = [path.lstrip("/") for path in FILES] + FOLDERS


class Git:
    """A repository whose ignore file changes from question to question."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        subprocess.run(["git", "init", "-q", str(folder)], check=True, env=self.environment)
        for path in PATHS:
            place = folder / path
            if path in FOLDERS:
                place.mkdir(parents=True, exist_ok=True)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.touch()

    def ignored(self, content: bytes) -> set[str]:
        (self.folder / ".gitignore").write_bytes(content)
        asked = subprocess.run(
            ["git", "-C", str(self.folder), "check-ignore", "--no-index", "-z", "--stdin"],
            input=b"\0".join(os.fsencode(path) for path in PATHS) + b"\0",
            capture_output=True,
            env=self.environment,
            check=False,
        )
        assert asked.returncode in (0, 1), asked.stderr
        return {os.fsdecode(path) for path in asked.stdout.split(b"\0") if path}


@pytest.fixture(scope="module")
def git(tmp_path_factory: pytest.TempPathFactory) -> Git:
    return Git(tmp_path_factory.mktemp("judge"))


def ours(content: bytes) -> set[str]:
    rules = Rules(os.fsdecode(content).split("\n"))

    def left_out(path: str) -> bool:
        names = path.split("/")
        above = ("/".join(names[:depth]) for depth in range(1, len(names)))
        return any(rules.ignored(folder, True) for folder in above) or rules.ignored(path, path in FOLDERS)

    return {path for path in PATHS if left_out(path)}


TABLE = [
    "",
    "# a comment\n\n   \n",
    "a",
    "/a",
    "a/",
    "/a/",
    "a/b",
    "a/b/",
    "/a/b/c/",
    "*",
    "*\n!a\n",
    "*\n!a/\n!a/b/\n!foo\n",
    "/*\n!/foo\n/foo/*\n!/foo/bar\n",
    "*.py",
    "*.py\n!c.py\n",
    "!c.py\n*.py\n",
    "**/bar",
    "foo/**",
    "foo/**/bar",
    "foo/**/",
    "**/foo/**",
    "**",
    "**/",
    "/**",
    "***",
    "a/***/c.py",
    "fo**/bar",
    "foo**bar",
    "fo**/y/c.py",
    "f?x",
    "?",
    "??",
    "a?b",
    "[ab]",
    "[!ab]",
    "[^ab]",
    "[a-c]",
    "[c-a]",
    "[]-]",
    "[]]",
    "[!]]",
    "[-a]",
    "[a-]",
    "[",
    "[a",
    "[]",
    "[\\]]",
    "[\\",
    "[[:alpha:]]",
    "[[:upper:][:digit:]]",
    "[[:space:]]",
    "[[:punct:]]",
    "[[:nonsense:]]",
    "[[:alpha:]",
    "[[:a]",
    "[[:]",
    "[a[:digit:]-]",
    "[[z]*",
    "a[/]b",
    "foo[!a]bar",
    "\\#x",
    "#x",
    "\\!y",
    "!y",
    "!",
    "/",
    "//",
    "a//b",
    "x\\*y",
    "\\[z]",
    "a\\\\b",
    "a\\",
    "a\\b",
    "a ",
    "a\\ ",
    "a\\  ",
    "a \\",
    "d e/",
    "d\\ e",
    "a\r\nb\r\n",
    "a\r",
    " a",
    "\ta",
    "é",
    "?é",
    "??",
    "*é",
    "[é]",
    "b/a/*",
    "*/a",
    "*/*/c.py",
    "/*/*",
    "a/*/",
    "./a",
    "../a",
    "a/./b",
    "*a*b*",
    "fo*/*ar",
    "foo\\/bar",
    "**\\/bar",
    "foo/**\\/bar",
    "\ufeffa",
]


@pytest.mark.parametrize("content", TABLE)
def test_each_rule_of_the_language(git: Git, content: str) -> None:
    # Git skips a byte order mark at the start of the file; so does whoever reads ours.
    assert ours(content.encode().removeprefix(b"\xef\xbb\xbf")) == git.ignored(content.encode())


PIECES = [
    "a",
    "b",
    "c",
    "foo",
    "bar",
    "x",
    "/",
    "*",
    "**",
    "**/",
    "/**",
    "?",
    "[ab]",
    "[!a]",
    "[a-f]",
    "!",
    "\\",
    " ",
    ".py",
]


@given(lines=st.lists(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), min_size=1, max_size=4))
@settings(max_examples=150, deadline=None)
def test_any_rules_mean_what_git_says(git: Git, lines: list[str]) -> None:
    content = "\n".join(lines).encode()
    assert ours(content) == git.ignored(content)


def test_what_is_always_left_out_can_be_taken_back() -> None:
    rules = Rules([*ALWAYS, "!venv"])
    for path in (".git", "deep/__pycache__", "x.pyc", "node_modules", "a/My.egg-info", ".DS_Store"):
        assert rules.ignored(path, True)
    for path in ("venv", "train.py", "git", "pyc"):
        assert not rules.ignored(path, True)


def test_names_that_are_not_utf8_can_be_ignored_too() -> None:
    assert Rules(["caf*"]).ignored(os.fsdecode(b"caf\xe9"), False)
    assert Rules(["caf?"]).ignored(os.fsdecode(b"caf\xe9"), False)
