"""Nodes that no launcher gave their code to: each fetches it by itself, as the variables of ADS say."""

from __future__ import annotations

import io
import json
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.errors import NodeError
from muster.spec.environment import read_environment
from tests.harness import Muster
from tests.needs import needs
from tests.node.hands import HERE, ended, read_json, record_of, result_of, texts_of
from tests.workdir.servers import Repository, Web, repository, web

SCRIPT = "import os, helper, inner\nprint(helper.NAME, inner.NAME, os.environ['RANK'], flush=True)\n"
CODE = {"train.py": SCRIPT, "helper.py": "NAME = 'first'\n", "src/inner.py": "NAME = 'inner'\n"}
RUN = "ocid1.datasciencejob.oc1..aaa"


@pytest.fixture
def made(tmp_path: Path) -> Repository:
    needs("git")
    made = repository(tmp_path / "repositories" / "made")
    made.commit(CODE)
    made.git("branch", "release")
    made.commit({"helper.py": "NAME = 'second'\n"})
    return made


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Web]:
    with web(repositories=tmp_path / "repositories") as server:
        yield server


def node(muster: Muster, mode: str = "MAIN", prefix: str = "OCI__", **more: str) -> subprocess.Popen[str]:
    """A node as ADS starts it; `more` has the prefix in front."""
    own = {
        "WORK_DIR": str(muster.runs),
        "CLUSTER_TYPE": "PLAIN",
        "MODE": mode,
        "WORKER_COUNT": "0",
        "ENTRY_SCRIPT": "train.py",
        "RUNTIME_PYTHON_PATH": "src",
        **more,
    }
    spelled = {f"{prefix}{name}": value for name, value in own.items()}
    return muster.start("node", **{**HERE, "JOB_OCID": RUN, **spelled})


def zipped(files: dict[str, str], below: str = "") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as writing:
        for name, content in files.items():
            writing.writestr(below + name, content)
    return out.getvalue()


@pytest.mark.parametrize("prefix", ["OCI__", "MUSTER_", ""])
def test_every_node_fetches_the_commit_by_itself(muster: Muster, made: Repository, served: Web, prefix: str) -> None:
    """A commit says more than its branch, which has moved on."""
    commit = made.git("rev-parse", "release")
    where = {"RUNTIME_URI": served.url("/git/made"), "RUNTIME_GIT_COMMIT": commit, "RUNTIME_GIT_BRANCH": "main"}
    nodes = [node(muster, mode, prefix, RUNTIME_TYPE="git", WORKER_COUNT="1", **where) for mode in ("MAIN", "WORKER")]
    assert ended(*nodes) == [0, 0], [one.communicate() for one in nodes]
    assert sorted(texts_of(muster, RUN)) == ["first inner 0", "first inner 1"]
    assert sum("info/refs" in path for path in served.asked) == 2
    assert read_json(muster.runs / RUN / "job.json")["job"]["code"] == f"git+{served.url('/git/made')}#{commit}"


@pytest.mark.parametrize(("branch", "name"), [("release", "first"), ("", "second")])
def test_a_branch_and_the_default_branch_are_fetched(muster: Muster, made: Repository, branch: str, name: str) -> None:
    main = node(muster, RUNTIME_TYPE="git", RUNTIME_URI=str(made.folder), RUNTIME_GIT_BRANCH=branch)
    assert ended(main) == [0], main.communicate()
    assert texts_of(muster, RUN) == [f"{name} inner 0"]
    commit = made.git("rev-parse", branch or "main")
    assert f"fetched git+{made.folder}#{commit}" in texts_of(muster, RUN, "note")


@pytest.mark.parametrize("below", ["", "made-3f2c1a9/"])
def test_an_archive_is_fetched(muster: Muster, served: Web, below: str) -> None:
    served.answers["/code.zip"] = zipped(CODE, below)
    main = node(muster, RUNTIME_TYPE="remote", RUNTIME_URI=served.url("/code.zip"))
    assert ended(main) == [0], main.communicate()
    assert texts_of(muster, RUN) == ["first inner 0"]


