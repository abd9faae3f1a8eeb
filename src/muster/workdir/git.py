"""Code out of a git repository, by the git of this machine.

Git asks the other side with its user's own settings, because the login is among them. It lays the files out with no
settings at all, so that neither hooks nor filters run. No shell sees a name, and nobody is asked for a password.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from ..errors import CodeError
from ..spec.problems import nearest
from ..spec.sources import without_login
from ..spec.units import size_text
from .archives import LARGEST, MOST_FILES
from .patience import Patience, Say

_LONGEST = 1800.0
"""Seconds for one call: a server that says nothing must not hold a launch for ever."""
_LOOK = 0.25
_FOREIGN = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_NAMESPACE", "GIT_PREFIX"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE"),
    *("GIT_REPLACE_REF_BASE", "GIT_TEMPLATE_DIR", "GIT_TRACE", "GIT_TRACE_CURL", "SSH_ASKPASS"),
)
"""Variables of a repository that Muster may be started from, as in a hook; and what tells too much, or asks."""
_ASKS_NOBODY = {
    "GIT_TERMINAL_PROMPT": "0",
    "GCM_INTERACTIVE": "never",
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_ALLOW_PROTOCOL": "https:http:ssh:file",
    "LC_ALL": "C",
    "LANGUAGE": "",
}
_SETTINGS = (
    *("core.hooksPath=/dev/null", "core.fsmonitor=false", "submodule.recurse=false"),
    *("gc.auto=0", "maintenance.auto=false", "http.lowSpeedLimit=1", "http.lowSpeedTime=60"),
)
_COMMIT = re.compile(r"[0-9a-fA-F]{4,40}")
"""May be a commit, also in short; or a branch that is called so."""
_NO_DEPTH = ("shallow", "dumb http")
_NOT_GIVEN = ("remote ref", "not our ref", "unadvertised object", "no such ref")
_NO_LOGIN = ("uthentication failed", "could not read", "ermission denied", "Host key verification", "terminal prompts")


class _Said(NamedTuple):
    code: int
    out: str
    err: str


def check_git() -> None:
    """An error where this machine has no git."""
    if not shutil.which("git"):
        raise CodeError("this machine has no git, which code from git needs", "Install git, or give an archive.")


def fetch_git(place: str, ref: str | None, into: Path, scratch: Path, say: Say) -> str:
    """Lays out the files of a commit, branch or tag as a new folder, without any history, and says the commit.

    Submodules, and what Git LFS keeps elsewhere, are not fetched; `say` tells so.
    """
    fetching = _Fetching(place, ref, scratch, say)
    fetching.call("init", "--quiet", "--template=", str(scratch / "repository"))
    commit = fetching.commit()
    fetching.check_size(commit)
    into.mkdir()
    fetching.lay_out(commit, into)
    if (into / ".gitmodules").is_file():
        say(f"{fetching.shown}: its submodules are not fetched")
    attributes = into / ".gitattributes"
    if attributes.is_file() and not attributes.is_symlink() and b"filter=lfs" in attributes.read_bytes():
        say(f"{fetching.shown}: what it keeps in Git LFS is not fetched")
    return commit


def head_of(folder: Path) -> str | None:
    """The commit that a folder stands at; None if it is no work tree of git."""
    if not (folder / ".git").exists() or not shutil.which("git"):
        return None
    look = ["git", "-C", str(folder), "rev-parse", "--verify", "HEAD"]
    said = subprocess.run(look, capture_output=True, text=True, env=_user_environment(), check=False)
    return said.stdout.strip() if said.returncode == 0 else None


def _user_environment() -> dict[str, str]:
    return {**{name: value for name, value in os.environ.items() if name not in _FOREIGN}, **_ASKS_NOBODY}


class _Fetching:
    """One repository on its way into a scratch folder."""

    def __init__(self, place: str, ref: str | None, scratch: Path, say: Say) -> None:
        check_git()
        self.shown = without_login(place)
        self._place, self._ref, self._scratch = place, ref, scratch
        self._patience = Patience(say, f"fetching {self.shown}")
        self._mine = {"GIT_DIR": str(scratch / "repository" / ".git")}
        self._user = {**_user_environment(), **self._mine}
        self._bare = {
            **{name: value for name, value in self._user.items() if not name.startswith("GIT_CONFIG")},
            "HOME": str(scratch),
            "XDG_CONFIG_HOME": str(scratch),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ATTR_NOSYSTEM": "1",
        }

    def commit(self) -> str:
        """Fetches what is wanted, with as little history as the other side can do, and says which commit it is."""
        wanted = self._ref or "HEAD"
        said = self._fetch("--depth=1", wanted)
        if said.code and any(words in said.err for words in _NO_DEPTH):
            said = self._fetch("--no-tags", wanted)
        if said.code == 0:
            return self._commit_of("FETCH_HEAD")
        if not any(words in said.err for words in _NOT_GIVEN):
            raise self._failed(said)
        if not _COMMIT.fullmatch(wanted):
            raise self._unknown(wanted)
        said = self._fetch("--no-tags", "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
        if said.code:
            raise self._failed(said)
        if self._say("rev-parse", "--verify", "--quiet", f"{wanted}^{{object}}").code:
            raise self._unknown(wanted)
        return self._commit_of(wanted)

    def _fetch(self, how: str, *what: str) -> _Said:
        words = ("fetch", "--progress", "--no-recurse-submodules", "--update-head-ok", how, "--", self._place, *what)
        return self._run(words, self._user)

    def _commit_of(self, name: str) -> str:
        said = self._say("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        if said.code:
            raise CodeError(f"{self._ref!r} of {self.shown} is no commit", "Name a commit, a branch or a tag.")
        return said.out.strip()

    def check_size(self, commit: str) -> None:
        """An error for more than code can be: a few trees that repeat each other can stand for any number of files."""
        # Counted before they are weighed, which takes git a look at each.
        self._check_tree(commit)
        self._check_tree(commit, "--long")

    def _check_tree(self, commit: str, *how: str) -> None:
        files = size = 0
        rest = b""
        argv = self._argv(("ls-tree", "-r", "-z", *how, commit))
        with subprocess.Popen(argv, env=self._bare, cwd=self._scratch, stdout=subprocess.PIPE) as tree:
            while tree.stdout and (chunk := tree.stdout.read(1 << 16)):
                *lines, rest = (rest + chunk).split(b"\0")
                files += len(lines)
                if how:
                    sizes = (line.split(b"\t", 1)[0].split()[-1] for line in lines)
                    size += sum(int(text) for text in sizes if text.isdigit())
                if files > MOST_FILES or size > LARGEST:
                    tree.kill()
                    raise CodeError(
                        f"{self.shown} has more than {MOST_FILES:,} files, or than {size_text(LARGEST)}",
                        "Bring data along as `inputs` of the job.",
                    )

    def lay_out(self, commit: str, into: Path) -> None:
        self.call("read-tree", commit, tree=into)
        self.call("checkout-index", "--all", "--force", "--quiet", tree=into)

    def call(self, *words: str, tree: Path | None = None) -> None:
        """Does something on this side, without its user's settings."""
        env = {**self._bare, "GIT_WORK_TREE": str(tree)} if tree else self._bare
        said = self._run(words, env, tree)
        if said.code:
            raise CodeError(f"git {words[0]} failed on {self.shown}: {_last_words(said.err)}")

    def _say(self, *words: str) -> _Said:
        return self._run(words, self._bare)

    def _run(self, words: tuple[str, ...], env: dict[str, str], cwd: Path | None = None) -> _Said:
        """Runs git to its end. In a session of its own it has no terminal, so that ssh cannot ask there either."""
        out, err = self._scratch / "out", self._scratch / "err"
        until = time.monotonic() + _LONGEST
        with out.open("wb") as output, err.open("wb") as errors:
            process = subprocess.Popen(
                self._argv(words),
                cwd=cwd or self._scratch,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
        try:
            while True:
                try:
                    code = process.wait(_LOOK)
                    break
                except subprocess.TimeoutExpired:
                    self._patience.look(_progress(err))
                if time.monotonic() > until:
                    raise CodeError(f"{self.shown} has not been fetched within {_LONGEST:g} s")
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return _Said(code, out.read_text(errors="replace"), err.read_text(errors="replace"))

    def _argv(self, words: tuple[str, ...]) -> list[str]:
        return ["git", *(word for setting in _SETTINGS for word in ("-c", setting)), *words]

    def _failed(self, said: _Said) -> CodeError:
        command = f"git ls-remote {shlex.quote(self.shown)}"
        if any(words in said.err for words in _NO_LOGIN):
            fix = f"Give git the login, in a credential helper or as an ssh key, until `{command}` asks for none."
        else:
            fix = f"`{command}` asks the same."
        return CodeError(f"git cannot fetch {self.shown}: {_last_words(said.err)}", fix)

    def _unknown(self, wanted: str) -> CodeError:
        if self._ref is None:
            return CodeError(f"{self.shown} has no commit yet", "Push one, or name a branch.")
        listed = self._run(("ls-remote", "--heads", "--tags", "--refs", "--", self._place), self._user)
        names = [line.partition("\t")[2].split("/", 2)[-1] for line in listed.out.splitlines()]
        guess = nearest(wanted, names)
        fix = f"Did you mean `{guess}`?" if guess else f"It has: {', '.join(names[:10]) or 'none'}."
        return CodeError(f"{self.shown} has no branch, tag or commit {wanted!r}", fix)


def _progress(err: Path) -> str:
    """The last thing that git said of how far it is."""
    with err.open("rb") as file:
        file.seek(max(0, err.stat().st_size - 400))
        said = re.split(r"[\r\n]", file.read().decode(errors="replace").strip())[-1].strip()
    return said.removeprefix("remote: ") if "%" in said else ""


def _last_words(err: str) -> str:
    """What git died of, without the progress before it."""
    lines = [line.strip() for line in re.split(r"[\r\n]", without_login(err)) if line.strip()]
    told = [line for line in lines if re.match(r"(?:fatal|error|remote|ERROR|ssh):? ", line)]
    deadly = [re.sub(r"^(?:fatal|error): ", "", line) for line in told if line.startswith(("fatal: ", "error: "))]
    return (deadly or told or lines or ["it did not say why"])[0]
