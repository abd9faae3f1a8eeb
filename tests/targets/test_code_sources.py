"""Jobs whose code is elsewhere: a plan asks nobody, a launch fetches once, and every node has the same."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.errors import CodeError
from muster.launching import plan
from muster.spec.load import load_text
from muster.workdir import opening
from tests.harness import Muster, eventually
from tests.needs import needs
from tests.node.hands import read_json, texts_of
from tests.targets.test_resume import SUDDEN
from tests.workdir.servers import Repository, Web, repository, web

SCRIPT = "import os, helper\nprint(helper.NAME, os.environ['RANK'], flush=True)\n"


def code(name: str) -> dict[str, str]:
    return {"train.py": SCRIPT, "helper.py": f"NAME = {name!r}\n"}


def zip_of(files: dict[str, str], below: str = "") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as writing:
        for name, content in files.items():
            writing.writestr(below + name, content)
    return out.getvalue()


@pytest.fixture
def made(tmp_path: Path) -> Repository:
    needs("git")
    made = repository(tmp_path / "repositories" / "made")
    made.commit(code("first"))
    made.git("tag", "v1")
    made.commit(code("second"))
    return made


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Web]:
    with web(repositories=tmp_path / "repositories") as server:
        yield server


@pytest.fixture(autouse=True)
def temporary(muster: Muster, tmp_path: Path) -> Iterator[Path]:
    """Where the launcher and the nodes have what is temporary; nothing may be left there."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    muster.env["TMPDIR"] = str(folder)
    yield folder
    assert list(folder.iterdir()) == []


def job(muster: Muster, source: str, **fields: Any) -> Path:
    return muster.job(None, **{"code": source, "entry": "train.py", "workers": 1, **fields})


def plan_of(muster: Muster, run: str) -> dict[str, Any]:
    return read_json(muster.runs / run / "plan.json")


def no_run(muster: Muster) -> bool:
    return not muster.runs.exists() and not (muster.home / "index").exists()


# --- a plan is dry ---------------------------------------------------------------------------------------------


def test_a_plan_fetches_nothing(muster: Muster, made: Repository, served: Web, temporary: Path) -> None:
    served.answers["/code.zip"] = zip_of(code("zip"))
    for source in (f"git+{served.url('/git/made')}#v1", served.url("/code.zip"), served.url("/none.zip")):
        path = job(muster, source)
        planned = json.loads(muster("plan", path, "--json").stdout)
        assert planned["code"] == {"source": source, "digest": "", "files": 0, "bytes": 0, "ignored": []}
        assert "code: fetched at launch, and then the same for all nodes" in planned["notes"]
        assert {node["environment"]["MUSTER_CODE"] for node in planned["nodes"]} == {""}
        shown = muster("plan", path).stdout
        assert source in shown
        assert "fetched at launch" in shown
    assert served.asked == []
    assert not muster.home.exists()


# --- a launch fetches, once ------------------------------------------------------------------------------------


def test_a_commit_of_git_runs_on_all_nodes(muster: Muster, made: Repository) -> None:
    first = made.git("rev-parse", "v1")
    source = f"git+file://{made.folder}#{first}"
    done = muster("run", job(muster, source, workers=2))
    assert sorted(done.stdout.splitlines()) == [f"[rank {rank}] first {rank}" for rank in range(3)]
    assert f"muster: fetched {source}\n" in done.stderr
    run = muster.run_id()
    plan, document = plan_of(muster, run), read_json(muster.runs / run / "job.json")
    assert plan["code"]["source"] == source
    assert plan["code"]["files"] == 2
    digest = plan["code"]["digest"]
    assert {node["environment"]["MUSTER_CODE"] for node in plan["nodes"]} == {digest}
    assert document["code"]["digest"] == digest
    assert document["job"]["code"] == source
    assert "helper.py" in muster("outputs", run, "--code").stdout


def test_a_branch_is_written_down_as_the_commit_it_was(muster: Muster, made: Repository, served: Web) -> None:
    path = job(muster, f"git+{served.url('/git/made')}#main", workers=0)
    commits = [made.git("rev-parse", "main")]
    assert muster("run", path).stdout == "[rank 0] second 0\n"
    first = muster.run_id()
    commits.append(made.commit(code("third")))
    assert muster("run", path).stdout == "[rank 0] third 0\n"
    plans = [plan_of(muster, first), plan_of(muster, muster.run_id(known=(first,)))]
    assert [plan["code"]["source"].partition("#")[2] for plan in plans] == commits
    assert plans[0]["code"]["digest"] != plans[1]["code"]["digest"]


