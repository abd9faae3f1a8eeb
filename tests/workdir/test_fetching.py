"""Code from elsewhere on this machine: for a launcher as a folder that goes away, for a node at its place."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.errors import CodeError
from muster.workdir import opening
from muster.workdir.bucket_code import pinned
from muster.workdir.fetching import Fetched, check_fetchable, fetch_to, fetched
from muster.workdir.memory import MemoryStore
from muster.workdir.scan import scan
from tests.needs import needs
from tests.workdir.servers import Repository, Web, repository, web


def zip_of(files: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as writing:
        for name, content in files.items():
            writing.writestr(name, content)
    return out.getvalue()


def tar_gz_of(files: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as writing:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            writing.addfile(entry, io.BytesIO(content.encode()))
    return gzip.compress(out.getvalue(), mtime=0)


CODE = {"train.py": "print('well')\n", "lib/a.py": ""}
BELOW_ONE = {f"name-3f2c1a9/{path}": content for path, content in CODE.items()}
MAC = {"__MACOSX/._train.py": "", ".DS_Store": ""}


@pytest.fixture
def served() -> Iterator[Web]:
    with web() as server:
        yield server


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    needs("git")
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    made = repository(tmp_path / "repositories" / "made")
    made.commit(CODE)
    return made


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's folder for what is temporary; at the end nothing may be left in it."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def quiet(_text: str) -> None:
    pass


def files_of(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def brought(code: str, entry: str | None, temporary: Path) -> tuple[dict[str, str], Fetched]:
    with fetched(code, entry, quiet) as got:
        files = files_of(got.folder)
    assert list(temporary.iterdir()) == []
    return files, got


def complaint(code: str, entry: str | None, temporary: Path) -> CodeError:
    with pytest.raises(CodeError) as told, fetched(code, entry, quiet):
        pass
    assert list(temporary.iterdir()) == []
    return told.value


# --- for a launcher --------------------------------------------------------------------------------------------


def test_git_gives_files_and_the_exact_commit(made: Repository, temporary: Path) -> None:
    files, got = brought(f"git+file://{made.folder}#main", "train.py", temporary)
    commit = made.git("rev-parse", "main")
    assert files == CODE
    assert (got.source, got.mark) == (f"git+file://{made.folder}#{commit}", commit)


def test_a_source_that_was_fetched_gives_the_same_again(made: Repository, served: Web, temporary: Path) -> None:
    served.answers["/code.zip"] = zip_of(CODE)
    for code in (f"git+{made.folder}#main", served.url("/code.zip")):
        _, first = brought(code, None, temporary)
        made.commit({"train.py": "later\n"})
        files, second = brought(first.source, None, temporary)
        assert second == first._replace(folder=second.folder)
        assert files == CODE


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("code.zip", zip_of(CODE)),
        ("code.tar.gz", tar_gz_of(CODE)),
        ("code.tgz", tar_gz_of(BELOW_ONE)),
        ("archive/v1.zip", zip_of(BELOW_ONE)),
        ("mac.zip", zip_of({**BELOW_ONE, **MAC})),
    ],
)
def test_an_archive_gives_its_files_and_its_checksum(
    name: str, content: bytes, served: Web, temporary: Path, tmp_path: Path
) -> None:
    served.answers[f"/{name}"] = content
    files, got = brought(served.url(f"/{name}"), "train.py", temporary)
    digest = hashlib.sha256(content).hexdigest()
    assert files == CODE
    assert (got.source, got.mark) == (f"{served.url(f'/{name}')}#sha256={digest}", digest)
    (tmp_path / "kept").mkdir()
    path = tmp_path / "kept" / name.replace("/", "-")
    path.write_bytes(content)
    assert brought(str(path), "train.py", temporary)[0] == CODE


def test_an_entry_that_is_found_at_the_top_keeps_the_top(served: Web, temporary: Path) -> None:
    served.answers["/code.zip"] = zip_of(BELOW_ONE)
    assert brought(served.url("/code.zip"), "name-3f2c1a9/train.py", temporary)[0] == BELOW_ONE


def test_without_an_entry_the_one_folder_is_the_code_unless_it_is_a_package(served: Web, temporary: Path) -> None:
    package = {"package/__init__.py": "", "package/a.py": ""}
    served.answers |= {"/one.zip": zip_of(BELOW_ONE), "/package.zip": zip_of(package)}
    assert brought(served.url("/one.zip"), None, temporary)[0] == CODE
    assert brought(served.url("/package.zip"), None, temporary)[0] == package


def test_one_script_is_the_code(served: Web, temporary: Path) -> None:
    served.answers["/a/train.py"] = b"print(1)\n"
    files, got = brought(served.url("/a/train.py?raw=1"), "train.py", temporary)
    assert files == {"train.py": "print(1)\n"}
    assert got.source.startswith(served.url("/a/train.py?raw=1#sha256="))


def test_a_page_for_a_script_is_told(served: Web, temporary: Path) -> None:
    served.answers["/train.py"] = b"<!doctype html><title>Sign in</title>"
    assert "is a web page, not a script" in complaint(served.url("/train.py"), "train.py", temporary).message


def test_a_checksum_is_kept_to(served: Web, temporary: Path) -> None:
    content = zip_of(CODE)
    served.answers["/code.zip"] = content
    digest = hashlib.sha256(content).hexdigest()
    assert brought(f"{served.url('/code.zip')}#sha256={digest.upper()}", "train.py", temporary)[0] == CODE
    told = complaint(f"{served.url('/code.zip')}#sha256={'0' * 64}", "train.py", temporary)
    assert f"its sha256 is {digest}" in told.message


@pytest.mark.parametrize(
    ("entry", "fix"),
    [
        ("trian.py", "Did you mean `train.py`?"),
        ("src/train.py", "Did you mean `train.py`?"),
        ("a.py", "Did you mean `lib/a.py`?"),
        ("lib", "It has: lib/a.py, train.py."),
        ("zzz", "It has: "),
    ],
)
def test_an_entry_that_is_not_there_is_told_with_what_is(
    entry: str, fix: str, made: Repository, served: Web, temporary: Path
) -> None:
    served.answers["/code.zip"] = zip_of(CODE)
    for code in (f"git+{made.folder}", served.url("/code.zip")):
        told = complaint(code, entry, temporary)
        assert told.message == f"entry: there is no {entry!r} in {code}"
        assert told.fix.startswith(fix)


def test_whatever_fails_leaves_nothing(served: Web, made: Repository, temporary: Path, tmp_path: Path) -> None:
    served.answers |= {"/text.zip": b"no archive", "/out.zip": zip_of({"../x": "1"})}
    for code in (
        served.url("/none.zip"),
        served.url("/text.zip"),
        served.url("/out.zip"),
        f"git+{tmp_path}/nowhere",
        f"git+{made.folder}#nothing",
        f"{tmp_path}/none.zip",
    ):
        complaint(code, None, temporary)


def test_a_damaged_archive_of_this_machine_is_named_by_its_path(tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "code.tar.gz").write_bytes(tar_gz_of(CODE)[:-10])
    told = complaint(f"{tmp_path}/code.tar.gz", None, temporary)
    assert told.message.startswith(f"{tmp_path}/code.tar.gz is no whole zip or tar archive")


# --- buckets ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["s3", "oci", "gs", "az"])
def test_a_bucket_whose_package_is_missing_is_told_before_anything_is_fetched(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(opening.KINDS, scheme, opening.Kind("no_such_package:open", "pip install it."))
    with pytest.raises(CodeError, match=f"code: cannot open {scheme}://bucket/code.zip") as told:
        check_fetchable(f"{scheme}://bucket/code.zip")
    assert told.value.fix == "pip install it."


def test_an_archive_in_a_bucket_comes_through_its_store(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(opening.KINDS, "s3", opening.Kind("muster.workdir.opening:open_memory"))
    MemoryStore.named("bucket/folder").put("code.zip", zip_of(BELOW_ONE))
    check_fetchable("s3://bucket/folder/code.zip")
    files, got = brought("s3://bucket/folder/code.zip", "train.py", temporary)
    assert files == CODE
    assert got.source == "s3://bucket/folder/code.zip"


def test_a_folder_in_a_bucket_is_code_by_both_of_its_names(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(opening.KINDS, "s3", opening.Kind("muster.workdir.opening:open_memory"))
    for path, content in CODE.items():
        MemoryStore.named("bucket/more/code").put(path, content.encode())
    assert brought("s3://bucket/more/code", "train.py", temporary)[0] == CODE
    named, _ = brought("s3://bucket/more/code", "code/train.py", temporary)
    assert named == {f"code/{path}": content for path, content in CODE.items()}


def test_code_in_a_bucket_that_changed_since_the_launch_is_refused(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(opening.KINDS, "s3", opening.Kind("muster.workdir.opening:open_memory"))
    store = MemoryStore.named("bucket/pinned")
    store.put("code.zip", zip_of(CODE))
    code, files, size = pinned("s3://bucket/pinned/code.zip")
    assert (files, size) == (1, len(zip_of(CODE)))
    assert brought(code, "train.py", temporary)[0] == CODE
    store.put("code.zip", zip_of({**CODE, "train.py": "print('other')"}))
    assert "is not what it was when the run was launched" in complaint(code, "train.py", temporary).message


def test_nothing_in_a_bucket_is_told(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(opening.KINDS, "s3", opening.Kind("muster.workdir.opening:open_memory"))
    told = complaint("s3://bucket/nowhere/code.zip", None, temporary)
    assert told.message == "code: there is nothing at s3://bucket/nowhere/code.zip"


def test_what_can_be_fetched_is_not_asked_for_yet(served: Web, made: Repository) -> None:
    for code in (served.url("/none.zip"), f"git+{made.folder}", "/nowhere/code.zip", "/a/folder"):
        check_fetchable(code)
    assert served.asked == []


# --- at a node's place -----------------------------------------------------------------------------------------

MARK = ".muster-code"


def code_at(place: Path) -> dict[str, str]:
    return {path: content for path, content in files_of(place).items() if path != MARK}


def test_a_new_place_is_made_whole(made: Repository, tmp_path: Path) -> None:
    place = tmp_path / "deep" / "code"
    fetch_to(f"git+{made.folder}#main", "train.py", place, quiet)
    assert code_at(place) == CODE
    assert (place / MARK).read_text().split()[0] == made.git("rev-parse", "main")
    assert [path.name for path in place.parent.iterdir()] == ["code"]


def test_an_empty_place_is_filled(made: Repository, tmp_path: Path) -> None:
    place = tmp_path / "code"
    place.mkdir()
    before = place.stat().st_ino
    fetch_to(f"git+{made.folder}", "train.py", place, quiet)
    assert code_at(place) == CODE
    assert place.stat().st_ino == before
    assert not list(place.glob("*.part"))


@pytest.mark.parametrize("exists", [False, True])
def test_a_place_where_fetching_fails_stays_as_it_was(exists: bool, made: Repository, tmp_path: Path) -> None:
    place = tmp_path / "code"
    if exists:
        place.mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CodeError):
        fetch_to(f"git+{made.folder}", "none.py", place, quiet)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_place_that_has_the_commit_is_used_without_a_question(made: Repository, tmp_path: Path, served: Web) -> None:
    served.repositories = tmp_path / "repositories"
    code = f"git+{served.url('/git/made')}#{made.git('rev-parse', 'main')}"
    place = tmp_path / "code"
    fetch_to(code, "train.py", place, quiet)
    (place / "outputs").mkdir()
    (place / "outputs" / "model").write_text("learnt")
    served.asked.clear()
    fetch_to(code, "train.py", place, quiet)
    assert served.asked == []
    assert (place / "outputs" / "model").read_text() == "learnt"


def test_a_place_that_has_what_the_branch_is_now_is_used(made: Repository, tmp_path: Path) -> None:
    place = tmp_path / "code"
    code = f"git+{made.folder}#main"
    fetch_to(code, "train.py", place, quiet)
    fetch_to(code, "train.py", place, quiet)
    made.commit({"train.py": "newer"})
    with pytest.raises(CodeError, match=rf"{place} holds something already, and it is not") as told:
        fetch_to(code, "train.py", place, quiet)
    assert "CODE_DIR" in told.value.fix
    assert code_at(place) == CODE


def test_a_clone_that_stands_at_the_commit_is_used(made: Repository, tmp_path: Path) -> None:
    subprocess.run(["git", "clone", "--quiet", made.folder, tmp_path / "clone"], check=True)
    (tmp_path / "clone" / "mine").write_text("kept")
    fetch_to(f"git+{made.folder}#main", "train.py", tmp_path / "clone", quiet)
    assert (tmp_path / "clone" / "mine").read_text() == "kept"
    with pytest.raises(CodeError, match=r"entry: there is no 'none.py'"):
        fetch_to(f"git+{made.folder}#{made.git('rev-parse', 'main')}", "none.py", tmp_path / "clone", quiet)


def test_a_folder_of_somebody_is_never_overwritten(made: Repository, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "train.py").write_text("mine")
    with pytest.raises(CodeError, match="holds something already"):
        fetch_to(f"git+{made.folder}", "train.py", tmp_path / "mine", quiet)
    assert files_of(tmp_path / "mine") == {"train.py": "mine"}


def test_a_file_in_its_place_is_told(made: Repository, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(CodeError, match=r"cannot lay out the code at .*: Not a directory"):
        fetch_to(f"git+{made.folder}", "train.py", tmp_path / "file", quiet)


def test_what_a_killed_node_left_is_taken_away(made: Repository, tmp_path: Path) -> None:
    place = tmp_path / "code"
    (place / ".muster-0123456789abcdef.part" / "code").mkdir(parents=True)
    fetch_to(f"git+{made.folder}", "train.py", place, quiet)
    assert code_at(place) == CODE


TOGETHER = """
import sys
from pathlib import Path
from muster.workdir.bucket_code import pinned
from muster.workdir.fetching import fetch_to
fetch_to(sys.argv[1], "train.py", Path(sys.argv[2]), lambda text: None)
print(Path(sys.argv[2], "train.py").read_text(), end="")
"""


@pytest.mark.parametrize("exists", [False, True])
def test_nodes_of_one_machine_may_share_a_place(exists: bool, made: Repository, tmp_path: Path) -> None:
    place = tmp_path / "shared" / "code"
    place.mkdir(parents=True) if exists else None
    words = [sys.executable, "-c", TOGETHER, f"git+{made.folder}#main", str(place)]
    nodes = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    for node in nodes:
        assert node.communicate(timeout=120) == (CODE["train.py"], "")
    assert code_at(place) == CODE
    assert [path.name for path in place.parent.iterdir()] == ["code"]


def test_a_folder_is_copied_and_may_be_named_in_the_entry(tmp_path: Path) -> None:
    """As ADS does it with a folder that it is given: the script is named with the folder in front."""
    source = tmp_path / "source_code"
    for path, content in CODE.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_text(content)
    fetch_to(str(source), "train.py", tmp_path / "plain", quiet)
    fetch_to(str(source), "source_code/train.py", tmp_path / "named", quiet)
    fetch_to(str(source), "source_code/train.py", tmp_path / "named", quiet)
    assert code_at(tmp_path / "plain") == CODE
    assert code_at(tmp_path / "named" / "source_code") == CODE
    assert scan(source).digest in (tmp_path / "plain" / MARK).read_text()


def test_one_file_is_copied(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)\n")
    fetch_to(str(tmp_path / "train.py"), "train.py", tmp_path / "code", quiet)
    assert code_at(tmp_path / "code") == {"train.py": "print(1)\n"}