def test_a_folder_that_all_machines_have_is_copied_and_named_in_the_entry(muster: Muster, tmp_path: Path) -> None:
    source = tmp_path / "share" / "source_code"
    for path, content in CODE.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_text(content)
    main = node(
        muster,
        RUNTIME_TYPE="remote",
        RUNTIME_URI=f"file://{source}",
        ENTRY_SCRIPT="source_code/train.py",
        RUNTIME_PYTHON_PATH="source_code/src",
    )
    assert ended(main) == [0], main.communicate()
    assert texts_of(muster, RUN) == ["first inner 0"]
    assert not (source / "outputs").exists()


@pytest.mark.parametrize("absolute", [False, True])
def test_code_dir_says_where_and_nodes_of_one_machine_may_share_it(
    muster: Muster, made: Repository, tmp_path: Path, absolute: bool
) -> None:
    place = tmp_path / "laid" / "out"
    where = {
        "RUNTIME_URI": str(made.folder),
        "RUNTIME_GIT_BRANCH": "release",
        "CODE_DIR": str(place),
        "ENTRY_SCRIPT": f"{place}/train.py" if absolute else "train.py",
    }
    nodes = [node(muster, mode, RUNTIME_TYPE="git", WORKER_COUNT="1", **where) for mode in ("MAIN", "WORKER")]
    assert ended(*nodes) == [0, 0], [one.communicate() for one in nodes]
    assert sorted(texts_of(muster, RUN)) == ["first inner 0", "first inner 1"]
    assert (place / "train.py").read_text() == SCRIPT


def test_a_code_dir_with_something_else_in_it_is_left_alone(muster: Muster, made: Repository, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "train.py").write_text("mine")
    main = node(muster, RUNTIME_TYPE="git", RUNTIME_URI=str(made.folder), CODE_DIR=str(tmp_path / "mine"))
    assert ended(main) != [0]
    assert f"{tmp_path / 'mine'} holds something already" in str(record_of(muster, RUN, "main"))
    assert (tmp_path / "mine" / "train.py").read_text() == "mine"


def test_code_that_cannot_be_fetched_ends_the_run_with_the_reason(muster: Muster, made: Repository) -> None:
    main = node(muster, RUNTIME_TYPE="git", RUNTIME_URI=str(made.folder), RUNTIME_GIT_BRANCH="relaese")
    assert ended(main) != [0]
    told = json.dumps(result_of(muster, RUN))
    assert "has no branch, tag or commit 'relaese'" in told
    assert "Did you mean `release`?" in told


def test_a_node_can_be_stopped_while_it_fetches(muster: Muster, served: Web) -> None:
    over = threading.Event()

    def never(handler: Any) -> None:
        over.wait(60)
        handler.close_connection = True

    served.answers |= {"/code.zip": never, "/x.git/info/refs": never}
    try:
        for number, (kind, path) in enumerate((("remote", "/code.zip"), ("git", "/x.git"))):
            asked, run = len(served.asked), f"run-{number}"
            main = node(muster, RUNTIME_TYPE=kind, RUNTIME_URI=served.url(path), RUN_ID=run, prefix="MUSTER_")
            served.wait_for(asked + 1)
            muster("stop", run, "--work-dir", muster.runs, check=None)
            assert main.wait(60) == 130, main.communicate()
    finally:
        over.set()


# --- what the variables may say --------------------------------------------------------------------------------

BARE = {"WORK_DIR": "/mnt/runs", "CLUSTER_TYPE": "dask", "MODE": "WORKER", "MUSTER_RUN_ID": "mnist-1"}


def code_and_place(**more: str) -> tuple[str | None, str, str | None]:
    place, job = read_environment({**BARE, **more})
    return job.code, place.code_dir, job.entry