def test_a_commit_that_the_work_dir_has_is_neither_fetched_nor_sent_again(
    muster: Muster, made: Repository, served: Web
) -> None:
    source = f"git+{served.url('/git/made')}#{made.git('rev-parse', 'HEAD').strip()}"
    muster("run", job(muster, source))
    first, asked = muster.run_id(), len(served.asked)
    assert asked
    sent = sorted(path for path in (muster.runs / "code").rglob("*") if path.is_file())
    done = muster("run", job(muster, source))
    assert "is in the work dir already" in done.stderr
    assert len(served.asked) == asked
    assert sorted(path for path in (muster.runs / "code").rglob("*") if path.is_file()) == sent
    assert texts_of(muster, muster.run_id((first,))) == texts_of(muster, first)


def test_the_same_code_from_git_and_from_a_folder_is_one_bundle(muster: Muster, made: Repository) -> None:
    muster("run", job(muster, f"git+file://{made.folder}#main", workers=0))
    muster("run", job(muster, str(made.folder), workers=0))
    assert len([path for path in (muster.runs / "code").iterdir() if path.is_file()]) == 1


@pytest.mark.parametrize("framework", ["plain", pytest.param("dask", marks=pytest.mark.slow)])
def test_an_archive_on_the_web_runs_on_all_nodes_and_is_fetched_once(
    muster: Muster, served: Web, framework: str
) -> None:
    """As GitHub makes them, with one folder around all."""
    files = code("zip")
    if framework == "dask":
        files["train.py"] = (
            "from distributed import Client\n"
            "def name(_):\n    import helper\n    return helper.NAME\n"
            "print(Client().submit(name, 0).result(), 0, flush=True)\n"
        )
    served.answers["/archive/v1.zip"] = zip_of(files, below="made-1/")
    done = muster("run", job(muster, served.url("/archive/v1.zip"), framework=framework, workers=2))
    expected = ["[main script] zip 0"] if framework == "dask" else [f"[rank {rank}] zip {rank}" for rank in range(3)]
    assert sorted(line for line in done.stdout.splitlines() if " zip " in line) == expected
    assert served.asked == ["/archive/v1.zip"]
    assert "#sha256=" in plan_of(muster, muster.run_id())["code"]["source"]


def test_an_archive_of_this_machine_and_a_script_on_the_web_run(muster: Muster, served: Web) -> None:
    path = job(muster, "kept.zip", workers=0)
    (path.parent / "kept.zip").write_bytes(zip_of(code("kept")))
    assert json.loads(muster("plan", path, "--json").stdout)["code"]["digest"] == ""
    assert muster("run", path).stdout == "[rank 0] kept 0\n"
    served.answers["/train.py"] = b"print('alone')\n"
    assert muster("run", job(muster, served.url("/train.py"), workers=0)).stdout == "[rank 0] alone\n"


def test_a_detached_run_has_its_code_before_the_command_returns(muster: Muster, made: Repository, served: Web) -> None:
    path = job(muster, f"git+{served.url('/git/made')}#v1")
    run = muster("run", path, "--detach").stdout.strip()
    asked = len(served.asked)
    eventually(lambda: (muster.runs / run / "result.json").exists(), within=60)
    assert sorted(texts_of(muster, run)) == ["first 0", "first 1"]
    assert len(served.asked) == asked


