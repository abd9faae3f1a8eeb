"""Code out of real git repositories, over every way that git has: the exact commit, its files, and nothing run."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.errors import CodeError
from muster.workdir import git as gits
from muster.workdir import patience
from muster.workdir.git import fetch_git, head_of
from tests.harness import eventually
from tests.needs import needs
from tests.workdir.servers import Repository, Web, repository, web


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without settings; what a test wants as settings it writes into this home."""
    needs("git")
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return home


@pytest.fixture
def made(tmp_path: Path) -> Repository:
    """Three commits: the first is a tag, the second a branch, the third the default branch."""
    made = repository(tmp_path / "repositories" / "made")
    made.commit({"train.py": "print(1)\n", "lib/a.py": ""}, "first")
    made.git("tag", "--annotate", "v1", "--message", "one")
    made.git("branch", "feature/two")
    made.git("checkout", "--quiet", "feature/two")
    made.commit({"train.py": "print(2)\n"}, "second")
    made.git("checkout", "--quiet", "main")
    made.commit({"train.py": "print(3)\n"}, "third")
    return made


@pytest.fixture
def served(tmp_path: Path, made: Repository) -> Iterator[Web]:
    made.git("update-server-info")
    with web(repositories=tmp_path / "repositories", folder=tmp_path / "repositories") as server:
        yield server


WAYS = ["path", "file", "smart http", "dumb http"]


def place_of(way: str, made: Repository, served: Web) -> str:
    return {
        "path": str(made.folder),
        "file": f"file://{made.folder}",
        "smart http": served.url("/git/made"),
        "dumb http": served.url("/made/.git"),
    }[way]


def fetch(place: str, ref: str | None, tmp_path: Path, said: list[str] | None = None) -> tuple[str, Path]:
    scratch = tmp_path / f"scratch-{os.urandom(4).hex()}"
    scratch.mkdir()
    heard: list[str] = [] if said is None else said
    return fetch_git(place, ref, scratch / "code", scratch, heard.append), scratch / "code"


def complaint(place: str, ref: str | None, tmp_path: Path) -> CodeError:
    with pytest.raises(CodeError) as told:
        fetch(place, ref, tmp_path)
    return told.value


@pytest.mark.parametrize("way", WAYS)
def test_a_branch_a_tag_a_commit_and_the_default_are_fetched(
    way: str, made: Repository, served: Web, tmp_path: Path
) -> None:
    place = place_of(way, made, served)
    first, second, third = (made.git("rev-parse", name) for name in ("v1^{commit}", "feature/two", "main"))
    wanted = {None: third, "main": third, "v1": first, "feature/two": second, "refs/heads/main": third}
    wanted |= {first: first, second: second, first[:8]: first}
    for ref, commit in wanted.items():
        found, code = fetch(place, ref, tmp_path)
        assert found == commit, f"{ref} over {way}"
        number = {first: 1, second: 2, third: 3}[commit]
        assert (code / "train.py").read_text() == f"print({number})\n"
        assert sorted(path.name for path in code.iterdir()) == ["lib", "train.py"]


def test_no_more_history_is_fetched_than_is_needed(made: Repository, served: Web, tmp_path: Path) -> None:
    for number in range(20):
        made.commit({"large": str(number) * 100_000})
    fetch(served.url("/git/made"), "main", tmp_path)
    repositories = list(tmp_path.glob("scratch-*/repository"))
    assert len(repositories) == 1
    assert Repository(repositories[0]).git("rev-list", "--count", "FETCH_HEAD") == "1"


def test_a_server_that_gives_only_tips_is_asked_for_all(
    made: Repository, served: Web, tmp_path: Path, alone: Path
) -> None:
    """As the older protocol has it."""
    (alone / ".gitconfig").write_text("[protocol]\n\tversion = 0\n")
    first = made.git("rev-parse", "v1^{commit}")
    made.git("tag", "--delete", "v1")
    made.commit({"train.py": "print(4)\n"})
    assert fetch(served.url("/git/made"), first, tmp_path)[0] == first


def test_a_name_that_is_tag_and_branch_is_the_tag_as_git_has_it(made: Repository, tmp_path: Path) -> None:
    made.git("branch", "v1", "main")
    assert fetch(str(made.folder), "v1", tmp_path)[0] == made.git("rev-parse", "refs/tags/v1^{commit}")