def complaint(**more: str) -> str:
    with pytest.raises(NodeError) as told:
        read_environment({**BARE, **more})
    return str(told.value)


@pytest.mark.unit
def test_the_variables_say_what_a_job_file_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    git = {"OCI__RUNTIME_TYPE": "git", "ENTRY_POINT": "train.py"}
    for uri, code in {
        "https://host/name": "git+https://host/name",
        "git@host:team/name.git": "git+git@host:team/name.git",
        "git+ssh://git@host/name": "git+ssh://git@host/name",
        "repositories/name": f"git+{tmp_path}/repositories/name",
    }.items():
        assert code_and_place(**git, OCI__RUNTIME_URI=uri) == (code, "", "train.py")
    remote = {"RUNTIME_TYPE": "Remote", "RUNTIME_URI": "https://host/code.zip"}
    assert code_and_place(**remote) == ("https://host/code.zip", "", None)
    assert code_and_place(RUNTIME_TYPE="remote", RUNTIME_URI="file:///a%20b/c")[0] == "/a b/c"


@pytest.mark.unit
def test_the_code_is_where_ads_has_it() -> None:
    git = {"RUNTIME_TYPE": "git", "RUNTIME_URI": "https://host/name"}
    for entry, found in {
        "/code/src/train.py": ("/code", "src/train.py"),
        "/app/train.py": ("/app", "train.py"),
        "src/train.py": ("", "src/train.py"),
    }.items():
        assert code_and_place(**git, ENTRY_POINT=entry)[1:] == found
    assert code_and_place(**git, ENTRY_POINT="/a/src/train.py", CODE_DIR="/a")[1:] == ("/a", "src/train.py")


@pytest.mark.unit
def test_code_that_is_on_the_machine_is_not_fetched() -> None:
    for kind in ("", "python", "None"):
        assert code_and_place(OCI__RUNTIME_TYPE=kind, CODE_DIR="/app") == (None, "/app", None)


@pytest.mark.unit
def test_python_paths_are_taken_along() -> None:
    git = {"RUNTIME_TYPE": "git", "RUNTIME_URI": "https://host/name"}
    assert read_environment({**BARE, **git, "RUNTIME_PYTHON_PATH": "src:lib:"})[1].python_path == ("src", "lib")


@pytest.mark.unit
@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"OCI__RUNTIME_TYPE": "git"}, "RUNTIME_URI: not set"),
        ({"OCI__RUNTIME_TYPE": "svn"}, "OCI__RUNTIME_TYPE: expected git or remote, found 'svn'"),
        ({"RUNTIME_TYPE": "remote", "RUNTIME_URI": "https://host/page"}, "RUNTIME_URI: expected a path or"),
        ({"RUNTIME_TYPE": "git", "RUNTIME_URI": "--upload-pack=x"}, "RUNTIME_URI: expected a path or"),
        (
            {"RUNTIME_TYPE": "git", "RUNTIME_URI": "https://host/a", "RUNTIME_GIT_BRANCH": "--x"},
            "'--x' is no branch, tag or commit",
        ),
        (
            {"RUNTIME_TYPE": "git", "RUNTIME_URI": "git@host:a", "OCI__RUNTIME_GIT_SECRET_ID": "ocid1.secret"},
            "RUNTIME_GIT_SECRET_ID: keys are not fetched from a vault by this version",
        ),
    ],
)
def test_what_the_variables_cannot_say_is_told(variables: dict[str, str], words: str) -> None:
    assert words in complaint(**variables)


@pytest.mark.unit
def test_a_password_in_a_variable_is_refused_and_not_shown() -> None:
    for kind, path in (("git", "a.git"), ("remote", "a.zip")):
        told = complaint(RUNTIME_TYPE=kind, RUNTIME_URI=f"https://ada:hunter2@host/{path}")
        assert "password" in told
        assert "hunter2" not in told