def test_a_resumed_run_has_the_code_that_was_fetched(muster: Muster, served: Web) -> None:
    served.answers["/code.zip"] = zip_of(code("zip"))
    words = [sys.executable, "-c", SUDDEN, "run", str(job(muster, served.url("/code.zip"))), "1"]
    done = subprocess.run(words, env=muster.env, cwd=muster.folder, capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL
    served.answers["/code.zip"] = zip_of(code("later"))
    resumed = muster("run", "--resume", muster.run_id())
    assert sorted(resumed.stdout.splitlines()) == ["[rank 0] zip 0", "[rank 1] zip 1"]
    assert served.asked == ["/code.zip"]


def test_a_run_from_python_fetches_too(muster: Muster, made: Repository) -> None:
    text = (
        "import sys, muster\n"
        "job = muster.job(name='a', framework='plain', code=sys.argv[1], entry='train.py', workers=0)\n"
        "assert muster.plan(job).code.digest == ''\n"
        "print(muster.run(job).wait().exit_code)\n"
    )
    words = [sys.executable, "-c", text, f"git+file://{made.folder}#v1"]
    done = subprocess.run(words, env=muster.env, cwd=muster.folder, capture_output=True, text=True, timeout=120)
    assert done.stdout == "0\n", done.stderr
    assert texts_of(muster, muster.run_id()) == ["first 0"]


# --- what goes wrong, goes wrong before there is a run ---------------------------------------------------------


def test_an_entry_that_is_not_in_the_code_is_told_before_any_node_starts(
    muster: Muster, made: Repository, served: Web
) -> None:
    served.answers["/code.zip"] = zip_of(code("zip"))
    for source in (f"git+file://{made.folder}#v1", served.url("/code.zip")):
        done = muster("run", job(muster, source, entry="trian.py"), check=125)
        assert f"entry: there is no 'trian.py' in {source}" in done.stderr
        assert "Did you mean `train.py`?" in done.stderr
    assert no_run(muster)


def test_what_cannot_be_fetched_is_told_and_leaves_no_run(muster: Muster, made: Repository, served: Web) -> None:
    served.answers["/text.zip"] = b"hello"
    (made.folder / "passwords").symlink_to("/etc/passwd")
    made.commit({})
    for source, words in {
        served.url("/none.zip"): "there is nothing at",
        served.url("/text.zip"): "is no whole zip or tar archive",
        f"git+{served.url('/git/none')}": "not found",
        f"git+file://{made.folder}#v9": "has no branch, tag or commit 'v9'",
        f"git+file://{made.folder}": "leads out of the code folder, to /etc/passwd",
    }.items():
        done = muster("run", job(muster, source), check=125)
        assert words in done.stderr
        assert "Traceback" not in done.stderr
    assert no_run(muster)


def test_a_bucket_that_cannot_be_opened_is_refused_by_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(opening.KINDS, "az", opening.Kind("no_such_package:open", "pip install it."))
    made = load_text("{name: a, framework: dask, code: 'az://bucket/code.zip', entry: train.py}")
    with pytest.raises(CodeError) as told:
        plan(made)
    assert told.value.message.startswith("code: cannot open az://bucket/code.zip")
    assert told.value.fix == "pip install it."


@pytest.mark.parametrize(
    "source",
    [
        "git+https://ada:hunter2@host/a.git",
        "https://hunter2@host/a.git#v1",
        "git+ssh://ada:hunter2@host/a",
        "https://ada:hunter2@host/code.zip",
        "https://host/code.zip?X-Amz-Signature=hunter2",
        "https://ada:hunter2@host/page",
        "gti+https://ada:hunter2@host/a.git",
    ],
)
def test_a_password_in_a_job_file_is_refused_and_shown_nowhere(muster: Muster, source: str) -> None:
    path = job(muster, source)
    for verb in ("plan", "run"):
        done = muster(verb, path, check=2)
        assert "job.yaml:1: code: " in done.stderr
        assert "hunter2" not in done.stdout + done.stderr
    assert not muster.home.exists()


def test_a_launcher_that_is_stopped_while_it_fetches_leaves_nothing(
    muster: Muster, served: Web, temporary: Path
) -> None:
    """Over http by us, and by git: the servers take the question and never answer."""
    over = threading.Event()

    def never(handler: Any) -> None:
        over.wait(60)
        handler.close_connection = True

    served.answers |= {"/code.zip": never, "/x.git/info/refs": never}
    try:
        for source in (served.url("/code.zip"), f"git+{served.url('/x.git')}"):
            asked = len(served.asked)
            launcher = muster.start("run", job(muster, source))
            served.wait_for(asked + 1)
            launcher.send_signal(signal.SIGINT)
            _, told = launcher.communicate(timeout=30)
            assert launcher.returncode not in (0, None)
            assert "Traceback" not in told
            assert list(temporary.iterdir()) == []
    finally:
        over.set()
    assert no_run(muster)