def test_a_branch_that_is_called_like_a_commit_is_found(made: Repository, tmp_path: Path) -> None:
    made.git("branch", "deadbeef", "feature/two")
    assert fetch(str(made.folder), "deadbeef", tmp_path)[0] == made.git("rev-parse", "feature/two")


def test_files_are_what_was_committed(made: Repository, tmp_path: Path) -> None:
    (made.folder / "run.sh").write_text("#!/bin/sh\n")
    (made.folder / "run.sh").chmod(0o755)
    (made.folder / "link").symlink_to("lib/a.py")
    (made.folder / "ünï cödé\t#.py").write_text("")
    commit = made.commit({"dos.txt": "a\r\nb\r\n"})
    (made.folder / "train.py").write_text("not committed")
    (made.folder / "new.py").write_text("not committed")
    found, code = fetch(str(made.folder), None, tmp_path)
    assert found == commit
    assert (code / "train.py").read_text() == "print(3)\n"
    assert (code / "dos.txt").read_bytes() == b"a\r\nb\r\n"
    assert (code / "link").readlink() == Path("lib/a.py")
    assert os.access(code / "run.sh", os.X_OK)
    assert sorted(path.name for path in code.iterdir()) == sorted(
        ["train.py", "lib", "run.sh", "link", "dos.txt", "ünï cödé\t#.py"]
    )


@pytest.mark.parametrize("name", ["with space", "percent%20", "with # hash", "quote'\"$HOME;&", "-dash"])
def test_any_path_of_this_machine_works(name: str, tmp_path: Path) -> None:
    made = repository(tmp_path / name / "repo")
    commit = made.commit({"train.py": name})
    found, code = fetch(str(made.folder), None, tmp_path)
    assert (found, (code / "train.py").read_text()) == (commit, name)


@pytest.mark.parametrize("place", ["ssh://git@far.example:22", "ssh://far.example", "git@far.example:"])
def test_ssh_is_asked_as_git_does_it(
    place: str, made: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a program in place of ssh that does here what it would do there."""
    asked = tmp_path / "asked"
    fake = tmp_path / "ssh"
    fake.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$*" >>{shlex.quote(str(asked))}\n'
        'if (: </dev/tty) 2>/dev/null; then echo "there is a terminal to ask in" >&2; exit 1; fi\n'
        'for last; do :; done\nexec sh -c "$last"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", shlex.quote(str(fake)))
    commit, code = fetch(f"{place}{made.folder}", "v1", tmp_path)
    assert commit == made.git("rev-parse", "v1^{commit}")
    assert (code / "train.py").read_text() == "print(1)\n"
    assert "far.example" in asked.read_text()
    assert f"git-upload-pack '{made.folder}'" in asked.read_text()


# --- nothing of it is run --------------------------------------------------------------------------------------


def test_neither_hooks_nor_filters_are_run(made: Repository, tmp_path: Path, alone: Path) -> None:
    """Of the repository, of the templates and of the settings; each would leave a file behind."""
    ran = tmp_path / "ran"
    ran.mkdir()
    hooks = [made.folder / ".git" / "hooks", alone / "hooks", alone / "template" / "hooks"]
    for number, folder in enumerate(hooks):
        folder.mkdir(parents=True, exist_ok=True)
        for hook in ("post-checkout", "reference-transaction", "post-index-change", "post-merge", "fsmonitor-watchman"):
            (folder / hook).write_text(f"#!/bin/sh\ntouch {shlex.quote(str(ran))}/{number}-{hook}\n")
            (folder / hook).chmod(0o755)
    (alone / ".gitconfig").write_text(
        f"[core]\n\thooksPath = {alone}/hooks\n\tfsmonitor = {alone}/hooks/fsmonitor-watchman\n\tautocrlf = true\n"
        f"[init]\n\ttemplateDir = {alone}/template\n"
        f'[filter "loud"]\n\tsmudge = touch {ran}/smudge && cat\n\tprocess = touch {ran}/process\n\trequired = true\n'
    )
    made.commit({".gitattributes": "*.txt filter=loud\n", "data.txt": "as it is\n"})
    # The commit itself may have run what was there.
    for path in ran.iterdir():
        path.unlink()
    _, code = fetch(str(made.folder), None, tmp_path)
    assert list(ran.iterdir()) == []
    assert (code / "data.txt").read_bytes() == b"as it is\n"


@pytest.mark.parametrize("place", ["--upload-pack=touch ran", "ext::touch ran", "git://127.0.0.1/x", "-c"])
def test_no_place_is_taken_for_an_option_or_a_helper(place: str, tmp_path: Path) -> None:
    """Such places are refused before; git is told so as well."""
    complaint(place, None, tmp_path)
    assert not list(tmp_path.rglob("ran"))


def test_no_reference_is_taken_for_an_option(made: Repository, tmp_path: Path) -> None:
    complaint(str(made.folder), "--upload-pack=touch ran", tmp_path)
    assert not list(tmp_path.rglob("ran"))


def test_what_is_said_of_another_repository_does_not_count(
    made: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a hook of git, which has these variables set."""
    other = repository(tmp_path / "other")
    other.commit({"other.py": ""})
    before = other.git("for-each-ref"), other.git("status", "--porcelain")
    for name, value in {"GIT_DIR": other.folder / ".git", "GIT_WORK_TREE": other.folder}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.folder / ".git" / "index"))
    _, code = fetch(str(made.folder), None, tmp_path)
    assert (code / "train.py").read_text() == "print(3)\n"
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name)
    assert (other.git("for-each-ref"), other.git("status", "--porcelain")) == before


def test_submodules_and_large_files_stay_away_and_it_is_said(made: Repository, tmp_path: Path) -> None:
    inner = repository(tmp_path / "repositories" / "inner")
    inner.commit({"inner.py": ""})
    made.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.folder), "inner")
    made.commit({".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"})
    said: list[str] = []
    _, code = fetch(str(made.folder), None, tmp_path, said)
    assert said == [
        f"{made.folder}: its submodules are not fetched",
        f"{made.folder}: what it keeps in Git LFS is not fetched",
    ]
    assert not list((code / "inner").glob("*"))


def test_a_repository_that_would_fill_the_disk_is_refused(tmp_path: Path) -> None:
    """Ten folders in each folder, ten levels deep: a few hundred bytes that stand for ten thousand million files."""
    made = repository(tmp_path / "bomb")

    def tree(lines: list[str]) -> str:
        words = ["git", "-C", str(made.folder), "mktree"]
        return subprocess.run(words, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True).stdout

    (made.folder / "x").write_text("x")
    blob = made.git("hash-object", "-w", "x")
    inner = tree([f"100644 blob {blob}\t{number}" for number in range(10)])
    for _ in range(9):
        inner = tree([f"040000 tree {inner.strip()}\t{number}" for number in range(10)])
    commit = made.git("commit-tree", inner.strip(), "-m", "boom")
    made.git("update-ref", "refs/heads/main", commit)
    told = complaint(str(made.folder), "main", tmp_path)
    assert "more than 200,000 files" in told.message
    assert not list(tmp_path.glob("scratch-*/code/*"))


def test_more_bytes_than_code_has_are_refused(
    made: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.commit({"large": "x" * 5000})
    monkeypatch.setattr(gits, "LARGEST", 4000)
    told = complaint(str(made.folder), None, tmp_path)
    assert "or than 4KB" in told.message
    assert "inputs" in told.fix


# --- what can go wrong -----------------------------------------------------------------------------------------


def test_a_name_that_is_not_there_is_told_with_the_nearest(made: Repository, served: Web, tmp_path: Path) -> None:
    for place in (str(made.folder), served.url("/git/made"), served.url("/made/.git")):
        told = complaint(place, "feature/tow", tmp_path)
        assert told.message == f"{place} has no branch, tag or commit 'feature/tow'"
        assert told.fix == "Did you mean `feature/two`?"
    assert complaint(str(made.folder), "nothing-like-it", tmp_path).fix == "It has: feature/two, main, v1."


@pytest.mark.parametrize("ref", ["1234567", "a" * 40])
def test_a_commit_that_is_not_there_is_told(ref: str, made: Repository, tmp_path: Path) -> None:
    assert f"has no branch, tag or commit {ref!r}" in complaint(f"file://{made.folder}", ref, tmp_path).message


def test_a_tag_of_something_else_is_told(made: Repository, tmp_path: Path) -> None:
    made.git("tag", "blob", "main:train.py")
    assert "'blob' of" in complaint(str(made.folder), "blob", tmp_path).message


def test_a_repository_without_a_commit_is_told(tmp_path: Path) -> None:
    empty = repository(tmp_path / "empty")
    assert complaint(str(empty.folder), None, tmp_path).message == f"{empty.folder} has no commit yet"


def test_a_place_without_a_repository_is_told(made: Repository, served: Web, tmp_path: Path) -> None:
    told = complaint(str(tmp_path / "nowhere"), None, tmp_path)
    assert f"git cannot fetch {tmp_path / 'nowhere'}: '{tmp_path / 'nowhere'}' does not appear to be" in told.message
    told = complaint(served.url("/git/none"), None, tmp_path)
    assert f"repository '{served.url('/git/none')}/' not found" in told.message
    assert told.fix == f"`git ls-remote {served.url('/git/none')}` asks the same."


def test_a_host_that_refuses_is_told(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        told = complaint(f"http://127.0.0.1:{taken.getsockname()[1]}/x.git", None, tmp_path)
    assert "unable to access" in told.message


def test_nobody_is_asked_for_a_password(
    made: Repository, served: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in a terminal, not in a window: it fails at once, and says who can give the login."""
    asked = tmp_path / "asked"
    (tmp_path / "askpass").write_text(f"#!/bin/sh\ntouch {asked}\nsleep 60\n")
    (tmp_path / "askpass").chmod(0o755)
    monkeypatch.setenv("SSH_ASKPASS", str(tmp_path / "askpass"))
    monkeypatch.setenv("DISPLAY", ":0")
    served.password = "hunter2"
    told = complaint(served.url("/git/made"), None, tmp_path)
    assert "could not read Username" in told.message
    assert "credential helper" in told.fix
    assert not asked.exists()


def test_a_credential_helper_gives_the_login_and_it_is_shown_nowhere(
    made: Repository, served: Web, tmp_path: Path, alone: Path
) -> None:
    served.password = "hunter2"
    helper = "!f() { echo username=ada; echo password=hunter2; }; f"
    (alone / ".gitconfig").write_text(f'[credential]\n\thelper = "{helper}"\n')
    said: list[str] = []
    commit, code = fetch(served.url("/git/made"), "main", tmp_path, said)
    assert commit == made.git("rev-parse", "main")
    told = complaint(served.url("/git/made"), "mian", tmp_path)
    kept = [path for path in code.parent.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    assert kept == []
    assert "hunter2" not in f"{said} {told}"


def test_a_wrong_login_is_told_without_it(made: Repository, served: Web, tmp_path: Path, alone: Path) -> None:
    served.password = "hunter2"
    port = served.url("/").rpartition(":")[2]
    # Git puts what stands here in front of each URL, and would show it in its words.
    (alone / ".gitconfig").write_text(f'[url "http://ada:hunter3@127.0.0.1:{port}"]\n\tinsteadOf = {served.url("/")}\n')
    told = complaint(served.url("/git/made"), None, tmp_path)
    assert "uthentication failed" in told.message
    assert "hunter" not in str(told)


def test_what_takes_time_is_told_with_how_far_it_is(
    made: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: Path
) -> None:
    monkeypatch.setattr(patience, "_QUIET", 0.0)
    monkeypatch.setattr(gits, "_LOOK", 0.01)
    said: list[str] = []
    fetch(str(made.folder), None, tmp_path, said)
    assert len(said) == 1
    assert said[0].partition(": ")[0] == f"fetching {made.folder}"


def test_a_fetch_that_takes_too_long_is_ended_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that takes the connection and says nothing more."""
    monkeypatch.setattr(gits, "_LONGEST", 0.5)
    monkeypatch.setenv("OF_THIS_TEST", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        told = complaint(f"http://127.0.0.1:{silent.getsockname()[1]}/x.git", None, tmp_path)
    assert "has not been fetched within 0.5 s" in told.message
    eventually(lambda: not _of_this_test(tmp_path))


def _of_this_test(tmp_path: Path) -> list[Path]:
    others = [path for path in Path("/proc").glob("[0-9]*/environ") if path.parent.name != str(os.getpid())]
    return [path for path in others if f"OF_THIS_TEST={tmp_path}".encode() in _content(path)]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_the_commit_of_a_clone_is_known(made: Repository, tmp_path: Path) -> None:
    assert head_of(made.folder) == made.git("rev-parse", "HEAD")
    assert head_of(tmp_path) is None


def test_a_machine_without_git_is_told(made: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "this machine has no git" in complaint(str(made.folder), None, tmp_path).message
